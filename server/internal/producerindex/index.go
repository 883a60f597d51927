package producerindex

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// ErrForeign is the answer of Open if the file is the index of another segment, or of the
// same one when it had another end.
var ErrForeign = errors.New("index is not of this segment")

// A FormatError says what is wrong with an index whose table is right.
type FormatError struct {
	Name   string        // of the file
	Key    sorttable.Key // of the row; zeros if it is the meta
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("producer index %s: row %d, %d: %s", e.Name, e.Key.A, e.Key.B, e.Reason)
}

// MustRebuild reports whether an error of Open, Find or Verify means that there is no index,
// or that it is of no use, so that another one has to be made of the segment. Any other error
// is one of the disk or of the caller, and says nothing about the index.
func MustRebuild(err error) bool {
	if _, ok := errors.AsType[*FormatError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*sorttable.FormatError](err); ok {
		return true
	}
	return errors.Is(err, ErrForeign) || errors.Is(err, fs.ErrNotExist)
}

// Index is the index of a complete segment. It is safe for concurrent use. It keeps no file
// open.
type Index struct {
	table    *sorttable.Table
	segment  Segment
	versions Versions
}

// Open opens the index of a segment in dir. For what is wrong with it see MustRebuild.
func Open(fsys vfs.FS, dir string, of Segment) (*Index, error) {
	t, err := sorttable.Open(fsys, filepath.Join(dir, Name(of.Base)))
	if err != nil {
		return nil, err
	}
	s, versions, err := parseMeta(t.Meta())
	if err != nil {
		return nil, &FormatError{Name: t.Name(), Reason: err.Error()}
	}
	if s != of {
		return nil, fmt.Errorf("%w: %s is of %+v, not of %+v", ErrForeign, t.Name(), s, of)
	}
	return &Index{table: t, segment: s, versions: versions}, nil
}

// Versions are those of all batches of the segment.
func (x *Index) Versions() Versions { return x.versions }

// Segment is the segment that the index is of.
func (x *Index) Segment() Segment { return x.segment }

// Runs is the number of runs.
func (x *Index) Runs() int64 { return x.table.Rows() }

// Bytes is the memory that the index holds.
func (x *Index) Bytes() int64 { return x.table.Bytes() }

// MayHave reports whether pid may have batches in the segment. False is certain, and true is
// seldom wrong. It reads nothing.
func (x *Index) MayHave(pid batchfmt.ProducerID) bool { return x.table.MayHave(uint64(pid)) }

// Find returns the newest run of pid that holds seq. It reads one block of the file, or
// nothing; two if the lane is there and the sequence is not; more only if pid has numbered
// anew within the segment.
func (x *Index) Find(pid batchfmt.ProducerID, seq batchfmt.Seq) (Run, bool, error) {
	if seq < 0 {
		return Run{}, false, nil
	}
	r, ok, err := x.floor(sorttable.Key{A: uint64(pid), B: uint64(seq)})
	if err != nil || ok && r.Holds(seq) {
		return r, ok, err
	}
	return x.findEarlier(pid, seq)
}

// findEarlier looks through the runs of earlier numberings.
func (x *Index) findEarlier(pid batchfmt.ProducerID, seq batchfmt.Seq) (found Run, ok bool, err error) {
	k, _, ok, err := x.table.Floor(sorttable.Key{A: uint64(pid), B: math.MaxUint64})
	if err != nil || !ok || k.B < earlierSpace {
		return Run{}, false, err
	}
	ok = false
	for row, err := range x.table.From(sorttable.Key{A: uint64(pid), B: earlierSpace}) {
		if err != nil {
			return Run{}, false, err
		}
		if row.Key.A != uint64(pid) {
			break
		}
		r, err := x.parse(row)
		if err != nil {
			return Run{}, false, err
		}
		if r.Holds(seq) {
			found, ok = r, true
		}
	}
	return found, ok, nil
}

// Newest returns the newest run of pid, which ends with its last batch in the segment. It
// reads one block of the file, or nothing.
func (x *Index) Newest(pid batchfmt.ProducerID) (Run, bool, error) {
	return x.floor(sorttable.Key{A: uint64(pid), B: earlierSpace - 1})
}

func (x *Index) floor(k sorttable.Key) (Run, bool, error) {
	found, value, ok, err := x.table.Floor(k)
	if err != nil || !ok {
		return Run{}, false, err
	}
	r, err := x.parse(sorttable.Row{Key: found, Value: value})
	return r, err == nil, err
}

func (x *Index) parse(row sorttable.Row) (Run, error) {
	r, err := parseRow(row, x.segment)
	if err != nil {
		return Run{}, &FormatError{Name: x.table.Name(), Key: row.Key, Reason: err.Error()}
	}
	return r, nil
}

// Verify reads all of the file and checks it. It does not compare it with the segment.
func (x *Index) Verify() error {
	if err := x.table.Verify(); err != nil {
		return err
	}
	var o order
	for row, err := range x.table.All() {
		if err != nil {
			return err
		}
		r, err := x.parse(row)
		if err != nil {
			return err
		}
		if !o.next(r, row.Key.B&earlierSpace != 0) {
			return &FormatError{Name: x.table.Name(), Key: row.Key, Reason: "it is not where it belongs among the runs of its lane"}
		}
	}
	return nil
}

// order goes along the rows of an index.
type order struct {
	before  Run // the last row
	earlier bool
	begin   batchfmt.Offset // of the last numbering of its lane
}

// next reports whether the run of the next row may stand there.
func (o *order) next(r Run, earlier bool) (ok bool) {
	switch before := o.before; {
	case r.PID != before.PID:
		ok, o.begin = !earlier, r.FirstOffset
	case earlier && r.LastOffset >= o.begin:
	case earlier == o.earlier:
		ok = r.FirstOffset > before.LastOffset && (earlier || r.First > before.Last)
	default:
		ok = true
	}
	o.before, o.earlier = r, earlier
	return ok
}

// Close makes all reads fail from now on, and waits for those on their way.
func (x *Index) Close() error { return x.table.Close() }
