package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// constants lists the constants of a type in a source file of this package.
func constants(t *testing.T, file, typeName string) map[string]uint16 {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]uint16{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
			return true
		}
		for i, name := range spec.Names {
			if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
				value, err := strconv.ParseUint(lit.Value, 0, 16)
				if err != nil {
					t.Fatalf("%s: %v", name.Name, err)
				}
				found[name.Name] = uint16(value)
			}
		}
		return true
	})
	if len(found) < 20 {
		t.Fatalf("only %d constants of type %s were found", len(found), typeName)
	}
	return found
}

func TestEveryCodeHasARow(t *testing.T) {
	codes := constants(t, "codes.go", "Code")
	numbers := map[uint16]string{}
	for name, number := range codes {
		if other, twice := numbers[number]; twice {
			t.Errorf("%s and %s are both %d", name, other, number)
		}
		numbers[number] = name
		if _, ok := codeIndex[Code(number)]; !ok {
			t.Errorf("%s has no row in the table", name)
		}
	}
	if len(codes) != len(codeTable) {
		t.Errorf("%d codes, %d rows", len(codes), len(codeTable))
	}
}

func TestEveryKindHasARow(t *testing.T) {
	numbers := map[uint16]string{}
	for name, number := range constants(t, "frame.go", "Kind") {
		if other, twice := numbers[number]; twice {
			t.Errorf("%s and %s are both %d", name, other, number)
		}
		numbers[number] = name
		row, ok := kinds[Kind(number)]
		if !ok || "Kind"+row.name != name {
			t.Errorf("%s has no row, or that of %q", name, row.name)
		}
	}
}

func TestCodeTable(t *testing.T) {
	shape := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	names := map[string]Code{}
	rows := Codes()
	if !slices.IsSortedFunc(rows, func(a, b CodeInfo) int { return int(a.Code) - int(b.Code) }) {
		t.Error("the rows are not in the order of the numbers")
	}
	for _, row := range rows {
		if other, twice := names[row.Name]; twice {
			t.Errorf("%d and %d are both called %s", row.Code, other, row.Name)
		}
		names[row.Name] = row.Code
		if !shape.MatchString(row.Name) {
			t.Errorf("%q is no name like the others", row.Name)
		}
		if row.Text == "" || strings.HasSuffix(row.Text, ".") {
			t.Errorf("%s: text %q", row.Name, row.Text)
		}
		if row.Retry && row.Actor == ActorApp {
			t.Errorf("%s: a retry helps although the application has to change something", row.Name)
		}
		if row.Code.Info() != row || row.Code.String() != row.Name {
			t.Errorf("%s: Info gives another row", row.Name)
		}
		if (row.Outcome == Happened) != (row.Code == CodeOK || row.Code == CodeBatchUnreadable) {
			t.Errorf("%s: outcome %v", row.Name, row.Outcome)
		}
	}
}

func TestCodesGivesACopy(t *testing.T) {
	Codes()[0].Name = "CHANGED"
	if got := CodeOK.String(); got != "OK" {
		t.Errorf("the table can be changed from outside: %s", got)
	}
}

// What a newer peer means is not known, so nothing good may be inferred from it.
func TestUnknownCodeIsTakenForTheWorst(t *testing.T) {
	info := Code(9999).Info()
	want := CodeInfo{Code: 9999, Name: "ERROR_9999", Outcome: OutcomeUnknown, Actor: ActorApp, Text: info.Text}
	if info != want || info.Text == "" {
		t.Errorf("got %+v", info)
	}
}

func TestErrorText(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"no detail: what the code means", Errorf(CodeUnknownTopic, ""), "UNKNOWN_TOPIC: no topic has this name"},
		{"no detail: which batch", &Error{Code: CodeVersionUnsupported, Offset: 4001, Version: 2},
			"BATCH_VERSION_UNSUPPORTED: a side cannot read this batch version: version 2 at offset 4001"},
		{"no detail: which version", &Error{Code: CodeVersionUnsupported, Offset: -1, Version: 2},
			"BATCH_VERSION_UNSUPPORTED: a side cannot read this batch version: version 2"},
		{"detail", Errorf(CodeInvalidRequest, "credit %d", 0), "INVALID_REQUEST: credit 0"},
		{"topic", &Error{Code: CodeTopicExists, Topic: "orders", Partition: -1, Detail: "d"}, `TOPIC_ALREADY_EXISTS: d (topic "orders")`},
		{"partition", &Error{Code: CodeDiskFull, Topic: "orders", Partition: 3, Detail: "d"}, `DISK_FULL: d (topic "orders", partition 3)`},
		{"refusal", &Refused{Err: *Errorf(CodeThrottled, "later")}, "THROTTLED: later"},
		{"unknown code", Errorf(9999, ""), "ERROR_9999: an error that this version does not know"},
		{"bad frame", &FrameError{KindPing, "nonce", "is odd"}, "frame Ping: nonce: is odd"},
	}
	for _, test := range tests {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
