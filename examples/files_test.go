package examples

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nastyFiles are files whose bytes are easily lost. None is empty: those have no lines.
func nastyFiles() map[string][]byte {
	noise := make([]byte, 200_000)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(noise)
	files := map[string]string{
		"plain.log":           "one\ntwo\nthree\n",
		"crlf.txt":            "one\r\ntwo\r\n",
		"mixed.txt":           "unix\nwindows\r\nunix\n",
		"no-newline":          "first\nlast",
		"no-newline-crlf":     "first\r\nlast\r",
		"empty-lines":         "\n\n\r\n\n\r\n",
		"one-newline":         "\n",
		"lone-returns":        "a\rb\r\r\nc\n\rd\r",
		"not-utf8":            "\xff\xfe\x80\n\xc3\x28\r\n\xed\xa0\x80",
		"zeros":               "\x00\n\x00\x00\r\n\x00",
		"dir/long-line":       strings.Repeat("long ", 900<<10/5) + "\r\nshort\n",
		"dir/exactly-buffers": strings.Repeat("b", 64<<10-1) + "\n" + strings.Repeat("b", 64<<10-1) + "\r\n" + strings.Repeat("b", 64<<10),
		"dir/deep/plain.log":  "the same base name\n",
		"dir/ü n\t'\"$x":      "an odd name\n",
		"noise":               string(noise),
		"many-lines":          strings.Repeat("2026-01-02 03:04:05 INFO something happened\n", 20_000),
	}
	out := make(map[string][]byte)
	for name, content := range files {
		out[name] = []byte(content)
	}
	return out
}

func manyFiles(n int) map[string][]byte {
	files := make(map[string][]byte)
	for i := range n {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = bytes.Repeat(fmt.Appendf(nil, "file %d\r\n\n", i), 1+i*3)
	}
	return files
}

// write makes the files under dir and returns their names.
func write(t *testing.T, dir string, files map[string][]byte) []string {
	t.Helper()
	var names []string
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// wantFiles compares what is under dir with the files: those and no others.
func wantFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found++
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, known := files[filepath.ToSlash(name)]
		if !known || !bytes.Equal(got, want) {
			t.Errorf("%s: known %v, %d bytes, want %d: %.80q, want %.80q", name, known, len(got), len(want), got, want)
		}
		return nil
	})
	if err != nil || found != len(files) {
		t.Errorf("%d files, want %d, %v", found, len(files), err)
	}
}
