package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// An outputForm is how a command that answers with rows is asked to print them.
type outputForm struct {
	name string // of --output
	json bool   // of --json
}

const (
	formTable = "table"
	formTabs  = "tsv"
	formJSON  = "json"
)

func (o *outputForm) flags(f *pflag.FlagSet) {
	f.StringVarP(&o.name, "output", "o", "",
		`"table", "tsv" or "json", which is one object a line; default: a table on a terminal, else tsv`)
	f.BoolVar(&o.json, "json", false, "the same as --output json")
}

// form is the form to print in on w.
func (o *outputForm) form(w io.Writer) (string, error) {
	switch {
	case o.json && o.name != "" && o.name != formJSON:
		return "", usageError{fmt.Errorf("--json and --output %s contradict each other", o.name)}
	case o.json:
		return formJSON, nil
	case o.name == "" && isTerminal(w):
		return formTable, nil
	case o.name == "":
		return formTabs, nil
	case o.name == formTable, o.name == formTabs, o.name == formJSON:
		return o.name, nil
	}
	return "", usageError{fmt.Errorf("--output %q: it must be table, tsv or json", o.name)}
}

// asked is a listing for a command that says it in words of its own unless a form was asked
// for: then it is nil.
func (o *outputForm) asked(w io.Writer, header ...string) (*listing, error) {
	if *o == (outputForm{}) {
		return nil, nil
	}
	return o.listing(w, header...)
}

// isTerminal reports whether what is written to w, or read from it, goes to a person.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// A listing prints rows, each as cells or as an object.
type listing struct {
	header []string          // nil when there is none, or it was printed
	cells  io.Writer         // for rows of cells
	align  *tabwriter.Writer // nil when cells are only separated by tabs
	json   *json.Encoder     // nil when cells are wanted
	rows   int
}

// alignedRows is how many rows of a table are aligned with each other, and so kept.
const alignedRows = 10_000

// listing begins a list. Nothing is printed before the first row or the end, so that a
// command that fails at once prints nothing.
func (o *outputForm) listing(w io.Writer, header ...string) (*listing, error) {
	form, err := o.form(w)
	if err != nil {
		return nil, err
	}
	l := &listing{cells: w}
	switch form {
	case formJSON:
		l.json = json.NewEncoder(w)
		l.json.SetEscapeHTML(false)
		return l, nil
	case formTable:
		l.align = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		l.cells = l.align
	}
	l.header = header
	return l, nil
}

// row prints the object, or the cells.
func (l *listing) row(object any, cells ...string) error {
	if l.json != nil {
		return l.json.Encode(object)
	}
	if err := l.begin(); err != nil {
		return err
	}
	for i, c := range cells {
		cells[i] = cell(c)
	}
	if err := l.line(cells); err != nil {
		return err
	}
	if l.rows++; l.rows%alignedRows == 0 {
		return l.flush()
	}
	return nil
}

func (l *listing) line(cells []string) error {
	_, err := fmt.Fprintln(l.cells, strings.Join(cells, "\t"))
	return err
}

func (l *listing) begin() error {
	if len(l.header) == 0 {
		return nil
	}
	header := l.header
	l.header = nil
	return l.line(header)
}

// end prints what was kept to be aligned, and of an empty list the header. err is how the
// list has come to its end.
func (l *listing) end(err error) error {
	if err == nil {
		err = l.begin()
	}
	return errors.Join(err, l.flush())
}

func (l *listing) flush() error {
	if l.align == nil {
		return nil
	}
	return l.align.Flush()
}

// cell makes a text fit to stand in a row: it may come from anybody, and a terminal obeys
// control characters.
func cell(s string) string {
	switch {
	case s == "":
		return "-"
	case !utf8.ValidString(s), strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return strconv.Quote(s)
	}
	return s
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// known is a number that is negative when there is none.
func known(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// knownOrNull is the same in JSON.
func knownOrNull(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
