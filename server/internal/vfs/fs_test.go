package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestFS runs over all file systems: callers may not see which one they have.
func TestFS(t *testing.T) {
	systems := map[string]func(t *testing.T) (FS, string){
		"os":     func(t *testing.T) (FS, string) { return OS, t.TempDir() },
		"mem":    func(*testing.T) (FS, string) { return NewMem(), "/" },
		"faulty": func(*testing.T) (FS, string) { return NewFaulty(NewMem()), "/" },
	}
	tests := map[string]func(t *testing.T, fsys FS, dir string){
		"create refuses a name that exists":  createTwice,
		"missing names are fs.ErrNotExist":   missingNames,
		"bytes are read where written":       readBack,
		"truncate cuts, and adds zeros":      truncation,
		"rename replaces":                    renameReplaces,
		"an open file outlives its name":     openOutlivesName,
		"names are listed sorted":            listing,
		"remove all takes the tree":          removeTree,
		"a directory in use is not removed":  removeFullDir,
		"a closed file is fs.ErrClosed":      closedFile,
		"many may write and read one file":   concurrentUse,
		"a file is no directory":             fileAsDir,
		"directories are made and made anew": mkdirTwice,
		"negative positions are refused":     negativePositions,
	}
	for system, open := range systems {
		for name, test := range tests {
			t.Run(system+"/"+name, func(t *testing.T) {
				fsys, dir := open(t)
				test(t, fsys, dir)
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

// put makes a file with a content, open and not synced.
func put(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	return f
}

func get(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n != len(b) {
		t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
	}
	return string(b)
}

func createTwice(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "a")
	put(t, fsys, name, "x")
	_, err := fsys.Create(name)
	wantErr(t, err, fs.ErrExist)
}

func missingNames(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "missing")
	_, err := fsys.Open(name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Stat(name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.List(name)
	wantErr(t, err, fs.ErrNotExist)
	wantErr(t, fsys.Remove(name), fs.ErrNotExist)
	wantErr(t, fsys.Rename(name, name+"2"), fs.ErrNotExist)
	wantErr(t, fsys.SyncDir(name), fs.ErrNotExist)
	_, err = fsys.Create(filepath.Join(name, "a"))
	wantErr(t, err, fs.ErrNotExist)
	must(t, fsys.RemoveAll(name))
}

func readBack(t *testing.T, fsys FS, dir string) {
	f := put(t, fsys, filepath.Join(dir, "a"), "abc")
	_, err := f.WriteAt([]byte("xy"), 5)
	must(t, err)
	b := make([]byte, 9)
	n, err := f.ReadAt(b, 1)
	if string(b[:n]) != "bc\x00\x00xy" || err != io.EOF {
		t.Fatalf("read %q, %v", b[:n], err)
	}
	if n, err := f.ReadAt(b, 100); n != 0 || err != io.EOF {
		t.Fatalf("read behind the end: %d, %v", n, err)
	}
	must(t, f.Sync())
	must(t, DropCache(f))
	size, err := fsys.Stat(filepath.Join(dir, "a"))
	if err != nil || size != 7 {
		t.Fatalf("size is %d, %v", size, err)
	}
}

func truncation(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "a")
	f := put(t, fsys, name, "abcdef")
	must(t, f.Truncate(2))
	must(t, f.Truncate(4))
	if got := get(t, fsys, name); got != "ab\x00\x00" {
		t.Fatalf("content is %q", got)
	}
}

func renameReplaces(t *testing.T, fsys FS, dir string) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put(t, fsys, a, "new")
	put(t, fsys, b, "old")
	must(t, fsys.Rename(a, b))
	if got := get(t, fsys, b); got != "new" {
		t.Fatalf("content is %q", got)
	}
	_, err := fsys.Stat(a)
	wantErr(t, err, fs.ErrNotExist)
	must(t, fsys.MkdirAll(filepath.Join(dir, "sub")))
	must(t, fsys.Rename(b, filepath.Join(dir, "sub", "c")))
	if got := get(t, fsys, filepath.Join(dir, "sub", "c")); got != "new" {
		t.Fatalf("content is %q", got)
	}
}

func openOutlivesName(t *testing.T, fsys FS, dir string) {
	if runtime.GOOS == "windows" {
		return // there the name cannot go
	}
	name := filepath.Join(dir, "a")
	f := put(t, fsys, name, "abc")
	must(t, fsys.Remove(name))
	b := make([]byte, 3)
	_, err := f.ReadAt(b, 0)
	if err != nil || string(b) != "abc" {
		t.Fatalf("read %q, %v", b, err)
	}
}

func listing(t *testing.T, fsys FS, dir string) {
	for _, name := range []string{"c", "a", "b"} {
		put(t, fsys, filepath.Join(dir, name), "")
	}
	must(t, fsys.MkdirAll(filepath.Join(dir, "aa")))
	names, err := fsys.List(dir)
	if err != nil || strings.Join(names, " ") != "a aa b c" {
		t.Fatalf("names are %q, %v", names, err)
	}
}

func removeTree(t *testing.T, fsys FS, dir string) {
	must(t, fsys.MkdirAll(filepath.Join(dir, "d", "e")))
	must(t, put(t, fsys, filepath.Join(dir, "d", "e", "f"), "x").Close())
	must(t, fsys.RemoveAll(filepath.Join(dir, "d")))
	names, err := fsys.List(dir)
	if err != nil || len(names) != 0 {
		t.Fatalf("names are %q, %v", names, err)
	}
}

func removeFullDir(t *testing.T, fsys FS, dir string) {
	d := filepath.Join(dir, "d")
	must(t, fsys.MkdirAll(d))
	must(t, put(t, fsys, filepath.Join(d, "f"), "x").Close())
	if fsys.Remove(d) == nil {
		t.Fatal("a directory with a file in it was removed")
	}
	must(t, fsys.Remove(filepath.Join(d, "f")))
	must(t, fsys.Remove(d))
}

func closedFile(t *testing.T, fsys FS, dir string) {
	f, err := fsys.Create(filepath.Join(dir, "a"))
	must(t, err)
	must(t, f.Close())
	_, err = f.WriteAt([]byte("x"), 0)
	wantErr(t, err, fs.ErrClosed)
	_, err = f.ReadAt(make([]byte, 1), 0)
	wantErr(t, err, fs.ErrClosed)
	wantErr(t, f.Sync(), fs.ErrClosed)
	wantErr(t, f.Truncate(0), fs.ErrClosed)
	_, err = f.Size()
	wantErr(t, err, fs.ErrClosed)
	wantErr(t, f.Close(), fs.ErrClosed)
}

func concurrentUse(t *testing.T, fsys FS, dir string) {
	f := put(t, fsys, filepath.Join(dir, "a"), "")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			b := slices.Repeat([]byte{byte('a' + i)}, 100)
			if _, err := f.WriteAt(b, int64(i)*100); err != nil {
				t.Error(err)
			}
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
			got := make([]byte, 100)
			if _, err := f.ReadAt(got, int64(i)*100); err != nil || !slices.Equal(got, b) {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
	wg.Wait()
}

func fileAsDir(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "a")
	put(t, fsys, name, "")
	if _, err := fsys.Create(filepath.Join(name, "b")); err == nil {
		t.Error("a file was made in a file")
	}
	if fsys.MkdirAll(filepath.Join(name, "b")) == nil {
		t.Error("a directory was made in a file")
	}
	if _, err := fsys.List(name); err == nil {
		t.Error("a file was listed")
	}
}

func mkdirTwice(t *testing.T, fsys FS, dir string) {
	d := filepath.Join(dir, "x", "y")
	must(t, fsys.MkdirAll(d))
	must(t, fsys.MkdirAll(d))
	must(t, fsys.SyncDir(d))
	_, err := fsys.Stat(d)
	must(t, err)
}

func negativePositions(t *testing.T, fsys FS, dir string) {
	f := put(t, fsys, filepath.Join(dir, "a"), "abc")
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a read before the start succeeded")
	}
	if _, err := f.WriteAt([]byte("x"), -1); err == nil {
		t.Error("a write before the start succeeded")
	}
	if f.Truncate(-1) == nil {
		t.Error("a negative length was set")
	}
}

func TestOSModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // modes mean something else there
	}
	dir := filepath.Join(t.TempDir(), "d")
	must(t, OS.MkdirAll(dir))
	put(t, OS, filepath.Join(dir, "f"), "x")
	for name, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, "f"): 0o600} {
		info, err := os.Stat(name)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}
