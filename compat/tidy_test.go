package compat

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/quoin-io/quoin/"

// listed is what the go command says of a package.
type listed struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func packages(t *testing.T) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// arrows says which rooms a room may import, besides itself and other modules. A room is
// a folder at the top of the tree; wire/udp is one of its own, below all others.
var arrows = map[string][]string{
	"wire/udp":         {},
	"batchfmt":         {},
	"wire":             {"batchfmt"},
	"sdk":              {"wire", "batchfmt", "wire/udp"},
	"server":           {"wire", "batchfmt", "wire/udp"},
	"server/cmd/quoin": {"server", "sdk", "wire", "batchfmt"},
	"examples":         {"sdk", "server", "wire", "batchfmt"},
	"compat":           {"sdk", "server", "wire", "batchfmt", "wire/udp"},
}

// room is the longest entry of arrows that the package stands in.
func room(path string) (name string) {
	path = strings.TrimPrefix(path, module)
	for r := range arrows {
		if (path == r || strings.HasPrefix(path, r+"/")) && len(r) > len(name) {
			name = r
		}
	}
	return name
}

func allowed(from, to string) bool {
	if from == to {
		return true
	}
	for _, r := range arrows[from] {
		if r == to {
			return true
		}
	}
	return false
}

func TestImportsGoDownTheArrows(t *testing.T) {
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		if from == "" {
			t.Errorf("%s stands in no room", p.ImportPath)
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, module) && !allowed(from, room(imported)) {
				t.Errorf("%s imports %s: %s may not import %s", p.ImportPath, imported, from, room(imported))
			}
		}
	}
}

func TestArrowsCanRefuse(t *testing.T) {
	for _, row := range []struct {
		from, to string
		want     bool
	}{
		{"sdk/internal/lane", "batchfmt", true},
		{"sdk", "server", false},
		{"server/internal/session", "sdk", false},
		{"server/cmd/quoin", "sdk", true},
		{"batchfmt", "wire", false},
		{"wire", "wire/udp", false},
	} {
		if got := allowed(room(module+row.from), room(module+row.to)); got != row.want {
			t.Errorf("%s imports %s: allowed is %v", row.from, row.to, got)
		}
	}
}

func TestEveryPackageIsExplained(t *testing.T) {
	for _, p := range packages(t) {
		b, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s has no doc.go", p.ImportPath)
			continue
		}
		if !strings.HasPrefix(string(b), "// ") || strings.Contains(string(b), "\n\npackage ") {
			t.Errorf("doc.go of %s does not begin with the package comment, or has a blank line behind it", p.ImportPath)
		}
	}
}

func TestEveryPackageLooksForLeaks(t *testing.T) {
	for _, p := range packages(t) {
		tests := append(append([]string(nil), p.TestGoFiles...), p.XTestGoFiles...)
		found := len(tests) == 0
		for _, name := range tests {
			b, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "go.uber.org/goleak")
		}
		if !found {
			t.Errorf("the tests of %s do not look for goroutines that are left", p.ImportPath)
		}
	}
}

// mayUseOS are the packages of the server that may touch the operating system's files by
// themselves, or name its errors: the seam itself, the catalog and the credentials, which
// are small and tested with kills and full disks, and what has no files.
var mayUseOS = map[string]string{
	"server":                      "makes the data directory, announces the URL",
	"server/cmd/quoin":            "a program",
	"server/internal/vfs":         "the seam",
	"server/internal/catalog":     "bbolt's file",
	"server/internal/credentials": "keys and certificate",
	"server/internal/broker":      "takes back a catalog of its own making",
	"server/internal/session":     "the error of a deadline, an environment variable",
	"server/internal/planted":     "an environment variable",
}

func TestLogsGoThroughTheFileSystemSeam(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if _, ok := mayUseOS[path]; ok || !strings.HasPrefix(path, "server/internal/") {
			continue
		}
		for _, imported := range p.Imports {
			if imported == "os" || imported == "golang.org/x/sys/unix" {
				t.Errorf("%s imports %s: its files must go through vfs, or no test can make them fail", path, imported)
			}
		}
	}
}
