package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var freeze = flag.String("freeze", "", "make this release, such as v0.1.0, of next")

func sum(t testing.TB, dir string) Manifest {
	t.Helper()
	have, err := Sum(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return have
}

func manifest(t testing.TB, dir string) Manifest {
	t.Helper()
	m, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestManifest is what keeps the promise: nothing that is frozen changes.
func TestManifest(t *testing.T) {
	for _, fault := range manifest(t, compat).Faults(sum(t, compat)) {
		t.Error(fault)
	}
}

func TestTheFrozenReaderIsInTheManifest(t *testing.T) {
	m := manifest(t, compat)
	for _, name := range []string{"doc.go", "decode.go", "records.go", "codec.go", "errors.go"} {
		if m["reader1/"+name] == "" {
			t.Errorf("%s has no line", name)
		}
	}
}

// copied copies all of compat that the manifest speaks of.
func copied(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{Testdata, "reader1"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(compat, part))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFreeze makes a release: of the tree with the flag, else of a copy.
func TestFreeze(t *testing.T) {
	if *freeze != "" {
		if err := Freeze(compat, *freeze); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := copied(t)
	if err := Freeze(dir, "v99.0.0"); err != nil {
		t.Fatal(err)
	}
	m, before := manifest(t, dir), manifest(t, compat)
	if faults := m.Faults(sum(t, dir)); len(faults) > 0 {
		t.Error(faults)
	}
	for name, sum := range before {
		if m[name] != sum {
			t.Errorf("the line of %s was changed", name)
		}
	}
	if n := len(hexFiles(t, filepath.Join(compat, Testdata, Next, Batches))); n > len(m)-len(before) {
		t.Errorf("%d lines are new, next has %d batches alone", len(m)-len(before), n)
	}
	for name, want := range map[string]error{"v99.0.0": fs.ErrExist, "later": nil, "v1.0": nil, "../v1.0.0": nil} {
		if err := Freeze(dir, name); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("a release %q: %v", name, err)
		}
	}
}

// A change to a tree, that gives the way back.
type change func(t *testing.T, dir string) (undo func())

// TestManifestCanFail is the control: whatever is done to a frozen file is reported, and next
// may change.
func TestManifestCanFail(t *testing.T) {
	dir := copied(t)
	if err := Freeze(dir, "v99.0.0"); err != nil {
		t.Fatal(err)
	}
	const release = "testdata/v99.0.0/"
	for _, tt := range []struct {
		name string
		do   change
		want string // of the fault; empty for none
	}{
		{"a bit of a batch is turned", turnBit(release + "batches/v2-plain.hex"), release + "batches/v2-plain.hex is frozen and has changed"},
		{"a bit of the data directory is turned", turnBit(release + "data.tar.gz"), release + "data.tar.gz is frozen and has changed"},
		{"a meaning is changed", turnBit(release + "frames/Hello.json"), release + "frames/Hello.json is frozen and has changed"},
		{"the frozen reader is changed", turnBit("reader1/decode.go"), "reader1/decode.go is frozen and has changed"},
		{"a frame is gone", remove(release + "frames/Ping.hex"), release + "frames/Ping.hex is frozen and not there any more"},
		{"a batch came later", create(release + "batches/v1-late.hex"), release + "batches/v1-late.hex stands among frozen files and is none of them"},
		{"a release came without a line", create("testdata/v99.0.1/batches/a.hex"), "testdata/v99.0.1/batches/a.hex stands among frozen files and is none of them"},
		{"the frozen reader has a file more", create("reader1/more.go"), "reader1/more.go stands among frozen files and is none of them"},
		{"the frozen reader has a test more", create("reader1/more_test.go"), ""},
		{"a bit of next is turned", turnBit("testdata/next/batches/v2-plain.hex"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			undo := tt.do(t, dir)
			defer undo()
			faults := manifest(t, dir).Faults(sum(t, dir))
			if tt.want == "" && len(faults) > 0 || tt.want != "" && !slices.Equal(faults, []string{tt.want}) {
				t.Errorf("faults are %q, want %q", faults, tt.want)
			}
			if tt.want == "" {
				return
			}
			if err := Freeze(dir, "v99.0.2"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("a release could be made all the same: %v", err)
			}
		})
	}
}

func turnBit(name string) change {
	return func(t *testing.T, dir string) func() {
		b := read(t, filepath.Join(dir, name))
		turn := func() {
			b[len(b)/2] ^= 1
			write(t, filepath.Join(dir, name), b)
		}
		turn()
		return turn
	}
}

func remove(name string) change {
	return func(t *testing.T, dir string) func() {
		b := read(t, filepath.Join(dir, name))
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return func() { write(t, filepath.Join(dir, name), b) }
	}
}

func create(name string) change {
	return func(t *testing.T, dir string) func() {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), []byte("00\n"))
		return func() { _ = os.Remove(filepath.Join(dir, name)) }
	}
}

func TestParseManifest(t *testing.T) {
	line := strings.Repeat("0f", 32) + "  reader1/decode.go\n"
	for _, tt := range []struct {
		name, text string
		good       bool
	}{
		{"none", "", true},
		{"a line", line, true},
		{"a path twice", line + line, false},
		{"a short checksum", line[1:], false},
		{"one blank", strings.Replace(line, "  ", " ", 1), false},
		{"an empty line", line + "\n", false},
	} {
		m, err := ParseManifest(tt.text)
		if (err == nil) != tt.good || tt.good && m.String() != tt.text {
			t.Errorf("%s: %v, %v", tt.name, m, err)
		}
	}
}
