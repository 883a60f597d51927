package producerstate

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// The snapshot. All integers are little-endian. It depends on the state and the end
// alone, so two equal states have equal snapshots (confirmations aside).
//
//	 0  3  magic        "QPS"
//	 3  1  version      1
//	 4  4  size         bytes of the whole snapshot
//	 8  8  end          log end up to which the state counts
//	16  4  flags        zero
//	20  4  lane count
//	24  8  forgotten    the highest producer id that may have been lost; 0 for none
//	32  8  lost         the log below it has a part of which nothing is known; 0 for none
//	40  8  retired      generation of the table to which lanes have left; 0 for none
//	48 16  topic id
//	64  4  partition
//	68  4  reserved     zero
//	72  .  lanes, by rising producer id
//	 .  8  check        XXH64 over everything before
//
// One lane:
//
//	 0  8  producer id  never 0
//	 8  8  floor
//	16  8  last         last sequence; floor-1 if there is none
//	24  8  last offset  of the record with sequence last; -1 if not known
//	32  8  confirmed    -1 if nothing is
//	40  4  epoch        the lane epoch
//	44  1  flags        bit 0: closed; bit 1: suspect; the rest must be zero
//	45  1  depth        entries of the window, at most 5
//	46  1  position     0: none; else 1 + its length, which is at most 64
//	47  1  reserved     zero
//	48  .  window, oldest first, 32 bytes an entry: base, last, base offset, digest
//	 .  .  the position
const (
	snapVersion    = 1
	snapOffSize    = 4
	snapOffEnd     = 8
	snapOffFlags   = 16
	snapOffCount   = 20
	snapOffForgot  = 24
	snapOffLost    = 32
	snapOffRetired = 40
	snapOffTopic   = 48
	snapOffNumber  = 64
	snapOffZero    = 68
	snapHeaderSize = 72
	snapCheckSize  = 8

	laneOffFloor     = 8
	laneOffLast      = 16
	laneOffOffset    = 24
	laneOffConfirmed = 32
	laneOffEpoch     = 40
	laneOffFlags     = 44
	laneOffDepth     = 45
	laneOffPosition  = 46
	laneOffReserved  = 47
	laneFixedSize    = 48

	entrySize = 32
)

// MaxSnapshotBytes bounds a snapshot. It is enough for MostLanes lanes with full
// windows and positions; parsing takes less than seven times the input.
const MaxSnapshotBytes = 288 << 20

// A SnapshotError says what is wrong with bytes that should be a snapshot. Such a
// snapshot must be discarded as a whole: an older one and a longer replay lead to the
// same state.
type SnapshotError struct {
	Field  string // of the layout
	Offset int    // bytes from the start of the snapshot
	Reason string
}

func (e *SnapshotError) Error() string {
	return fmt.Sprintf("producer snapshot: %s at byte %d: %s", e.Field, e.Offset, e.Reason)
}

func snapError(field string, off int, format string, args ...any) error {
	return &SnapshotError{Field: field, Offset: off, Reason: fmt.Sprintf(format, args...)}
}

// Partition says whose snapshot it is: the lanes of another one would be believed as well.
type Partition struct {
	TopicID [16]byte
	Number  int32
}

// AppendSnapshot appends the snapshot of s to dst. end must be the log's end behind
// everything that was applied, durable or not: ParseSnapshot refuses a snapshot that
// knows of records at or behind its end. Take it between groups. Lanes that were opened
// and never written are left out, as are openings.
func AppendSnapshot(dst []byte, s *State, of Partition, end batchfmt.Offset) []byte {
	start := len(dst)
	dst = append(dst, 'Q', 'P', 'S', snapVersion)
	dst = append(dst, make([]byte, snapHeaderSize-snapOffSize)...)
	count := uint32(0)
	for pid, l := range s.All() {
		if l.known {
			dst = appendLane(dst, pid, l)
			count++
		}
	}
	b := dst[start:]
	le := binary.LittleEndian
	le.PutUint32(b[snapOffSize:], uint32(len(b)+snapCheckSize))
	le.PutUint64(b[snapOffEnd:], uint64(end))
	le.PutUint32(b[snapOffCount:], count)
	le.PutUint64(b[snapOffForgot:], uint64(s.forgotten))
	le.PutUint64(b[snapOffLost:], uint64(s.lost))
	le.PutUint64(b[snapOffRetired:], s.retired)
	copy(b[snapOffTopic:], of.TopicID[:])
	le.PutUint32(b[snapOffNumber:], uint32(of.Number))
	return le.AppendUint64(dst, xxhash.Sum64(b))
}

