package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/quoin-io/quoin/server/internal/seglog"
)

// A grade says what a finding means for the data. The words stay.
type grade string

const (
	wrong  grade = "wrong"  // something stored is lost, or does not verify
	mended grade = "mended" // a start of the server, or the next use, mends it
	aside  grade = "aside"  // it was wrong, and the server has dealt with it
	stray  grade = "stray"  // nothing reads it
)

// A finding is one thing that a verification has to say.
type finding struct {
	grade  grade
	kind   string  // what it is, in a word or two
	dir    string  // where it is, from the data directory on; empty for the data directory itself
	file   string  // in dir; empty if it is about dir
	extent *extent // nil if it is about all of the file
	reason string
}

// An extent is where something stands in a file of a log, and the records that it is about.
type extent struct {
	position   int64 // in bytes
	from, next seglog.Offset
}

// String is the finding as a line.
func (f *finding) String() string {
	s := cell(f.path())
	if f.dir != "" {
		s = cell(f.dir)
	}
	s += ": " + f.kind
	if f.dir != "" && f.file != "" {
		s += ": " + cell(f.file)
	}
	if f.extent != nil {
		s += fmt.Sprintf(", byte %d, offsets [%d,%d)", f.extent.position, f.extent.from, f.extent.next)
	}
	return s + ": " + f.reason
}

func (f *finding) path() string { return filepath.Join(f.dir, f.file) }

// A findingObject is a finding in JSON. Its keys stay; reason is for people.
type findingObject struct {
	Type   string  `json:"type"` // "finding"
	Grade  grade   `json:"grade"`
	Kind   string  `json:"kind"`
	Path   content `json:"path"`
	Byte   *int64  `json:"byte"`
	From   *int64  `json:"from"`
	Next   *int64  `json:"next"`
	Reason string  `json:"reason"`
}

// A fileObject is a file that holds data, in JSON. Its keys stay.
type fileObject struct {
	Type  string  `json:"type"` // "file"
	Kind  string  `json:"kind"`
	Path  content `json:"path"`
	Bytes int64   `json:"bytes"`
}

// findingHeader has the keys of both, for rows of cells.
var findingHeader = []string{"TYPE", "GRADE", "KIND", "PATH", "BYTE", "FROM", "NEXT", "BYTES", "REASON"}

// A findingPrinter prints what a verification finds as it comes.
type findingPrinter struct {
	w    io.Writer
	list *listing // nil for lines
	err  error    // of the first write that failed: there are none behind it
}

func (p *findingPrinter) finding(f *finding) {
	switch {
	case p.err != nil:
	case p.list == nil:
		_, p.err = fmt.Fprintln(p.w, f)
	default:
		o := findingObject{Type: "finding", Grade: f.grade, Kind: f.kind, Path: content(f.path()), Reason: f.reason}
		var at, from, next string
		if s := f.extent; s != nil {
			o.Byte, o.From, o.Next = &s.position, (*int64)(&s.from), (*int64)(&s.next)
			at, from, next = decimal(s.position), decimal(int64(s.from)), decimal(int64(s.next))
		}
		p.err = p.list.row(o, o.Type, string(o.Grade), o.Kind, f.path(), at, from, next, "", o.Reason)
	}
}

// file tells of a file that holds data.
func (p *findingPrinter) file(path string, bytes int64, kind string) {
	switch {
	case p.err != nil:
	case p.list == nil:
		_, p.err = fmt.Fprintf(p.w, "%s\t%d\t%s\n", path, bytes, kind)
	default:
		p.err = p.list.row(fileObject{"file", kind, content(path), bytes}, "file", "", kind, path, "", "", "", decimal(bytes), "")
	}
}

// end prints what was kept back, and tells of a write that failed; err is how the verification
// has come to its end.
func (p *findingPrinter) end(err error) error {
	if p.list != nil {
		err = p.list.end(err)
	}
	if p.err != nil {
		err = errors.Join(p.err, err)
	}
	return err
}
