package seglog

import (
	"cmp"
	"errors"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// A DamagedRange is what a log cannot give back although it was stored. Nothing else stands
// at these offsets, now or ever.
type DamagedRange struct {
	// The records are [From, Next). Where both are the same no record is affected, but a
	// control batch or the header of the segment is.
	From, Next Offset
	Segment    string // name of the file
	Position   int64  // where in the file it begins, in bytes
	Reason     string
}

// A hole is a damaged range within a segment.
type hole struct {
	from, next Offset
	pos, end   int64 // the bytes [pos, end) of the file; none where a file or its end is missing
	reason     string
}

// behind is where reading goes on; before is where it came to the hole.
func (h hole) behind(before segEnd) segEnd {
	before.next, before.size = h.next, h.end
	return before
}

// begins reports whether the hole begins, or goes on, where a walk has come to.
func (h hole) begins(at segEnd) bool {
	if h.pos == h.end {
		return at.size == h.pos && at.next < h.next
	}
	return h.pos <= at.size && at.size < h.end
}

// holeAt is the hole to which a walk has come, or nil.
func holeAt(holes []hole, at segEnd) *hole {
	for i := range holes {
		if holes[i].begins(at) {
			return &holes[i]
		}
	}
	return nil
}

// covering is the hole in which an offset lies, or nil.
func covering(holes []hole, offset Offset) *hole {
	for i := range holes {
		if holes[i].from <= offset && offset < holes[i].next {
			return &holes[i]
		}
	}
	return nil
}

// firstHole is the position of the first hole at or behind pos, or the limit.
func firstHole(holes []hole, pos, limit int64) int64 {
	for _, h := range holes {
		if h.pos >= pos && h.pos < h.end {
			limit = min(limit, h.pos)
		}
	}
	return limit
}

func (h hole) damaged(base Offset) DamagedRange {
	return DamagedRange{From: h.from, Next: h.next, Segment: segName(base), Position: h.pos, Reason: h.reason}
}

// at is the error for whoever wanted what stands at an offset or behind it.
func (d DamagedRange) at(offset Offset) *CorruptError {
	return &CorruptError{Segment: d.Segment, Offset: max(d.From, offset), Position: d.Position, Next: d.Next, Reason: d.Reason}
}

// at is the error for whoever wanted the record at an offset in the hole.
func (h hole) at(base, offset Offset) *CorruptError {
	return &CorruptError{
		Segment: segName(base), Offset: max(offset, h.from), Position: h.pos, Next: h.next, Reason: h.reason,
	}
}

// Damaged lists the damage that is known, in the order of the offsets. It grows when a read,
// a scan or a scrub meets more.
func (l *Log) Damaged() []DamagedRange {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []DamagedRange
	for _, s := range l.mu.segs {
		if s.head != "" {
			all = append(all, DamagedRange{From: s.base, Next: s.base, Segment: segName(s.base), Reason: s.head})
		}
		for _, h := range s.holes {
			all = append(all, h.damaged(s.base))
		}
	}
	return all
}

// Unreadable reports whether the record at an offset is known to be damaged.
func (l *Log) Unreadable(offset Offset) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return covering(l.mu.segs[l.find(offset)].holes, offset) != nil
}

// discover makes a hole of a bad place that somebody has come to: from there to the next
// batch that is good, or to the end of the segment. Files are not changed. at is where the
// batch should begin, why what is wrong with it, and entries are those of an index that
// verifies.
func (l *Log) discover(v view, f vfs.File, entries []entry, at segEnd, why error) (hole, error) {
	h := hole{from: at.next, next: v.next, pos: at.size, end: firstHole(v.holes, at.size, v.size), reason: why.Error()}
	if next := holeAt(v.holes, segEnd{next: -1, size: h.end}); next != nil {
		h.next = next.from
	}
	s := &search{w: &window{f: f, end: h.end, chunk: lookBytes}, marks: entries, limit: h.next}
	s.budget = hashBudget*(h.end-h.pos) + batchfmt.MaxBatchBytes
	e, found, err := s.resume(at)
	switch {
	case err != nil && !errors.Is(err, errTooMany):
		return hole{}, err
	case found:
		h.next, h.end = e.offset, e.pos
	}
	if l.quarantine(v.base, h) && l.cfg.OnDamage != nil {
		l.cfg.OnDamage(h.damaged(v.base))
	}
	return h, nil
}

// quarantine remembers a hole, and reports whether it is news.
func (l *Log) quarantine(base Offset, h hole) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.mu.segs[l.find(base)]
	if s.base != base || holeAt(s.holes, segEnd{next: h.from, size: h.pos}) != nil {
		return false // two found it at the same time
	}
	s.holes = append(slices.Clone(s.holes), h) // views hold the older ones
	slices.SortFunc(s.holes, func(a, b hole) int { return cmp.Compare(a.pos, b.pos) })
	return true
}
