package matrix

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/compat/golden"
	"github.com/quoin-io/quoin/server/servertest"
)

// releases are the folders of testdata.
func releases(t testing.TB) (all []release) {
	t.Helper()
	names, err := golden.Releases(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all = append(all, release(name))
	}
	return all
}

// A table is what the package comment says, by the name of the row.
type table map[string]cells

var columnGap = regexp.MustCompile(` {2,}`)

// parseTable reads the table whose first column has this title.
func parseTable(text, title string, columns []string) (table, error) {
	rows := table{}
	inside := false
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "//\t")
		words := columnGap.Split(line, -1)
		switch {
		case !ok && inside:
			return rows, nil
		case !ok:
		case words[0] == title:
			if inside = true; !slices.Equal(words[1:], columns) {
				return nil, fmt.Errorf("the columns of %q are %q", title, words[1:])
			}
		case inside && len(words) != len(columns)+1:
			return nil, fmt.Errorf("row %q has %d cells of %d", words[0], len(words)-1, len(columns))
		case inside && rows[words[0]] != nil:
			return nil, fmt.Errorf("row %q is there twice", words[0])
		case inside:
			rows[words[0]] = cells{}
			for i, column := range columns {
				rows[words[0]][column] = words[i+1]
			}
		}
	}
	return nil, errors.New("there is no table of " + title + "s")
}

// faults compares what is said with what happened.
func (said table) faults(happened table, columns []string) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if happened[name] == nil {
			faults = append(faults, "nobody plays "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(happened)) {
		for _, column := range columns {
			want, got := said[name][column], happened[name][column]
			if want == "" || got != want {
				faults = append(faults, fmt.Sprintf("%s, %s: %q is said, %q happened", name, column, want, got))
			}
		}
	}
	return faults
}

// text prints the table as the package comment has it.
func (happened table) text(title string, columns []string) string {
	rows := [][]string{append([]string{title}, columns...)}
	for _, name := range slices.Sorted(maps.Keys(happened)) {
		row := []string{name}
		for _, column := range columns {
			row = append(row, happened[name][column])
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			width := 0
			for _, other := range rows {
				width = max(width, len(other[i]))
			}
			fmt.Fprintf(&b, "%-*s", width+2, cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestMatrix lets every peer of every release ask for everything, and holds the tables of the
// package comment to the outcome.
func TestMatrix(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range releases(t) {
		t.Run("clients of "+string(r), func(t *testing.T) {
			happened := table{}
			for name, play := range clients {
				t.Run(name, func(t *testing.T) {
					happened[name] = play(t, r, servertest.Start(t, servertest.InMemory()).URL())
				})
			}
			holdTo(t, string(doc), "client", clientColumns, happened)
		})
		t.Run("servers of "+string(r), func(t *testing.T) {
			happened := table{}
			for name, play := range servers {
				t.Run(name, func(t *testing.T) { happened[name] = playServer(t, r, play) })
			}
			holdTo(t, string(doc), "server", serverColumns, happened)
		})
	}
}

func holdTo(t *testing.T, doc, title string, columns []string, happened table) {
	t.Helper()
	said, err := parseTable(doc, title, columns)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", happened.text(title, columns))
	for _, fault := range said.faults(happened, columns) {
		t.Error(fault)
	}
}

// TestMatrixCanFail is the control of the comparison.
func TestMatrixCanFail(t *testing.T) {
	const good = "//\tpeer  a       b\n//\told   served  upgrade the server\n//\tnew   served  served\n//\n"
	happened := func(change func(table)) table {
		rows := table{"old": {"a": served, "b": "upgrade the server"}, "new": {"a": served, "b": served}}
		change(rows)
		return rows
	}
	for _, row := range []struct {
		name, text string
		change     func(table)
		good       bool
	}{
		{"as it is", good, func(table) {}, true},
		{"a cell is missing in the text", strings.Replace(good, "  upgrade the server", "", 1), func(table) {}, false},
		{"a row is missing in the text", strings.Replace(good, "//\tnew   served  served\n", "", 1), func(table) {}, false},
		{"a row is there twice", good[:len(good)-3] + "//\tnew   served  served\n//\n", func(table) {}, false},
		{"a column is missing in the text", strings.Replace(good, "a       b", "a", 1), func(table) {}, false},
		{"no table", "// nothing\n", func(table) {}, false},
		{"another side is to be upgraded", good, func(rows table) { rows["old"]["b"] = "upgrade the client" }, false},
		{"nobody fills a cell", good, func(rows table) { delete(rows["old"], "b") }, false},
		{"nobody plays a row", good, func(rows table) { delete(rows, "new") }, false},
		{"a row that nobody speaks of", good, func(rows table) { rows["more"] = cells{"a": served, "b": served} }, false},
	} {
		columns := []string{"a", "b"}
		said, err := parseTable(row.text, "peer", columns)
		if err == nil && len(said.faults(happened(row.change), columns)) > 0 {
			err = errors.New("faults")
		}
		if (err == nil) != row.good {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
