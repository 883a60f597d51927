package sdk

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/transport"
)

// A tableRow is what the table of the package comment says of a setting.
type tableRow struct {
	byDefault, bounds string
	more, less        string // what they cost
}

var tableLine = regexp.MustCompile(`^ *(\S.*?)  +(\S.*?)  +(\S.*)$`)

// optionsTable reads the table that stands in a doc.go behind some text. Its sections have a line
// of their own; before the first it is section. Of a row for several names the first counts, and
// rows in brackets are left out.
func optionsTable(t *testing.T, file, behind, section string) map[string]tableRow {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), behind)
	if !found {
		t.Fatalf("%s has no settings", file)
	}
	rows, name := make(map[string]tableRow), ""
	for line := range strings.Lines(table) {
		line, is := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		cost := strings.TrimSpace(line)
		row := rows[name]
		switch {
		case !is:
		case strings.HasPrefix(cost, "+ "):
			row.more += cost[1:]
			rows[name] = row
		case strings.HasPrefix(cost, "- "):
			row.less += cost[1:]
			rows[name] = row
		case tableLine.MatchString(line):
			m := tableLine.FindStringSubmatch(line)
			name, _, _ = strings.Cut(section+"."+m[1], ",")
			if _, twice := rows[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			rows[name] = tableRow{byDefault: m[2], bounds: m[3]}
		case strings.HasPrefix(line, " "):
			t.Errorf("not a line of the table: %q", line)
		default:
			section, _, _ = strings.Cut(line, ",")
		}
	}
	maps.DeleteFunc(rows, func(name string, _ tableRow) bool {
		return strings.Contains(name, ".(") || name == "Dial.port in the URL"
	})
	return rows
}

// options are the settings that the package in a directory exports, by what they are settings of.
func options(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{"DialOption": "Dial", "TopicChange": "AlterTopic", "ResolveOption": "Resolve",
		"ProducerBuilder": "Producer", "ConsumerBuilder": "Consumer", "Option": "Run"}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				section := sections[resultOf(n)]
				if builder := strings.HasSuffix(resultOf(n), "Builder"); n.Name.IsExported() && section != "" && builder == (n.Recv != nil && receiverOf(n) == resultOf(n)) {
					names = append(names, section+"."+n.Name.Name)
				}
			case *ast.TypeSpec:
				if fields, is := n.Type.(*ast.StructType); is && n.Name.Name == "TopicOptions" {
					for _, field := range fields.Fields.List {
						for _, name := range field.Names {
							names = append(names, "CreateTopic."+name.Name)
						}
					}
				}
			}
			return true
		})
	}
	return names
}

// resultOf names the type of the only result of a function; empty when it has another number.
func resultOf(f *ast.FuncDecl) string {
	if f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return ""
	}
	return typeName(f.Type.Results.List[0].Type)
}

func receiverOf(f *ast.FuncDecl) string { return typeName(f.Recv.List[0].Type) }

func typeName(e ast.Expr) string {
	if pointer, is := e.(*ast.StarExpr); is {
		e = pointer.X
	}
	if name, is := e.(*ast.Ident); is {
		return name.Name
	}
	return ""
}

// The table of the package comment has every setting, with its default, its bounds, and what both
// directions cost; and nothing that is none.
func TestOptionsTable(t *testing.T) {
	rows, all := settings(t), options(t, ".")
	if len(all) < 30 {
		t.Errorf("only %d settings are found: %v", len(all), all)
	}
	compareTable(t, rows, all)
	of := optionsTable(t, "source/doc.go", "is listed at [Run]. The settings", "Run")
	compareTable(t, of, options(t, "source"))
}

// settings is the table of this package.
func settings(t *testing.T) map[string]tableRow {
	t.Helper()
	return optionsTable(t, "doc.go", "// # Settings\n", "")
}

func compareTable(t *testing.T, rows map[string]tableRow, all []string) {
	t.Helper()
	for _, name := range all {
		switch row, is := rows[name]; {
		case !is:
			t.Errorf("%s is not in the table of doc.go", name)
		case row.byDefault == "" || row.bounds == "" || row.more == "" || row.less == "":
			t.Errorf("%s: the table lacks a column: %+v", name, row)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if !slices.Contains(all, name) {
			t.Errorf("%s is in the table of doc.go and is no setting", name)
		}
	}
}

// The numbers of the table are those of the code.
func TestOptionsTableTellsTheBounds(t *testing.T) {
	const binary = "B KiB MiB GiB"
	size := func(n int64) string {
		unit := 0
		for n >= 1<<10 && n%(1<<10) == 0 {
			n, unit = n>>10, unit+1
		}
		return strconv.FormatInt(n, 10) + " " + strings.Fields(binary)[unit]
	}
	rows := settings(t)
	for name, want := range map[string][2][]string{
		"Dial.WithClientName":       {{sdkName}, {"1 to " + strconv.Itoa(maxName) + " bytes"}},
		"Dial.Connections":          {{"1"}, {"1 to " + strconv.Itoa(transport.MaxConnections)}},
		"Dial.OnEvent":              {{"none"}, {strconv.Itoa(maxEvents) + " events"}},
		"Producer.Named":            {{"none"}, {"1 to " + strconv.Itoa(maxNameBytes) + " bytes"}},
		"Producer.Position":         {{"none"}, {strconv.Itoa(MaxPosition) + " bytes"}},
		"Producer.MaxBuffered":      {{size(defaultMaxBuffered)}, {size(minMaxBuffered), size(maxMaxBuffered)}},
		"Producer.BatchBytes":       {{size(defaultBatchBytes)}, {"1 byte", size(batchfmt.MaxBatchBytes)}},
		"Producer.Linger":           {{"0"}, {"0 to " + strconv.Itoa(int(maxLinger.Minutes())) + " min"}},
		"Producer.DeliveryTimeout":  {{strconv.Itoa(int(defaultDeliveryTimeout.Minutes())) + " min"}, {strconv.Itoa(int(minDeliveryTimeout.Milliseconds())) + " ms", strconv.Itoa(int(maxDeliveryTimeout.Hours()/24)) + " days"}},
		"Consumer.Partitions":       {{"all"}, {strconv.Itoa(maxReading) + " over one client"}},
		"Consumer.Prefetch":         {{size(defaultCredit)}, {size(minCredit), size(maxCredit)}},
		"CreateTopic.MaxBatchBytes": {{"the server's"}, {size(batchfmt.MaxBatchBytes)}},
	} {
		for i, cell := range []string{rows[name].byDefault, rows[name].bounds} {
			for _, part := range want[i] {
				if !strings.Contains(cell, part) {
					t.Errorf("%s: the table says %q, the code %q", name, cell, part)
				}
			}
		}
	}
}
