package golden

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Next is the folder of the version to come.
const Next = "next"

// Kinds of goldens, which are folders of a release.
const (
	Batches   = "batches"
	Frames    = "frames"
	Datagrams = "datagrams"
)

// Testdata is the folder of the releases within compat.
const Testdata = "testdata"

// A File is one golden.
type File struct {
	Release string
	Kind    string
	Name    string // without .hex
	Bytes   []byte
	Text    string // as it stands in the file
}

func (f File) String() string { return path.Join(f.Release, f.Kind, f.Name) }

// MeaningPath is the file that says what f means, within compat.
func (f File) MeaningPath() string { return path.Join(Testdata, f.String()+".json") }

// Releases gives the folders with goldens under compat, which is a directory, in order of
// their names; Next is among them.
func Releases(compat string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(compat, Testdata))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if !slices.Contains(names, Next) {
		return nil, fmt.Errorf("%s has no folder %q", compat, Next)
	}
	return names, nil
}

// Load reads all goldens of a kind, of every release. A release without any is an error, so
// that no test passes for want of files.
func Load(compat, kind string) ([]File, error) {
	releases, err := Releases(compat)
	if err != nil {
		return nil, err
	}
	var all []File
	for _, release := range releases {
		dir := filepath.Join(compat, Testdata, release, kind)
		names, err := fs.Glob(os.DirFS(dir), "*.hex")
		if err == nil && len(names) == 0 {
			err = errors.New("no golden is there")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		for _, name := range names {
			f := File{Release: release, Kind: kind, Name: strings.TrimSuffix(name, ".hex")}
			if err := f.read(filepath.Join(dir, name)); err != nil {
				return nil, err
			}
			all = append(all, f)
		}
	}
	return all, nil
}

func (f *File) read(name string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f.Text = string(raw)
	if f.Bytes, err = Unhex(f.Text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Unhex reads the bytes of annotated hex.
func Unhex(text string) ([]byte, error) {
	var digits strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(code), ""))
	}
	return hex.DecodeString(digits.String())
}
