package seglog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// Read appends whole batches to dst, from the one that holds from, in order, and returns
// the longer slice and the offset behind the last of them. It takes about maxBytes: more
// only if the first batch alone is larger, and no more than the rest of one segment. It
// returns nothing at or above limit, which the caller sets to what it knows to be durable,
// and leaves a batch out that lies on both sides of it. Control batches are left out.
// Without any batch to return, dst comes back as it is, with from.
//
// Of what it returns Read has checked the front and the framing, so that every batch is
// whole, in its place and the one that was appended. The checksum of the body is left to
// whoever decodes it: that is the consumer, at the far end, where it also covers the way
// there; doing it here as well would cost each of many readers a pass over the bytes. A bad
// batch is a *CorruptError, but only once it is the first: what lies before it is
// returned first.
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
	h, err := l.handles.acquire(v)
	if err != nil {
		return dst, from, err
	}
	r := reading{v: v, f: h.file, entries: h.index(v), from: from, limit: limit}
	dst, next, err := r.read(dst, maxBytes)
	return dst, next, errors.Join(err, l.handles.release(h))
}

// index is what leads into a segment as a view shows it.
func (x *handle) index(v view) []entry {
	if v.active {
		return v.index
	}
	return x.entries
}

// reading is one read from one segment.
type reading struct {
	v           view
	f           vfs.File
	entries     []entry
	from, limit Offset
}

func (r *reading) read(dst []byte, maxBytes int) ([]byte, Offset, error) {
	pos, size, err := r.locate()
	if err != nil || size == 0 {
		return dst, r.from, err
	}
	n := int(min(int64(max(size, maxBytes)), r.v.size-pos))
	start := len(dst)
	dst = slices.Grow(dst, n)[:start+n]
	if err := readFull(r.f, dst[start:], pos); err != nil {
		return dst[:start], r.from, fmt.Errorf("read %s at byte %d: %w", segName(r.v.base), pos, err)
	}
	return r.pick(dst, start, pos)
}

// locate finds the position and size of the batch that holds from; size 0 says that the
// batch goes on above the limit.
func (r *reading) locate() (int64, int, error) {
	w := openWindow(r.f, r.v.size)
	defer w.done()
	at := floor(r.entries, r.v.base, r.from)
	end := segEnd{next: at.offset, size: at.pos}
	for end.size < r.v.size {
		b, err := w.header(end.size)
		if err != nil && !isFormat(err) {
			return 0, 0, fmt.Errorf("read %s at byte %d: %w", segName(r.v.base), end.size, err)
		}
		if err == nil {
			err = r.fits(end, b)
		}
		if err != nil {
			return 0, 0, r.damage(end.next, end.size, err)
		}
		pos := end.size
		end = end.with(b)
		if end.next > r.from {
			if end.next > r.limit {
				return 0, 0, nil
			}
			return pos, b.Size(), nil
		}
	}
	return 0, 0, r.damage(r.from, r.v.size, errors.New("the segment ends before the offset"))
}

// fits says why b, of which only the header was read, is not the batch at end.
func (r *reading) fits(end segEnd, b batchfmt.Batch) error {
	switch {
	case b.BaseOffset() != end.next:
		return fmt.Errorf("base offset is %d, not %d", b.BaseOffset(), end.next)
	case end.size+int64(b.Size()) > r.v.size:
		return fmt.Errorf("the batch of %d bytes goes over the end of the segment", b.Size())
	}
	return nil
}

// pick keeps of the bytes from start on, which lie at pos in the file, the batches that
// the reader gets, and closes the gaps that control batches leave.
func (r *reading) pick(dst []byte, start int, pos int64) ([]byte, Offset, error) {
	in, out, next := start, start, r.from
	for in < len(dst) {
		b, err := parseVerified(dst[in:])
		if err == nil && out > start && b.BaseOffset() != next {
			err = fmt.Errorf("base offset is %d, not %d", b.BaseOffset(), next)
		}
		if err != nil {
			if out == start {
				return dst[:start], r.from, r.damage(r.from, pos+int64(in-start), err)
			}
			break // cut off by maxBytes, or bad: the next read begins here and tells
		}
		end := segEnd{}.with(b)
		if end.next > r.limit {
			break
		}
		if !b.IsControl() {
			out += copy(dst[out:], b.Bytes())
			next = end.next
		}
		in += int(end.size)
	}
	return dst[:out], next, nil
}

// damage says where a read met bytes that are not the batch they should be, and where it
// may go on: at the next batch that the index knows, or behind the segment.
func (r *reading) damage(offset Offset, pos int64, why error) error {
	next := r.v.next
	if e, ok := after(r.entries, pos); ok && e.offset > r.from {
		next = e.offset
	}
	return &CorruptError{Segment: segName(r.v.base), Offset: offset, Position: pos, Next: next, Reason: why.Error()}
}
