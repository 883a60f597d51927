package seglog

import (
	"errors"

	"github.com/quoin-io/quoin/batchfmt"
)

// Headers calls fn for the batches of one segment in order, from the first one that ends
// behind from on, until fn returns false, the segment ends, or a batch begins at or above
// to. What fn gets has its header only, with a front that verifies, and the position in the
// file; control batches are left out. Each batch comes once. The result is how far it came:
// the offset behind the last batch or damaged place that was passed; damaged says whether
// there was such a place.
//
// The segment is the one that holds from; an offset outside of the log is ErrOutOfRange.
func (l *Log) Headers(from, to Offset, fn func(b batchfmt.Batch, pos int64) bool) (next Offset, damaged bool, err error) {
	l.mu.RLock()
	v, end, start := l.view(l.find(from)), l.mu.tail.next, l.mu.segs[0].base
	closed := l.mu.closed
	l.mu.RUnlock()
	switch {
	case closed:
		return from, false, ErrClosed
	case from < start || from > end:
		return from, false, ErrOutOfRange
	}
	w := openWindow(nil, 0)
	defer w.done()
	c, done, err := l.cursor(v, w)
	if err != nil {
		return from, false, err
	}
	defer func() { err = errors.Join(err, done()) }()
	c.seek(from)
	next = from
	for {
		s, ok, err := c.next()
		switch {
		case err != nil || !ok:
			return next, damaged, err
		case c.at.next <= next: // a control batch, or one that was passed already
			damaged = damaged || s.hole != nil
		case s.hole != nil:
			next, damaged = c.at.next, true
		case s.batch.BaseOffset() >= to || !fn(s.batch, s.pos):
			return next, damaged, nil
		default:
			next = c.at.next
		}
	}
}

// ActiveBase is the base offset of the segment that is written.
func (l *Log) ActiveBase() Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.segs[len(l.mu.segs)-1].base
}
