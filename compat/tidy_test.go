package compat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	Deps         []string // all that it links
	TestImports  []string
	XTestImports []string
	TestGoFiles  []string
	XTestGoFiles []string
}

// list asks the go command once for all tests.
var list = sync.OnceValues(func() (all []listed, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps,TestImports,XTestImports,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	for d := json.NewDecoder(strings.NewReader(string(out))); err == nil; {
		var p listed
		if err = d.Decode(&p); err == nil {
			all = append(all, p)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return all, nil
})

func packages(t *testing.T) []listed {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d packages", len(all))
	}
	return all
}

// report fails the test for each fault.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Error(fault)
	}
}

// arrows says which rooms a room may import, besides itself and other modules. A room is
// a folder at the top of the tree; wire/udp is one of its own, below all others, wire/copies is,
// and so is the frozen reader, which knows nobody.
var arrows = map[string][]string{
	"wire/udp":         {},
	"batchfmt":         {},
	"wire":             {"batchfmt"},
	"wire/copies":      {"wire"},
	"sdk":              {"wire", "batchfmt", "wire/udp", "wire/copies"},
	"server":           {"wire", "batchfmt", "wire/udp", "wire/copies"},
	"server/cmd/quoin": {"server", "sdk", "wire", "batchfmt"},
	"examples":         {"sdk", "server", "wire", "batchfmt"},
	"compat":           {"sdk", "server", "wire", "batchfmt", "wire/udp", "compat/reader1"},
	"compat/reader1":   {},
}

// testArrows says what the tests of a room may import besides: each end has the other one to
// talk to.
var testArrows = map[string][]string{
	"sdk":              {"server"},
	"server":           {"sdk", "compat"},
	"server/cmd/quoin": {},
	"compat/reader1":   {"batchfmt", "compat"},
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

// importFaults are the imports of a package that go up.
func importFaults(p listed) (faults []string) {
	from := room(p.ImportPath)
	if from == "" {
		return []string{p.ImportPath + " stands in no room"}
	}
	check := func(who string, imports []string, allowed ...string) {
		for _, imported := range imports {
			to := room(imported)
			if strings.HasPrefix(imported, module) && to != from && !slices.Contains(allowed, to) {
				faults = append(faults, fmt.Sprintf("%s imports %s: %s%s may not import %s", p.ImportPath, imported, who, from, to))
			}
		}
	}
	check("", p.Imports, arrows[from]...)
	ofTests := slices.Concat(arrows[from], testArrows[from])
	check("tests of ", slices.Concat(p.TestImports, p.XTestImports), ofTests...)
	return faults
}

func TestImportsGoDownTheArrows(t *testing.T) {
	for _, p := range packages(t) {
		report(t, importFaults(p))
	}
}

func TestArrowsCanRefuse(t *testing.T) {
	for _, row := range []struct {
		from, to   string
		want, test bool // allowed, and allowed to tests
	}{
		{"sdk/internal/lane", "batchfmt", true, true},
		{"sdk", "server", false, true},
		{"sdk/source", "server/servertest", false, true},
		{"server/internal/session", "sdk", false, true},
		{"server/cmd/quoin", "sdk", true, true},
		{"batchfmt", "wire", false, false},
		{"batchfmt", "compat/golden", false, false},
		{"wire", "wire/udp", false, false},
		{"wire", "sdk", false, false},
		{"sdk", "compat/reader1", false, false},
		{"compat/reader1", "batchfmt", false, true},
		{"compat/golden", "compat/reader1", true, true},
		{"examples/send", "compat/golden", false, false},
		{"nowhere", "batchfmt", false, false},
	} {
		to := []string{module + row.to}
		if got := importFaults(listed{ImportPath: module + row.from, Imports: to}) == nil; got != row.want {
			t.Errorf("%s imports %s: allowed is %v", row.from, row.to, got)
		}
		if got := importFaults(listed{ImportPath: module + row.from, XTestImports: to}) == nil; got != row.test {
			t.Errorf("a test of %s imports %s: allowed is %v", row.from, row.to, got)
		}
	}
}

// links is all that a program gets which imports a package: roots of import paths besides the
// standard library. What stands here is a promise to applications, who carry it.
var links = map[string][]string{
	"batchfmt": {module + "batchfmt", "github.com/klauspost/compress", "github.com/cespare/xxhash/v2"},
	"wire":     {module + "wire", module + "batchfmt", "github.com/klauspost/compress", "github.com/cespare/xxhash/v2"},
	"wire/udp": {module + "wire/udp", "golang.org/x/net", "golang.org/x/sys"},
	"sdk": {
		module + "sdk", module + "wire", module + "batchfmt", "github.com/quic-go/quic-go",
		"github.com/klauspost/compress", "github.com/cespare/xxhash/v2",
		"golang.org/x/crypto", // of quic-go
		"golang.org/x/net",    // of quic-go and wire/udp
		"golang.org/x/sys",    // of quic-go and wire/udp
		"golang.org/x/text",   // of x/net
	},
	"compat/reader1": {module + "compat/reader1", "github.com/klauspost/compress", "github.com/cespare/xxhash/v2"},
}

// linkFaults are the packages that a program would get and that are not listed.
func linkFaults(p listed, roots []string) (faults []string) {
	for _, dep := range p.Deps {
		first, _, _ := strings.Cut(dep, "/")
		within := func(root string) bool { return dep == root || strings.HasPrefix(dep, root+"/") }
		// The standard library has no dot in the first part of its paths, and vendors what
		// has one.
		if strings.Contains(first, ".") && !slices.ContainsFunc(roots, within) {
			faults = append(faults, fmt.Sprintf("%s links %s, which is not listed", p.ImportPath, dep))
		}
	}
	return faults
}

func TestLinksWhatIsListed(t *testing.T) {
	checked := 0
	for _, p := range packages(t) {
		if roots, ok := links[strings.TrimPrefix(p.ImportPath, module)]; ok {
			report(t, linkFaults(p, roots))
			checked++
		}
	}
	if checked != len(links) {
		t.Errorf("%d packages of %d are there", checked, len(links))
	}
}

func TestLinksCanFail(t *testing.T) {
	for dep, want := range map[string]bool{
		"net/http": true, "vendor/golang.org/x/text/unicode/bidi": true, module + "sdk/internal/lane": true,
		module + "sdkmore": false, module + "server": false, "github.com/spf13/cobra": false, "golang.org/x/text/width": true,
	} {
		if got := linkFaults(listed{ImportPath: module + "sdk", Deps: []string{dep}}, links["sdk"]) == nil; got != want {
			t.Errorf("sdk links %s: listed is %v", dep, got)
		}
	}
}

// docFaults says what is wrong with the doc.go in a directory.
func docFaults(p listed) []string {
	b, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
	switch {
	case err != nil:
		return []string{p.ImportPath + " has no doc.go"}
	case !strings.HasPrefix(string(b), "// ") || strings.Contains(string(b), "\n\npackage "):
		return []string{fmt.Sprintf("doc.go of %s does not begin with the package comment, or has a blank line behind it", p.ImportPath)}
	}
	return nil
}

func TestEveryPackageIsExplained(t *testing.T) {
	for _, p := range packages(t) {
		report(t, docFaults(p))
	}
}

func TestExplanationsCanFail(t *testing.T) {
	for text, want := range map[string]bool{
		"// Package p is good.\npackage p\n":          true,
		"// Package p is apart.\n\npackage p\n":       false,
		"package p\n":                                 false,
		"\n// Package p is late.\npackage p\n":        false,
		"// A licence.\n\n// Package p.\n\npackage p": false,
		"": false,
	} {
		dir := t.TempDir()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "doc.go"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := docFaults(listed{ImportPath: "p", Dir: dir}) == nil; got != want {
			t.Errorf("%q: explained is %v", text, got)
		}
	}
}

// leakFaults says whether the tests of a package, if there are any, look for goroutines that
// they leave.
func leakFaults(p listed) []string {
	tests := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
	found := len(tests) == 0
	for _, name := range tests {
		b, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return []string{err.Error()}
		}
		found = found || strings.Contains(string(b), "\"go.uber.org/"+"goleak\"")
	}
	if found {
		return nil
	}
	return []string{fmt.Sprintf("the tests of %s do not look for goroutines that are left", p.ImportPath)}
}

