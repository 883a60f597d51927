package seglog

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// Scan calls fn for all batches from the one that holds from up to the end of the log as
// it is at the call, in order, control batches too, with both checksums verified. A control
// batch whose base offset is from is among them, so whoever goes on from a checkpoint may
// meet one again. The batch is valid until fn returns. An error of fn ends the scan and is
// returned as it is; a bad batch ends it with a *CorruptError.
func (l *Log) Scan(from Offset, fn func(b batchfmt.Batch) error) error {
	if start, end := l.Start(), l.End(); from < start || from > end {
		return fmt.Errorf("%w: %d is not in [%d,%d]", ErrOutOfRange, from, start, end)
	}
	// Control batches with base offset from may stand at the end of the segment before,
	// and before the batch to which the index leads.
	views, err := l.views(max(from-1, 0))
	if err != nil {
		return err
	}
	for _, v := range views {
		if err := l.scanSegment(v, from, fn); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) scanSegment(v view, from Offset, fn func(b batchfmt.Batch) error) (err error) {
	h, err := l.handles.acquire(v)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.handles.release(h)) }()
	w := &window{f: h.file, end: v.size, chunk: walkBytes}
	r := reading{v: v, entries: h.index(v), from: from}
	at := floor(r.entries, v.base, from-1)
	end := segEnd{next: at.offset, size: at.pos}
	for end.size < v.size {
		b, err := w.batch(end.size)
		if err != nil && !isFormat(err) {
			return fmt.Errorf("read %s at byte %d: %w", segName(v.base), end.size, err)
		}
		if err == nil {
			err = follows(end, b)
		}
		if err == nil {
			err = b.Verify()
		}
		if err != nil {
			return r.damage(end.next, end.size, err)
		}
		end = end.with(b)
		if end.next <= from && !(b.IsControl() && end.next == from) {
			continue
		}
		if err := fn(b); err != nil {
			return err
		}
	}
	return nil
}
