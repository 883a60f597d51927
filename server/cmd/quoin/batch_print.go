package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

// A dumpPrinter prints batches in the form that is asked for.
type dumpPrinter struct {
	w       io.Writer
	list    *listing // nil for field by field
	records bool     // in the objects
	reader  batchfmt.Reader
}

func (o *dumpOrder) printer(w io.Writer) (*dumpPrinter, error) {
	list, err := o.form.asked(w, dumpHeader...)
	switch {
	case err != nil:
		return nil, err
	case o.records && (list == nil || list.json == nil):
		return nil, usageError{errors.New("--records is for --output json")}
	}
	return &dumpPrinter{w: w, list: list, records: o.records}, nil
}

// end prints what was kept back; err is how the dump has come to its end.
func (p *dumpPrinter) end(err error) error {
	if p.list == nil {
		return err
	}
	return p.list.end(err)
}

// check says what is wrong with a batch, and with its records if they are wanted. One that no
// server has stamped has no front check.
func (p *dumpPrinter) check(b []byte) error {
	batch, err := batchfmt.Parse(b)
	if err != nil {
		return err
	}
	err = batch.Verify()
	if batch.Stamped() {
		err = errors.Join(err, batch.VerifyFront())
	}
	if err == nil && p.records {
		err = batchfmt.CheckRecords(batch, &p.reader)
	}
	return err
}

// checkPiece says what is wrong with a piece of a log, which was verified when it was found;
// empty for nothing.
func (p *dumpPrinter) checkPiece(of seglog.Piece, b []byte) string {
	switch {
	case of.Torn:
		return "torn end, or one that is being written: " + of.Fault
	case of.Fault != "":
		return of.Fault
	}
	if err := p.check(b); err != nil {
		return err.Error()
	}
	return ""
}

// printInFile prints a batch at a position of a file.
func (p *dumpPrinter) printInFile(name string, pos int, b []byte, fault error) error {
	if p.list == nil {
		_, err := fmt.Fprintf(p.w, "batch at byte %d\n%s\n", pos, batchfmt.Dump(b))
		return err
	}
	o := dumpObject{File: content(name), Byte: int64(pos), Bytes: int64(len(b))}
	if batch, err := batchfmt.Parse(b); err == nil {
		o.From, o.Next = new(int64(batch.BaseOffset())), new(int64(batch.NextOffset()))
	}
	if fault != nil {
		o.Error = new(fault.Error())
	}
	return p.row(&o, b)
}

// printPiece prints where a piece of a log stands, what is wrong with it, and its fields.
func (p *dumpPrinter) printPiece(dir string, of seglog.Piece, b []byte, fault string) error {
	name := filepath.Join(dir, of.File)
	if p.list == nil {
		return p.printFields(name, of, b, fault)
	}
	o := dumpObject{File: content(name), Byte: of.Position, Bytes: of.Size, Torn: of.Torn,
		From: new(int64(of.From)), Next: new(int64(of.Next))}
	if fault != "" {
		o.Error = &fault
	}
	return p.row(&o, b)
}

// row prints an object with what its bytes hold.
func (p *dumpPrinter) row(o *dumpObject, b []byte) error {
	batch, err := batchfmt.Parse(b)
	if err == nil {
		o.Batch = storedBatchOf(batch)
	}
	switch {
	case o.Error != nil && len(b) == 0:
		o.Kind = "nothing"
	case o.Error != nil:
		o.Kind = "damage"
	case o.Batch != nil && o.Batch.Control != nil:
		o.Kind = "control batch"
	default:
		o.Kind = "batch"
	}
	if p.records {
		o.Records = &[]recordInObject{}
		if err == nil {
			o.Records = recordsOfBatch(batch, &p.reader)
		}
	}
	return p.list.row(o, o.cells()...)
}

// printFields prints a piece of a log for people.
func (p *dumpPrinter) printFields(name string, of seglog.Piece, b []byte, fault string) error {
	kind := "batch"
	switch {
	case fault != "" && len(b) == 0:
		kind = "nothing"
	case fault != "":
		kind = "damage"
	case of.From == of.Next:
		kind = "control batch"
	}
	if _, err := fmt.Fprintf(p.w, "%s at byte %d of %s\n", kind, of.Position, name); err != nil {
		return err
	}
	if fault != "" {
		if _, err := fmt.Fprintf(p.w, "# offsets [%d,%d): %s\n", of.From, of.Next, fault); err != nil {
			return err
		}
	}
	if len(b) > 0 {
		b = batchfmt.AppendDump(nil, b)
	}
	_, err := fmt.Fprintf(p.w, "%s\n", b)
	return err
}
