package golden

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxArchive bounds what a data directory takes in the repository, in bytes.
const maxArchive = 200 << 10

// private are the files of a data directory that no repository should hold: a server makes
// itself others.
var private = []string{"tls.crt", "tls.key", "reset.key", "token.key"}

// pack makes an archive of a data directory, which is the same for the same files.
func pack(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || isPrivate(d.Name()) {
			return err
		}
		return packFile(w, dir, name)
	})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func isPrivate(name string) bool {
	for _, p := range private {
		if name == p {
			return true
		}
	}
	return false
}

func packFile(w *tar.Writer, dir, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o600, Size: int64(len(b))}); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// unpack puts the data directory of a release into a directory of the test.
func unpack(t testing.TB, release string) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(filepath.Join(compat, Testdata, release, "data.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return dir
		}
		if err == nil {
			err = unpackFile(r, filepath.Join(dir, filepath.FromSlash(h.Name)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpackFile(r io.Reader, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o600)
}

// segments are the log files of a data directory.
func segments(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".seg") {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("no segments in %s: %v", dir, err)
	}
	return names
}
