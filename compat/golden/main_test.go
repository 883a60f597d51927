package golden

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := programs(); err == nil {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// programs is the directory for programs that are built, one for all tests.
var programs = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "quoin-golden-") })

var rewrite = flag.Bool("rewrite", false, "write the files of next anew; review the diff")

// compat is the folder whose testdata these tests are about.
const compat = ".."

func load(t testing.TB, kind string) []File {
	t.Helper()
	all, err := Load(compat, kind)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func releases(t testing.TB) []string {
	t.Helper()
	names, err := Releases(compat)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// wantMeaning holds what a golden means today to what is frozen.
func wantMeaning(t *testing.T, f File, today any) {
	t.Helper()
	text, err := json.MarshalIndent(today, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(compat, f.MeaningPath())
	if *rewrite && f.Release == Next {
		write(t, name, append(text, '\n'))
	}
	if err := Agree(read(t, name), text); err != nil {
		t.Errorf("%v means something else than when it was frozen: %v", f, err)
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
