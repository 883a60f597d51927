package producerstate

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/quoin-io/quoin/batchfmt"
)

// A row is a lane that has left memory, as it is kept by its producer id elsewhere, under a
// checksum that is not its own. It holds all that answers a retry. All integers are
// little-endian.
//
//	 0  1  version      1
//	 1  1  flags        as in a snapshot
//	 2  1  depth        entries of the window, at most 5
//	 3  1  position     0: none; else 1 + its length, which is at most 64
//	 4  4  epoch        the lane epoch
//	 8  8  floor
//	16  8  last
//	24  8  last offset  -1 if not known
//	32  8  confirmed    -1 if nothing is
//	40  .  window, oldest first, 28 bytes an entry: base, 4 bytes of last - base, base
//	       offset, digest
//	 .  .  the position
const (
	rowVersion   = 1
	rowFixedSize = 40
	rowEntrySize = 28
)

// MaxRowBytes is the size of the largest row.
const MaxRowBytes = rowFixedSize + WindowSize*rowEntrySize + batchfmt.MaxPositionBytes

// AppendRow appends the row of a known lane to dst.
func AppendRow(dst []byte, l *Lane) []byte {
	le := binary.LittleEndian
	dst = append(dst, rowVersion, byte(l.marks), l.depth, l.position)
	dst = le.AppendUint32(dst, uint32(l.epoch))
	dst = le.AppendUint64(dst, uint64(l.floor))
	dst = le.AppendUint64(dst, uint64(l.last))
	dst = le.AppendUint64(dst, uint64(l.lastOffset))
	dst = le.AppendUint64(dst, uint64(l.confirmed))
	for _, e := range l.window[:l.depth] {
		dst = le.AppendUint64(dst, uint64(e.base))
		dst = le.AppendUint32(dst, uint32(e.last-e.base))
		dst = le.AppendUint64(dst, uint64(e.offset))
		dst = le.AppendUint64(dst, uint64(e.digest))
	}
	return append(dst, l.Position()...)
}

// parseRow makes the lane of a row. It goes by way of the form in a snapshot, so that both
// pass the same checks.
func parseRow(pid batchfmt.ProducerID, b []byte) (*Lane, error) {
	if len(b) < rowFixedSize || b[0] != rowVersion {
		return nil, fmt.Errorf("row of producer %d: %d bytes do not begin a row of version %d", pid, len(b), rowVersion)
	}
	depth, position := int(b[2]), max(int(b[3])-1, 0)
	if want := rowFixedSize + depth*rowEntrySize + position; len(b) != want {
		return nil, fmt.Errorf("row of producer %d: it has %d bytes, not %d", pid, len(b), want)
	}
	le := binary.LittleEndian
	var long []byte
	long = le.AppendUint64(long, uint64(pid))
	long = append(long, b[8:rowFixedSize]...)
	long = append(long, b[4:8]...)
	long = append(long, b[1], b[2], b[3], 0)
	rest := b[rowFixedSize:]
	for range depth {
		base := le.Uint64(rest)
		long = le.AppendUint64(long, base)
		long = le.AppendUint64(long, base+uint64(le.Uint32(rest[8:])))
		long = append(long, rest[12:rowEntrySize]...)
		rest = rest[rowEntrySize:]
	}
	p := snapParser{b: append(long, rest...), end: math.MaxInt64}
	_, l, err := p.lane()
	if err != nil {
		return nil, fmt.Errorf("row of producer %d: %w", pid, err)
	}
	return l, nil
}

// A Retired is a row as it was found. Stale says that the lane may have gone on since.
type Retired struct {
	Row   []byte
	Stale bool
}

// Recall makes the lane of a row without bringing it back. A lane that ends before a lost
// part of the log may have gone on in there, as one may whose row is stale; see
// [State.Lost].
func (s *State) Recall(pid batchfmt.ProducerID, r Retired) (*Lane, error) {
	l, err := parseRow(pid, r.Row)
	if err != nil {
		return nil, err
	}
	if r.Stale || s.lost > 0 && l.lastOffset < s.lost {
		l.marks |= markSuspect
	}
	l.used = s.uptime
	return l, nil
}

// Restore brings a lane back that has left memory. A lane that is in memory and known stays
// as it is, as it knows more; one that was only opened keeps its opening. It is no part of
// a group: what the row says stood before.
func (s *State) Restore(pid batchfmt.ProducerID, r Retired) error {
	old := s.lanes[pid]
	if old.Known() {
		return nil
	}
	l, err := s.Recall(pid, r)
	if err != nil {
		return err
	}
	if old != nil {
		l.opening, l.open = old.opening, old.open
	}
	s.lanes[pid] = l
	return nil
}
