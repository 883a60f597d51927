package seglog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// FindBack looks for a batch from the newest segment to the oldest, within a segment in
// order, and returns the last one of the newest segment in which match said found. When
// match says stop, nothing older than that batch is of interest. What match gets has its
// header only: asking it for records gives nonsense. The fronts are verified, control
// batches are included, and only what was appended at the call is looked at.
//
// What is returned is a copy of the whole batch, its body verified. The search goes over
// damage. If nothing was found and what was looked for could stand in a damaged place, the
// error is a *CorruptError with the newest such range; it could not if a batch behind the
// range said stop, nor where only a control batch can have been.
func (l *Log) FindBack(match func(b batchfmt.Batch) (found, stop bool)) (batchfmt.Batch, bool, error) {
	views, err := l.views(0)
	if err != nil {
		return batchfmt.Batch{}, false, err
	}
	var damage error
	for i := len(views) - 1; i >= 0; i-- {
		f, err := l.findInSegment(views[i], match)
		if err != nil {
			return batchfmt.Batch{}, false, err
		}
		if f.found {
			return f.batch, true, nil
		}
		if damage == nil && f.hole != nil {
			damage = f.hole.at(views[i].base, f.hole.from)
		}
		if f.stop {
			break
		}
	}
	return batchfmt.Batch{}, false, damage
}

// inSegment is what a search found in one segment.
type inSegment struct {
	batch       batchfmt.Batch
	found, stop bool
	hole        *hole // the last one behind which nobody said stop
}

func (l *Log) findInSegment(v view, match func(batchfmt.Batch) (bool, bool)) (f inSegment, err error) {
	w := openWindow(nil, 0)
	defer w.done()
	c, done, err := l.cursor(v, w)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, done()) }()
	last := segEnd{size: -1}
	for {
		at := c.at
		s, ok, err := c.next()
		if err != nil {
			return f, err
		}
		if !ok {
			break
		}
		if s.hole != nil {
			if s.hole.from < s.hole.next {
				f.hole = s.hole
			}
			continue
		}
		found, stop := match(s.batch)
		if found {
			last = at
		}
		if stop {
			f.stop, f.hole = true, nil
		}
	}
	if last.size < 0 {
		return f, nil
	}
	c.at, c.bodies = last, true
	s, _, err := c.next()
	switch {
	case err != nil:
	case s.hole != nil: // the header was good, the body is not
		f.hole = s.hole
	default:
		f.found = true
		f.batch, err = batchfmt.Parse(append([]byte(nil), s.batch.Bytes()...))
	}
	return f, err
}

// BatchAt returns a copy of the batch that holds an offset, both checksums verified. It
// sees all that was appended, durable or not. An offset at the end of the log is
// ErrOutOfRange; a bad batch is a *CorruptError.
func (l *Log) BatchAt(offset Offset) (b batchfmt.Batch, err error) {
	l.mu.RLock()
	v, start, end := l.view(l.find(offset)), l.mu.segs[0].base, l.mu.tail.next
	closed := l.mu.closed
	l.mu.RUnlock()
	switch {
	case closed:
		return b, ErrClosed
	case offset < start || offset >= end:
		return b, fmt.Errorf("%w: %d is not in [%d,%d)", ErrOutOfRange, offset, start, end)
	}
	w := openWindow(nil, 0)
	defer w.done()
	c, done, err := l.cursor(v, w)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, done()) }()
	r := reading{c: c, from: offset, limit: end}
	at, _, err := r.locate()
	if err != nil {
		return b, err
	}
	c.at, c.bodies = at, true
	s, _, err := c.next()
	switch {
	case err != nil:
		return b, err
	case s.hole != nil: // the header was good, the body is not
		return b, s.hole.at(v.base, offset)
	}
	return batchfmt.Parse(append([]byte(nil), s.batch.Bytes()...))
}
