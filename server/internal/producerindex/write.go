package producerindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// ErrOrder is the answer of Write if what was added are not the batches of the segment, in
// the order of the log.
var ErrOrder = errors.New("batches are not those of the segment, or not in its order")

// Segment names a segment that is complete.
type Segment struct {
	Base  batchfmt.Offset
	Check uint64          // in the header of its file
	Next  batchfmt.Offset // behind its last record
}

// Write writes the index of the segment that it was added to into dir, in place of one that
// is there. The segment is complete: whether the file has what is added meanwhile is not
// said. The caller syncs dir. An error leaves what was there.
func (b *Builder) Write(fsys vfs.FS, dir string, of Segment) (sorttable.Stats, error) {
	return sorttable.WriteRows(fsys, filepath.Join(dir, Name(of.Base)), of.appendMeta(nil, b.Versions()), b.rows(of))
}

// rows gives the rows of the file.
func (b *Builder) rows(of Segment) iter.Seq2[sorttable.Row, error] {
	return func(yield func(sorttable.Row, error) bool) {
		var value []byte
		var o order
		for _, pid := range b.pids() {
			newest, older, _ := b.look(pid)
			for r, earlier := range rowOrder(newest, older) {
				if !of.has(r) || !o.next(r, earlier) {
					yield(sorttable.Row{}, fmt.Errorf("%w: %+v", ErrOrder, r))
					return
				}
				value = appendValue(value[:0], of.Base, r, earlier)
				if !yield(sorttable.Row{Key: rowKey(r, earlier), Value: value}, nil) {
					return
				}
			}
		}
	}
}

// pids gives the producer ids, rising.
func (b *Builder) pids() []batchfmt.ProducerID {
	b.mu.Lock()
	pids := slices.AppendSeq(make([]batchfmt.ProducerID, 0, len(b.mu.lanes)), maps.Keys(b.mu.lanes))
	b.mu.Unlock()
	slices.Sort(pids)
	return pids
}

// rowOrder gives the runs of a lane in the order of their rows: those of the last numbering,
// then those of earlier ones.
func rowOrder(newest Run, older chunk) iter.Seq2[Run, bool] {
	return func(yield func(r Run, earlier bool) bool) {
		begin, n := 0, 0 // of the last numbering, and the number of runs
		last := batchfmt.Seq(-1)
		for r := range laneRuns(newest, older) {
			if r.First <= last {
				begin = n
			}
			last = r.Last
			n++
		}
		n = 0
		for r := range laneRuns(newest, older) {
			if n >= begin && !yield(r, false) {
				return
			}
			n++
		}
		if begin == 0 {
			return
		}
		for r := range laneRuns(newest, older) {
			if begin--; begin < 0 || !yield(r, true) {
				return
			}
		}
	}
}

// laneRuns gives all runs of a lane in the order of the log.
func laneRuns(newest Run, older chunk) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		for r := range older.all() {
			r.PID = newest.PID
			if !yield(r) {
				return
			}
		}
		yield(newest)
	}
}

// has reports whether r can be a run of the segment.
func (s Segment) has(r Run) bool {
	return r.First >= 0 && r.Last >= r.First && r.FirstOffset >= s.Base && r.LastOffset >= r.FirstOffset && r.LastOffset < s.Next
}

// The layout is drawn in the package comment.
const (
	metaMagic   = "QPIX"
	metaVersion = 1
	metaSize    = 40

	// earlierSpace is the bit of key B that tells rows of earlier numberings.
	earlierSpace = 1 << 63
)

func (s Segment) appendMeta(b []byte, versions Versions) []byte {
	le := binary.LittleEndian
	b = append(b, metaMagic...)
	b = le.AppendUint32(b, metaVersion)
	b = le.AppendUint64(b, uint64(s.Base))
	b = le.AppendUint64(b, s.Check)
	b = le.AppendUint64(b, uint64(s.Next))
	b = le.AppendUint32(b, uint32(versions))
	return le.AppendUint32(b, 0)
}

func parseMeta(b []byte) (Segment, Versions, error) {
	le := binary.LittleEndian
	switch {
	case len(b) != metaSize || string(b[:4]) != metaMagic:
		return Segment{}, 0, errors.New("it is another kind of table")
	case le.Uint32(b[4:]) != metaVersion:
		return Segment{}, 0, fmt.Errorf("format version %d is not known, only %d", le.Uint32(b[4:]), metaVersion)
	}
	s := Segment{Base: batchfmt.Offset(le.Uint64(b[8:])), Check: le.Uint64(b[16:]), Next: batchfmt.Offset(le.Uint64(b[24:]))}
	if s.Base < 0 || s.Next < s.Base {
		return Segment{}, 0, fmt.Errorf("it claims the offsets from %d up to %d", s.Base, s.Next)
	}
	if r := le.Uint32(b[36:]); r != 0 {
		return Segment{}, 0, fmt.Errorf("what is reserved is %#x", r)
	}
	return s, Versions(le.Uint32(b[32:])), nil
}

func rowKey(r Run, earlier bool) sorttable.Key {
	if earlier {
		return sorttable.Key{A: uint64(r.PID), B: earlierSpace | uint64(r.FirstOffset)}
	}
	return sorttable.Key{A: uint64(r.PID), B: uint64(r.First)}
}

func appendValue(b []byte, base batchfmt.Offset, r Run, earlier bool) []byte {
	b = binary.AppendUvarint(b, uint64(r.Epoch))
	if earlier {
		b = binary.AppendUvarint(b, uint64(r.First))
	}
	b = binary.AppendUvarint(b, uint64(r.Last-r.First))
	if !earlier {
		b = binary.AppendUvarint(b, uint64(r.FirstOffset-base))
	}
	return binary.AppendUvarint(b, uint64(r.LastOffset-r.FirstOffset))
}

// parseRow reads a row of the index of s.
func parseRow(row sorttable.Row, s Segment) (Run, error) {
	n, earlier := [4]uint64{}, row.Key.B&earlierSpace != 0
	b := row.Value
	for i := range n {
		v, size := binary.Uvarint(b)
		if size <= 0 || size > 1 && b[size-1] == 0 {
			return Run{}, errors.New("the value has too few numbers, or one that is too long")
		}
		n[i], b = v, b[size:]
	}
	if len(b) > 0 || n[0] > 1<<32-1 {
		return Run{}, errors.New("the value has more than four numbers, or an epoch that is too large")
	}
	r := Run{PID: batchfmt.ProducerID(row.Key.A), Epoch: batchfmt.Epoch(n[0])}
	if earlier {
		r.First, r.Last = batchfmt.Seq(n[1]), batchfmt.Seq(n[1]+n[2])
		r.FirstOffset = batchfmt.Offset(row.Key.B &^ earlierSpace)
	} else {
		r.First, r.Last = batchfmt.Seq(row.Key.B), batchfmt.Seq(row.Key.B+n[1])
		r.FirstOffset = s.Base + batchfmt.Offset(n[2])
	}
	r.LastOffset = r.FirstOffset + batchfmt.Offset(n[3])
	if r.PID == batchfmt.NoProducer || !s.has(r) {
		return Run{}, errors.New("no such run can be in the segment")
	}
	return r, nil
}