func appendLane(dst []byte, pid batchfmt.ProducerID, l *Lane) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(pid))
	dst = le.AppendUint64(dst, uint64(l.floor))
	dst = le.AppendUint64(dst, uint64(l.last))
	dst = le.AppendUint64(dst, uint64(l.lastOffset))
	dst = le.AppendUint64(dst, uint64(l.confirmed))
	dst = le.AppendUint32(dst, uint32(l.epoch))
	dst = append(dst, byte(l.marks), l.depth, l.position, 0)
	for _, e := range l.window[:l.depth] {
		dst = le.AppendUint64(dst, uint64(e.base))
		dst = le.AppendUint64(dst, uint64(e.last))
		dst = le.AppendUint64(dst, uint64(e.offset))
		dst = le.AppendUint64(dst, uint64(e.digest))
	}
	return append(dst, l.Position()...)
}

// ParseSnapshot reads a snapshot that fills b exactly, of this partition or, with nil, of
// any, and returns the state, with
// default limits, and the log end up to which it counts. The caller discards it if that
// is beyond the log that it has. The error is a *SnapshotError; the checksum is compared
// before anything is believed. Nothing aliases b.
func ParseSnapshot(b []byte, of *Partition) (*State, batchfmt.Offset, error) {
	if err := checkSnapshotFrame(b); err != nil {
		return nil, 0, err
	}
	le := binary.LittleEndian
	p := snapParser{b: b[:len(b)-snapCheckSize], at: snapHeaderSize}
	p.end = batchfmt.Offset(le.Uint64(b[snapOffEnd:]))
	flags, count := le.Uint32(b[snapOffFlags:]), le.Uint32(b[snapOffCount:])
	switch {
	case p.end < 0:
		return nil, 0, snapError("end", snapOffEnd, "%d is negative", p.end)
	case int64(le.Uint64(b[snapOffLost:])) < 0:
		return nil, 0, snapError("lost", snapOffLost, "%d is negative", int64(le.Uint64(b[snapOffLost:])))
	case of != nil && (Partition{[16]byte(b[snapOffTopic:]), int32(le.Uint32(b[snapOffNumber:]))}) != *of:
		return nil, 0, snapError("topic id", snapOffTopic, "it is of partition %d of topic %x", int32(le.Uint32(b[snapOffNumber:])), b[snapOffTopic:snapOffNumber])
	case le.Uint32(b[snapOffZero:]) != 0:
		return nil, 0, snapError("reserved", snapOffZero, "is not zero")
	case flags != 0:
		return nil, 0, snapError("flags", snapOffFlags, "%#x has unknown bits", flags)
	case int64(count)*laneFixedSize > int64(len(p.b)-p.at):
		return nil, 0, snapError("lane count", snapOffCount, "%d lanes do not fit into %d bytes", count, len(p.b)-p.at)
	}
	s := New(Limits{})
	s.lanes = make(map[batchfmt.ProducerID]*Lane, count)
	s.forgotten = batchfmt.ProducerID(le.Uint64(b[snapOffForgot:]))
	s.lost = batchfmt.Offset(le.Uint64(b[snapOffLost:]))
	s.retired = le.Uint64(b[snapOffRetired:])
	for range count {
		pid, l, err := p.lane()
		if err != nil {
			return nil, 0, err
		}
		if planted.LostWindow {
			l.window, l.depth = [WindowSize]entry{}, 0
		}
		s.lanes[pid] = l
	}
	if p.at != len(p.b) {
		return nil, 0, snapError("lane count", snapOffCount, "%d bytes are left behind the last lane", len(p.b)-p.at)
	}
	return s, p.end, nil
}

// checkSnapshotFrame checks what makes b a snapshot, whole and unchanged.
func checkSnapshotFrame(b []byte) error {
	switch {
	case len(b) < snapHeaderSize+snapCheckSize:
		return snapError("size", snapOffSize, "only %d bytes are there", len(b))
	case string(b[:3]) != "QPS":
		return snapError("magic", 0, "not a producer snapshot")
	case b[3] != snapVersion:
		return snapError("version", 3, "%d is not known, only %d", b[3], snapVersion)
	case len(b) > MaxSnapshotBytes:
		return snapError("size", snapOffSize, "%d bytes are over the limit, %d", len(b), MaxSnapshotBytes)
	}
	le := binary.LittleEndian
	if size := le.Uint32(b[snapOffSize:]); int64(size) != int64(len(b)) {
		return snapError("size", snapOffSize, "is %d, %d bytes are there", size, len(b))
	}
	at := len(b) - snapCheckSize
	if have, got := le.Uint64(b[at:]), xxhash.Sum64(b[:at]); have != got && !planted.UncheckedSnapshot {
		return snapError("check", at, "is %016x, the bytes have %016x", have, got)
	}
	return nil
}

