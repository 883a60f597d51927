package seglog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// A cursor goes over a segment from batch to batch and over its holes. A bad place that it
// comes to becomes a hole.
type cursor struct {
	l       *Log
	v       view
	f       vfs.File
	entries []entry
	w       *window
	bodies  bool   // read whole batches and verify them, not headers only
	from    segEnd // where it was set
	at      segEnd // where it stands
}

// A step is a batch, valid until the next step, or a hole.
type step struct {
	batch batchfmt.Batch
	pos   int64
	hole  *hole
	found bool // the hole was not known before
}

// next takes a step; false is the end of the segment. The error is the disk's.
//
// Of a header only the front is covered by a check of its own. The count of records is not,
// so that what is wrong at a bad place may be the batch in front of it: a cursor that looks
// at headers then begins again where it was set, and looks at bodies. It may so take steps
// for a second time.
func (c *cursor) next() (step, bool, error) {
	if h := holeAt(c.v.holes, c.at); h != nil {
		return c.over(*h), true, nil
	}
	if c.at.size >= c.v.size {
		return step{}, false, nil
	}
	b, err := c.read()
	if err == nil {
		s := step{batch: b, pos: c.at.size}
		c.at = c.at.with(b)
		return s, true, nil
	}
	if !isBad(err) {
		return step{}, false, fmt.Errorf("read %s at byte %d: %w", segName(c.v.base), c.at.size, err)
	}
	if !c.bodies {
		c.bodies, c.at = true, c.from
		return c.next()
	}
	h, err := c.l.discover(c.v, c.f, c.entries, c.at, err)
	if err != nil {
		return step{}, false, fmt.Errorf("read %s at byte %d: %w", segName(c.v.base), c.at.size, err)
	}
	s := c.over(h)
	s.found = true
	return s, true, nil
}

func (c *cursor) over(h hole) step {
	s := step{pos: c.at.size, hole: &h}
	c.at = h.behind(c.at)
	return s
}

// badError marks what is wrong with a batch, as opposed to what is wrong with the disk.
type badError struct{ error }

func isBad(err error) bool {
	var b badError
	return errors.As(err, &b) || isFormat(err)
}

func (c *cursor) read() (batchfmt.Batch, error) {
	get := c.w.header
	if c.bodies {
		get = c.w.batch
	}
	b, err := get(c.at.size)
	if err != nil {
		return b, err
	}
	err = follows(c.at, b)
	if err == nil && c.at.size+int64(b.Size()) > c.v.size {
		err = fmt.Errorf("the batch of %d bytes goes over the end of the segment", b.Size())
	}
	if err == nil && c.bodies {
		err = b.Verify()
	}
	if err != nil {
		return b, badError{err}
	}
	return b, nil
}

// seek stands the cursor at the last place that the index knows at or below an offset.
func (c *cursor) seek(offset Offset) {
	e := floor(c.entries, c.v.base, offset)
	c.from = segEnd{next: e.offset, size: e.pos}
	c.at = c.from
}

// cursor stands a cursor at the start of a segment. Whoever takes it calls the function
// when it is not needed any more.
func (l *Log) cursor(v view, w *window) (*cursor, func() error, error) {
	c := &cursor{l: l, v: v, w: w}
	if v.missing {
		c.seek(v.base)
		return c, func() error { return nil }, nil
	}
	h, err := l.handles.acquire(v)
	if err != nil {
		return nil, nil, err
	}
	c.f, c.entries = h.file, h.index(v)
	w.f, w.end = h.file, v.size
	c.seek(v.base)
	return c, func() error { return l.handles.release(h) }, nil
}
