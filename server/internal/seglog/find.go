package seglog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// FindBack looks for a batch from the newest segment to the oldest, within a segment in
// order, and returns the last one of the newest segment in which match said found. When
// match says stop, older segments are not looked at any more. What match gets has its
// header only: asking it for records gives nonsense. The fronts are verified, control
// batches are included, and only what was appended at the call is looked at.
//
// What is returned is a copy of the whole batch; its body is not verified. A batch that
// is bad ends the search with a *CorruptError, since it might be the one.
func (l *Log) FindBack(match func(b batchfmt.Batch) (found, stop bool)) (batchfmt.Batch, bool, error) {
	views, err := l.views(0)
	if err != nil {
		return batchfmt.Batch{}, false, err
	}
	for i := len(views) - 1; i >= 0; i-- {
		b, found, stop, err := l.findInSegment(views[i], match)
		if found || stop || err != nil {
			return b, found, err
		}
	}
	return batchfmt.Batch{}, false, nil
}

func (l *Log) findInSegment(v view, match func(batchfmt.Batch) (bool, bool)) (b batchfmt.Batch, found, stop bool, err error) {
	h, err := l.handles.acquire(v)
	if err != nil {
		return b, false, false, err
	}
	defer func() { err = errors.Join(err, l.handles.release(h)) }()
	w := openWindow(h.file, v.size)
	defer w.done()
	r := reading{v: v, entries: h.index(v), from: v.base}
	at := int64(-1)
	end := segEnd{next: v.base, size: segHeaderSize}
	for end.size < v.size {
		b, err := w.header(end.size)
		if err != nil && !isFormat(err) {
			return b, false, false, fmt.Errorf("read %s at byte %d: %w", segName(v.base), end.size, err)
		}
		if err == nil {
			err = follows(end, b)
		}
		if err != nil {
			return b, false, false, r.damage(end.next, end.size, err)
		}
		hit, last := match(b)
		if hit {
			at = end.size
		}
		stop = stop || last
		end = end.with(b)
	}
	if at < 0 {
		return batchfmt.Batch{}, false, stop, nil
	}
	b, err = copyBatch(w, at)
	if isFormat(err) {
		err = r.damage(v.base, at, err)
	}
	return b, err == nil, stop, err
}

// copyBatch returns a copy of the batch at pos that the window may forget.
func copyBatch(w *window, pos int64) (batchfmt.Batch, error) {
	b, err := w.batch(pos)
	if err != nil {
		return batchfmt.Batch{}, err
	}
	return batchfmt.Parse(append([]byte(nil), b.Bytes()...))
}

// BatchAt returns a copy of the batch that holds an offset, both checksums verified. It
// sees all that was appended, durable or not. An offset at the end of the log is
// ErrOutOfRange; a bad batch is a *CorruptError.
func (l *Log) BatchAt(offset Offset) (batchfmt.Batch, error) {
	end := l.End()
	raw, _, err := l.Read(nil, offset, end, 1)
	if err != nil {
		return batchfmt.Batch{}, err
	}
	if len(raw) == 0 {
		return batchfmt.Batch{}, fmt.Errorf("%w: %d is the end", ErrOutOfRange, offset)
	}
	b, err := batchfmt.Parse(raw)
	if err == nil {
		err = b.Verify()
	}
	if err != nil {
		return batchfmt.Batch{}, &CorruptError{Offset: offset, Reason: err.Error()}
	}
	return b, nil
}
