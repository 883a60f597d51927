package compat

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Rules of thumb, in lines. Nothing fails for being longer: the report shows where to look.
const (
	longFunction = 70
	longFile     = 600
	reported     = 10 // of the longest are printed
)

// A length is how many lines something has.
type length struct {
	name  string // as a place: file, or file:line and function
	lines int
}

// lengthsOf measures a file, and every function in it from its first line to its last. src is
// its text, or nil to read it.
func lengthsOf(name, shown string, src any) (file length, functions []length, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return length{}, nil, err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			from, to := set.Position(fn.Pos()).Line, set.Position(fn.End()).Line
			functions = append(functions, length{fmt.Sprintf("%s:%d %s", shown, from, fn.Name.Name), to - from + 1})
		}
	}
	return length{shown, set.File(f.Pos()).LineCount()}, functions, nil
}

// longest sorts by lines, and says how many are over the rule of thumb.
func longest(all []length, limit int) (first []length, over int) {
	slices.SortFunc(all, func(a, b length) int { return cmp.Or(b.lines-a.lines, strings.Compare(a.name, b.name)) })
	for _, l := range all {
		if l.lines > limit {
			over++
		}
	}
	return all[:min(reported, len(all))], over
}

// TestLengths reports the longest functions and files: run it with -v.
func TestLengths(t *testing.T) {
	all := map[string][]length{}
	for _, p := range packages(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s has no files: %v", p.Dir, err)
		}
		for _, name := range names {
			shown := strings.TrimPrefix(p.ImportPath+"/"+filepath.Base(name), module)
			file, functions, err := lengthsOf(name, shown, nil)
			if err != nil {
				t.Fatal(err)
			}
			of := ""
			if strings.HasSuffix(name, "_test.go") {
				of = " of tests"
			}
			all["files"+of] = append(all["files"+of], file)
			all["functions"+of] = append(all["functions"+of], functions...)
		}
	}
	for _, what := range []string{"functions", "functions of tests", "files", "files of tests"} {
		limit := longFunction
		if strings.HasPrefix(what, "files") {
			limit = longFile
		}
		first, over := longest(all[what], limit)
		var text strings.Builder
		for _, l := range first {
			fmt.Fprintf(&text, "\n%6d  %s", l.lines, l.name)
		}
		t.Logf("%d %s, %d of them over %d lines; the longest:%s", len(all[what]), what, over, limit, text.String())
	}
}

// TestLengthsAreCounted is the control of the report.
func TestLengthsAreCounted(t *testing.T) {
	const src = "package p\n\n// F is short.\nfunc F() {}\n\nfunc (t T) long() {\n" + "\t_ = 0\n\t_ = 1\n}\n"
	file, functions, err := lengthsOf("p.go", "p.go", src)
	if err != nil {
		t.Fatal(err)
	}
	if want := (length{"p.go", 9}); file != want {
		t.Errorf("the file is %v, want %v", file, want)
	}
	first, over := longest(functions, 3)
	if want := []length{{"p.go:6 long", 4}, {"p.go:4 F", 1}}; over != 1 || !slices.Equal(first, want) {
		t.Errorf("%d over, %v, want %v", over, first, want)
	}
	if _, _, err := lengthsOf("p.go", "p.go", "no Go"); err == nil {
		t.Error("what cannot be parsed has a length")
	}
}
