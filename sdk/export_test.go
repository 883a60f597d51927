package sdk

import (
	"errors"
	"os"
	"testing"

	"github.com/quoin-io/quoin/sdk/internal/outbox"
)

// BatchesInOutbox counts the batches without an outcome in a copy of an outbox directory.
func BatchesInOutbox(t *testing.T, dir, topic, name string) int {
	t.Helper()
	scratch := t.TempDir()
	if err := os.CopyFS(scratch, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	_, _, err := outbox.Open(scratch, outbox.Binding{Topic: topic, Producer: name}, outbox.Options{})
	binding, ok := errors.AsType[*outbox.BindingError](err)
	if !ok {
		t.Fatalf("open without a topic id: %v", err)
	}
	box, found, err := outbox.Open(scratch, binding.Have, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	return found.Batches()
}