func TestEveryPackageLooksForLeaks(t *testing.T) {
	for _, p := range packages(t) {
		report(t, leakFaults(p))
	}
}

func TestLeakFaultsCanFail(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if leakFaults(listed{Dir: dir, TestGoFiles: []string{"a_test.go"}}) == nil {
		t.Error("tests that look for no leaks pass")
	}
	if leakFaults(listed{Dir: dir, XTestGoFiles: []string{"gone_test.go"}}) == nil {
		t.Error("tests that cannot be read pass")
	}
	if faults := leakFaults(listed{Dir: dir}); faults != nil {
		t.Error("a package without tests: ", faults)
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

// seamFaults are the ways around the file system of the tests that a package has.
func seamFaults(p listed) (faults []string) {
	path := strings.TrimPrefix(p.ImportPath, module)
	if _, ok := mayUseOS[path]; ok || !strings.HasPrefix(path, "server/internal/") {
		return nil
	}
	for _, imported := range p.Imports {
		if imported == "os" || imported == "golang.org/x/sys/unix" {
			faults = append(faults, fmt.Sprintf("%s imports %s: its files must go through vfs, or no test can make them fail", path, imported))
		}
	}
	return faults
}

func TestLogsGoThroughTheFileSystemSeam(t *testing.T) {
	for _, p := range packages(t) {
		report(t, seamFaults(p))
	}
}

func TestSeamCanFail(t *testing.T) {
	for path, want := range map[string]bool{
		"server/internal/seglog": false, "server/internal/vfs": true, "sdk": true, "server/internal/new": false,
	} {
		if got := seamFaults(listed{ImportPath: module + path, Imports: []string{"io", "os"}}) == nil; got != want {
			t.Errorf("%s imports os: allowed is %v", path, got)
		}
	}
}
