package campaign

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachRunLeavesALine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	before := *ledger
	*ledger = name
	t.Cleanup(func() { *ledger = before })
	t.Run("one", func(t *testing.T) {
		r := Start(t, 7, 8)
		r.Count("states", 2)
		r.Count("states", 3)
	})
	t.Run("two", func(t *testing.T) {
		Start(t)
		t.Skip("on purpose: the ledger must say that it was skipped")
	})
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(rows) != 2 {
		t.Fatalf("%d lines: %s", len(rows), b)
	}
	var lines [2]Line
	for i := range lines {
		if err := json.Unmarshal([]byte(rows[i]), &lines[i]); err != nil {
			t.Fatal(err)
		}
	}
	if l := lines[0]; l.What != t.Name()+"/one" || l.Verdict != "passed" || l.Counts["states"] != 5 || len(l.Seeds) != 2 || l.Commit == "" {
		t.Errorf("%+v", l)
	}
	if l := lines[1]; l.Verdict != "skipped" {
		t.Errorf("%+v", l)
	}
}

func TestWithoutTheFlagNothingIsWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Run("run", func(t *testing.T) { Start(t).Count("states", 1) })
	if names, err := os.ReadDir("."); err != nil || len(names) > 0 {
		t.Errorf("%v %v", names, err)
	}
}
