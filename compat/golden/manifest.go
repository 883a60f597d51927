package golden

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ManifestPath is the manifest within compat.
const ManifestPath = Testdata + "/MANIFEST"

// A Manifest has the SHA-256 of each frozen file, in hex, by its path within compat. Its text
// is that of sha256sum.
type Manifest map[string]string

var (
	manifestLine = regexp.MustCompile(`^([0-9a-f]{64})  (\S+)$`)
	releaseName  = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
)

// ParseManifest reads the text of a manifest. A path that is there twice is an error.
func ParseManifest(text string) (Manifest, error) {
	m := Manifest{}
	for line := range strings.Lines(text) {
		parts := manifestLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if parts == nil {
			return nil, fmt.Errorf("manifest: this is no line of one: %q", line)
		}
		if _, twice := m[parts[2]]; twice {
			return nil, fmt.Errorf("manifest: %s is there twice", parts[2])
		}
		m[parts[2]] = parts[1]
	}
	return m, nil
}

// ReadManifest reads the manifest of compat, which is a directory.
func ReadManifest(compat string) (Manifest, error) {
	text, err := os.ReadFile(filepath.Join(compat, filepath.FromSlash(ManifestPath)))
	if err != nil {
		return nil, err
	}
	return ParseManifest(string(text))
}

func (m Manifest) String() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&text, "%s  %s\n", m[name], name)
	}
	return text.String()
}

// Sum makes the manifest of what is frozen in compat as it lies there: every file of every
// release but Next, and the sources of the frozen reader without its tests.
func Sum(compat fs.FS) (Manifest, error) {
	m := Manifest{}
	err := fs.WalkDir(compat, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !frozen(name) {
			return err
		}
		raw, err := fs.ReadFile(compat, name)
		sum := sha256.Sum256(raw)
		m[name] = hex.EncodeToString(sum[:])
		return err
	})
	return m, err
}

// frozen reports whether a path within compat is a file that the manifest must have.
func frozen(name string) bool {
	if ok, _ := path.Match("reader1/*.go", name); ok {
		return !strings.HasSuffix(name, "_test.go")
	}
	parts := strings.Split(name, "/")
	return len(parts) > 2 && parts[0] == Testdata && parts[1] != Next
}

// Faults says what of have is not as m wants it: files that changed, that are gone, and that
// came to be where nothing may.
func (m Manifest) Faults(have Manifest) []string {
	var faults []string
	for name, sum := range m {
		switch got, ok := have[name]; {
		case !ok:
			faults = append(faults, name+" is frozen and not there any more")
		case got != sum:
			faults = append(faults, name+" is frozen and has changed")
		}
	}
	for name := range have {
		if _, ok := m[name]; !ok {
			faults = append(faults, name+" stands among frozen files and is none of them")
		}
	}
	slices.Sort(faults)
	return faults
}

// Add takes over from have what m does not have. It never changes a line.
func (m Manifest) Add(have Manifest) {
	for name, sum := range have {
		if _, ok := m[name]; !ok {
			m[name] = sum
		}
	}
}

// Freeze makes a release of Next: it copies the folder, and adds the copies to the manifest.
// The name is a version such as v0.1.0. A release that is there already, or a manifest that
// finds a fault, is an error, and nothing is written then.
func Freeze(compat, release string) error {
	if !releaseName.MatchString(release) {
		return fmt.Errorf("%q is no version such as v0.1.0", release)
	}
	m, err := ReadManifest(compat)
	if err != nil {
		return err
	}
	have, err := Sum(os.DirFS(compat))
	if err != nil {
		return err
	}
	if faults := m.Faults(have); len(faults) > 0 {
		return fmt.Errorf("nothing is frozen, as there are faults: %s", strings.Join(faults, "; "))
	}
	to := filepath.Join(compat, Testdata, release)
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join(compat, Testdata, Next))); err != nil {
		return err
	}
	if have, err = Sum(os.DirFS(compat)); err != nil {
		return err
	}
	m.Add(have)
	return os.WriteFile(filepath.Join(compat, filepath.FromSlash(ManifestPath)), []byte(m.String()), 0o644)
}
