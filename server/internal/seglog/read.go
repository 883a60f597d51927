package seglog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quoin-io/quoin/server/internal/planted"
)

// Read appends whole batches to dst, from the one that holds from, in order, and returns
// the longer slice and the offset behind the last of them. It takes about maxBytes: more
// only if the first batch alone is larger, and no more than the rest of one segment. It
// returns nothing at or above limit, which the caller sets to what it knows to be durable,
// and leaves a batch out that lies on both sides of it. Control batches are left out.
// Without any batch to return, dst comes back as it is, with from.
//
// Of what it returns Read has verified both checksums, so that damage is met here, where it
// is known what follows it, and not at the far end. A bad batch is a *CorruptError, but only
// once it is the first: what lies before it is returned first. Its Next is where to read on.
//
// The error is ErrOutOfRange if from is below Start or above End.
func (l *Log) Read(dst []byte, from, limit Offset, maxBytes int) ([]byte, Offset, error) {
	l.mu.RLock()
	v, end := l.view(l.find(from)), l.mu.tail.next
	closed := l.mu.closed
	start := l.mu.segs[0].base
	l.mu.RUnlock()
	limit = min(limit, end)
	switch {
	case closed:
		return dst, from, ErrClosed
	case from < start || from > end:
		return dst, from, fmt.Errorf("%w: %d is not in [%d,%d]", ErrOutOfRange, from, start, end)
	case from >= limit:
		return dst, from, nil
	}
	if h := covering(v.holes, from); h != nil {
		return dst, from, h.at(v.base, from)
	}
	w := openWindow(nil, 0)
	defer w.done()
	c, done, err := l.cursor(v, w)
	if err != nil {
		return dst, from, err
	}
	r := reading{c: c, from: from, limit: limit}
	dst, next, err := r.read(dst, maxBytes)
	return dst, next, errors.Join(err, done())
}

// index is what leads into a segment as a view shows it.
func (x *handle) index(v view) []entry {
	if v.held {
		return v.index
	}
	return x.entries
}

// reading is one read from one segment.
type reading struct {
	c           *cursor
	from, limit Offset
}

func (r *reading) read(dst []byte, maxBytes int) ([]byte, Offset, error) {
	for {
		at, size, err := r.locate()
		if err != nil || size == 0 {
			return dst, r.from, err
		}
		end := firstHole(r.c.v.holes, at.size, r.c.v.size)
		n := int(min(int64(max(size, maxBytes)), end-at.size))
		start := len(dst)
		longer := slices.Grow(dst, n)[:start+n]
		if err := readFull(r.c.f, longer[start:], at.size); err != nil {
			return dst, r.from, fmt.Errorf("read %s at byte %d: %w", segName(r.c.v.base), at.size, err)
		}
		longer, next, bad := r.pick(longer, start, at)
		if bad == nil {
			return longer, next, nil
		}
		if r.c.bodies { // it was good a moment ago
			h, err := r.c.l.discover(r.c.v, r.c.f, r.c.entries, at, bad)
			if err == nil {
				err = h.at(r.c.v.base, r.from)
			}
			return dst, r.from, err
		}
		// The header was good enough to be taken for the right batch. Looking at bodies
		// from the start finds which one is bad.
		r.c.bodies = true
	}
}

// locate finds where the batch that holds from begins, and its size; size 0 says that it
// goes on above the limit.
func (r *reading) locate() (segEnd, int, error) {
	r.c.seek(r.from)
	for {
		at := r.c.at
		s, ok, err := r.c.next()
		switch {
		case err != nil:
			return at, 0, err
		case !ok:
			end := hole{from: r.from, pos: r.c.v.size, reason: "the segment ends before the offset"}
			return at, 0, end.at(r.c.v.base, r.from)
		case r.c.at.next <= r.from:
		case s.hole != nil:
			return at, 0, s.hole.at(r.c.v.base, r.from)
		case r.c.at.next > r.limit && !r.c.bodies: // which no batch should: its header may be bad
			r.c.bodies, r.c.at = true, r.c.from
		case r.c.at.next > r.limit:
			return at, 0, nil
		default:
			return at, s.batch.Size(), nil
		}
	}
}

// pick keeps of the bytes from start on, which begin at a batch, the batches that the reader
// gets, and closes the gaps that control batches leave. It says why the first is bad.
func (r *reading) pick(dst []byte, start int, at segEnd) ([]byte, Offset, error) {
	in, out, next := start, start, r.from
	for in < len(dst) {
		b, err := parseVerified(dst[in:])
		if err == nil && b.BaseOffset() != at.next {
			err = fmt.Errorf("base offset is %d, not %d", b.BaseOffset(), at.next)
		}
		if err == nil && !planted.UncheckedRead {
			err = b.Verify()
		}
		if err != nil {
			if out == start {
				return dst[:start], r.from, err
			}
			break // cut off by maxBytes, or bad: the next read begins here and tells
		}
		at = at.with(b)
		if at.next > r.limit {
			break
		}
		if !b.IsControl() {
			out += copy(dst[out:], b.Bytes())
			next = at.next
		}
		in += b.Size()
	}
	return dst[:out], next, nil
}
