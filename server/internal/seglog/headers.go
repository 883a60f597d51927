package seglog

import (
	"errors"
	"fmt"

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
	v, err := l.holding(from)
	if err != nil {
		return from, false, err
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

// holding is the segment that holds an offset of the log, or its end.
func (l *Log) holding(offset Offset) (view, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case l.mu.closed:
		return view{}, ErrClosed
	case offset < l.mu.segs[0].base || offset > l.mu.tail.next:
		return view{}, ErrOutOfRange
	}
	return l.view(l.find(offset)), nil
}

// Remains calls fn for what is left of batches that cannot be read any more: the fronts that
// verify, of batches at the offsets [from, to), in order, until fn returns false. A front has a
// check of its own which covers the digest, so it is known what batch that was, and nothing
// else of it. Only damage that is known is looked at, and in each damaged place only what stands
// in front of the first bad front.
//
// The segment is the one that holds from; an offset outside of the log is ErrOutOfRange.
func (l *Log) Remains(from, to Offset, fn func(offset Offset, digest batchfmt.Digest) bool) error {
	v, err := l.holding(from)
	if err != nil {
		return err
	}
	w := openWindow(nil, 0)
	defer w.done()
	_, done, err := l.cursor(v, w)
	if err != nil {
		return err
	}
	for _, h := range v.holes {
		if h.next <= from || to <= h.from {
			continue
		}
		var more bool
		if more, err = remainsOf(w, h, from, to, fn); !more || err != nil {
			break
		}
	}
	return errors.Join(err, done())
}

// remainsOf goes from front to front in a hole; more is false when fn has enough.
func remainsOf(w *window, h hole, from, to Offset, fn func(Offset, batchfmt.Digest) bool) (more bool, err error) {
	for pos := h.pos; pos < h.end; {
		b, err := w.header(pos)
		if isFormat(err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("read what is left of a batch: %w", err)
		}
		at := b.BaseOffset()
		if !b.IsControl() && max(from, h.from) <= at && at < min(to, h.next) && !fn(at, b.Digest()) {
			return false, nil
		}
		pos += int64(b.Size())
	}
	return true, nil
}

// ActiveBase is the base offset of the segment that is written.
func (l *Log) ActiveBase() Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.segs[len(l.mu.segs)-1].base
}
