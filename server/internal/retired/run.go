package retired

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// The layout is drawn in the package comment.
const (
	metaMagic = "QRR\x01"
	metaSize  = 40
)

// meta is what a run says of itself.
type meta struct {
	number      uint64
	base        uint64 // generation of the head that it was made under
	first, last uint64 // no serial in it is lower, or higher
}

// run is an open run.
type run struct {
	entry
	table *sorttable.Table
}

// openRun opens the run that e describes. The error is damage if it is not that run.
func openRun(fs vfs.FS, path string, e entry) (*run, error) {
	table, err := sorttable.Open(fs, path)
	if err != nil {
		return nil, err
	}
	said, err := parseMeta(table.Meta())
	switch {
	case err != nil:
	case said.number != e.number || said.first != e.first || said.last != e.last:
		err = fmt.Errorf("it is run %d with serials %d to %d, not run %d with %d to %d", said.number, said.first, said.last, e.number, e.first, e.last)
	case uint64(table.Rows()) != e.rows || uint64(table.FileBytes()) != e.bytes:
		err = fmt.Errorf("it has %d rows in %d bytes, not %d in %d", table.Rows(), table.FileBytes(), e.rows, e.bytes)
	default:
		return &run{e, table}, nil
	}
	return nil, errors.Join(damaged(fmt.Errorf("%s: %w", path, err)), table.Close())
}

// foundRun opens a run that no head describes, as far as it describes itself. Of rows that
// are named it knows nothing.
func foundRun(fs vfs.FS, path string, number uint64) (*run, meta, error) {
	table, err := sorttable.Open(fs, path)
	if err != nil {
		return nil, meta{}, err
	}
	m, err := parseMeta(table.Meta())
	if err == nil && m.number != number {
		err = fmt.Errorf("it is run %d", m.number)
	}
	if err != nil {
		return nil, meta{}, errors.Join(damaged(fmt.Errorf("%s: %w", path, err)), table.Close())
	}
	return &run{entry{
		number: number, rows: uint64(table.Rows()), first: m.first, last: m.last,
		highest: plain(batchfmt.ProducerID(table.Last().A)), bytes: uint64(table.FileBytes()),
	}, table}, m, nil
}

func (m meta) bytes() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, metaSize), metaMagic...)
	b = le.AppendUint32(b, 0)
	for _, x := range [...]uint64{m.number, m.base, m.first, m.last} {
		b = le.AppendUint64(b, x)
	}
	return b
}

func parseMeta(b []byte) (meta, error) {
	le := binary.LittleEndian
	if len(b) != metaSize || string(b[:len(metaMagic)]) != metaMagic || le.Uint32(b[4:]) != 0 {
		return meta{}, fmt.Errorf("meta %x is not one of a run", b[:min(len(b), metaSize)])
	}
	m := meta{le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])}
	if m.number <= m.base || m.first == 0 || m.first > m.last || m.last >= mostCount {
		return meta{}, fmt.Errorf("meta: run %d under head %d with serials %d to %d cannot be", m.number, m.base, m.first, m.last)
	}
	return m, nil
}

// key is the key of a row.
func key(pid batchfmt.ProducerID, serial uint64, named bool) sorttable.Key {
	k := sorttable.Key{A: uint64(pid), B: serial << 1}
	if named {
		k.B |= 1
	}
	return k
}

// find looks for the row of pid.
func (r *run) find(pid batchfmt.ProducerID) (sorttable.Row, bool, error) {
	k, value, ok, err := r.table.Floor(sorttable.Key{A: uint64(pid), B: math.MaxUint64})
	return sorttable.Row{Key: k, Value: value}, ok, err
}

// scan gives the rows that can be read. Where some cannot, it goes on behind them, and tells
// onHole the highest id that they may have and why. An error that is not damage ends it.
func (r *run) scan(onHole func(batchfmt.ProducerID, error)) iter.Seq2[sorttable.Row, error] {
	return func(yield func(sorttable.Row, error) bool) {
		from, done := uint64(0), false
		for !done {
			var bad error
			for row, err := range r.table.From(sorttable.Key{A: from}) {
				if err != nil {
					bad = err
					break
				}
				if !yield(row, nil) {
					return
				}
				from, done = row.Key.A+1, row.Key.A == math.MaxUint64
			}
			if bad == nil {
				return
			}
			next, more, err := r.resume(from, bad)
			if err != nil {
				yield(sorttable.Row{}, err)
				return
			}
			onHole(r.holeTop(from, next, more), bad)
			from, done = next, !more
		}
	}
}

// resume finds where reading can go on behind from, where it met bad. As a scan reads
// several blocks at once, good ones in front of the bad one may be among what is passed over.
func (r *run) resume(from uint64, bad error) (next uint64, more bool, err error) {
	if !isDamage(bad) {
		return 0, false, bad
	}
	low, high := from, r.table.Last().A // low cannot be read from
	if high <= low {
		return 0, false, nil
	}
	if ok, err := r.readable(high); !ok {
		return 0, false, err
	}
	for low+1 < high {
		middle := low + (high-low)/2
		ok, err := r.readable(middle)
		switch {
		case err != nil:
			return 0, false, err
		case ok:
			high = middle
		default:
			low = middle
		}
	}
	return high, true, nil
}

// readable reports whether a scan can begin at a.
func (r *run) readable(a uint64) (bool, error) {
	for _, err := range r.table.From(sorttable.Key{A: a}) {
		switch {
		case err == nil:
			return true, nil
		case isDamage(err):
			return false, nil
		}
		return false, err
	}
	return false, nil
}

// holeTop is the highest id that a row from from on, and below next if there is more, may have.
func (r *run) holeTop(from, next uint64, more bool) batchfmt.ProducerID {
	first, last := batchfmt.ProducerID(from), batchfmt.ProducerID(next-1)
	if !more || producerstate.InGatewaySpace(first) != producerstate.InGatewaySpace(last) {
		return r.highest
	}
	return min(plain(last), r.highest)
}
