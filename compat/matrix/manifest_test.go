package matrix

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/compat/golden"
)

var freeze = flag.String("freeze", "", "make this release, such as v0.1.0, of next")

// decoderSum is the SHA-256 of the frozen decoder. It never changes from the first tag on.
const decoderSum = "bf3b722195ebcf65da34fb936bd02d4faac406a0a12d3b0c72f4d30a4c96df53"

func faults(t testing.TB, dir string) []string {
	t.Helper()
	m, err := golden.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	have, err := golden.Sum(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return m.Faults(have)
}

// TestManifest keeps the frames of releases as they are.
func TestManifest(t *testing.T) {
	for _, fault := range faults(t, ".") {
		t.Error(fault)
	}
}

// TestFreeze makes a release: of this folder with the flag, else of a copy, in which a byte is
// then changed.
func TestFreeze(t *testing.T) {
	if *freeze != "" {
		if err := golden.Freeze(".", *freeze); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	if err := golden.Freeze(dir, "v99.0.0"); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, dir); len(found) > 0 {
		t.Error(found)
	}
	hello := filepath.Join(dir, "testdata", "v99.0.0", "client", "hello-reads-1.hex")
	raw, err := os.ReadFile(hello)
	if err == nil {
		err = os.WriteFile(hello, append(raw, "00\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if found := faults(t, dir); len(found) != 1 || !strings.Contains(found[0], "hello-reads-1.hex is frozen and has changed") {
		t.Errorf("a change of a frozen frame gives %q", found)
	}
}

// TestDecoderIsFrozen: it does not change, and knows nothing of what does.
func TestDecoderIsFrozen(t *testing.T) {
	const name = "frozen1_test.go"
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(raw)); sum != decoderSum {
		t.Errorf("%s has the checksum %s, it was frozen with %s", name, sum, decoderSum)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, raw, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range file.Imports {
		if strings.Contains(imported.Path.Value, "quoin") {
			t.Errorf("it imports %s", imported.Path.Value)
		}
	}
}