// snapParser walks the lanes of a snapshot whose checksum agrees.
type snapParser struct {
	b   []byte
	at  int
	end batchfmt.Offset
	pid batchfmt.ProducerID // of the lane before
}

func (p *snapParser) lane() (batchfmt.ProducerID, *Lane, error) {
	b, at, le := p.b[p.at:], p.at, binary.LittleEndian
	if len(b) < laneFixedSize {
		return 0, nil, snapError("lane", at, "%d bytes are left, %d are needed", len(b), laneFixedSize)
	}
	pid := batchfmt.ProducerID(le.Uint64(b))
	if pid <= p.pid {
		return 0, nil, snapError("producer id", at, "%d is not above %d", pid, p.pid)
	}
	l := &Lane{confirmed: batchfmt.Seq(le.Uint64(b[laneOffConfirmed:]))}
	l.history = history{
		floor:      batchfmt.Seq(le.Uint64(b[laneOffFloor:])),
		last:       batchfmt.Seq(le.Uint64(b[laneOffLast:])),
		lastOffset: batchfmt.Offset(le.Uint64(b[laneOffOffset:])),
		epoch:      batchfmt.Epoch(le.Uint32(b[laneOffEpoch:])),
		known:      true,
		marks:      marks(b[laneOffFlags]),
		depth:      b[laneOffDepth],
		position:   b[laneOffPosition],
	}
	if err := p.checkLane(l, b); err != nil {
		return 0, nil, err
	}
	size := laneFixedSize + int(l.depth)*entrySize + len(l.Position())
	if len(b) < size {
		return 0, nil, snapError("lane", at, "%d bytes are left, %d are needed", len(b), size)
	}
	if err := p.window(&l.history, b[laneFixedSize:]); err != nil {
		return 0, nil, err
	}
	copy(l.Position(), b[laneFixedSize+int(l.depth)*entrySize:size])
	p.at, p.pid = at+size, pid
	return pid, l, nil
}

// checkLane checks the fixed part b of the lane.
func (p *snapParser) checkLane(l *Lane, b []byte) error {
	switch {
	case l.floor < 0:
		return snapError("floor", p.at+laneOffFloor, "%d is negative", l.floor)
	case l.last < l.floor-1 || l.last == maxSequence:
		return snapError("last", p.at+laneOffLast, "%d is out of range, the floor is %d", l.last, l.floor)
	case l.lastOffset < UnknownOffset || l.lastOffset >= p.end:
		return snapError("last offset", p.at+laneOffOffset, "%d is out of range, the end is %d", l.lastOffset, p.end)
	case l.confirmed < NoSequence || l.confirmed > l.last:
		return snapError("confirmed", p.at+laneOffConfirmed, "%d is out of range, the last sequence is %d", l.confirmed, l.last)
	case marks(b[laneOffFlags])&^markAll != 0:
		return snapError("lane flags", p.at+laneOffFlags, "%#x has unknown bits", b[laneOffFlags])
	case l.depth > WindowSize:
		return snapError("depth", p.at+laneOffDepth, "%d is over the limit, %d", l.depth, WindowSize)
	case l.position > 1+batchfmt.MaxPositionBytes:
		return snapError("position", p.at+laneOffPosition, "%d bytes are over the limit, %d", l.position-1, batchfmt.MaxPositionBytes)
	case b[laneOffReserved] != 0:
		return snapError("reserved", p.at+laneOffReserved, "is not zero")
	}
	return nil
}

// window reads the entries at the start of b, which is long enough.
func (p *snapParser) window(h *history, b []byte) error {
	le := binary.LittleEndian
	before := NoSequence
	for i := range h.window[:h.depth] {
		at := p.at + laneFixedSize + i*entrySize
		e := entry{
			base:   batchfmt.Seq(le.Uint64(b[i*entrySize:])),
			last:   batchfmt.Seq(le.Uint64(b[i*entrySize+8:])),
			offset: batchfmt.Offset(le.Uint64(b[i*entrySize+16:])),
			digest: batchfmt.Digest(le.Uint64(b[i*entrySize+24:])),
		}
		switch {
		case e.base < 0 || e.last < e.base:
			return snapError("window range", at, "[%d..%d] is no range", e.base, e.last)
		case e.last <= before || e.last > h.last:
			return snapError("window range", at, "[%d..%d] is out of order, the last sequence is %d", e.base, e.last, h.last)
		case e.offset < 0 || e.offset >= p.end || p.end-e.offset <= batchfmt.Offset(e.last-e.base):
			return snapError("window offset", at+16, "%d is out of range, the end is %d", e.offset, p.end)
		}
		before = e.last
		h.window[i] = e
	}
	return nil
}
