package sdk_test

import (
	"path/filepath"
	"testing"
)

// An outbox that holds nothing says nothing of what the name has sent without it since.
func TestOutboxAfterTheNameWasUsedWithout(t *testing.T) {
	_, c, _ := setUp(t, 1)
	dir := filepath.Join(t.TempDir(), "outbox")
	p := build(t, c.Producer("t").Named("n").Outbox(dir))
	goesOn(t, p, 0, 0, 0)
	if _, err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	p = build(t, c.Producer("t").Named("n"))
	goesOn(t, p, 1, 1, 1)
	if _, err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	p = build(t, c.Producer("t").Named("n").Outbox(dir))
	goesOn(t, p, 2, 2, 2)
	wantLog(t, c, "0", "1", "2")
}
