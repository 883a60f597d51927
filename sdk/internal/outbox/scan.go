package outbox

import (
	"errors"
	"io"

	"github.com/quoin-io/quoin/batchfmt"
)

// readAhead is how much of a segment is read at once.
const readAhead = 256 << 10

// window gives bytes of a file without a read for each.
type window struct {
	r    io.ReaderAt
	size int64 // of the file
	buf  []byte
	off  int64 // of buf
}

// bytes returns n bytes at off, or fewer where the file ends. They are valid until the
// next call.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	n = int(max(min(int64(n), w.size-off), 0)) // also before memory is taken
	if from := off - w.off; from >= 0 && from+int64(n) <= int64(len(w.buf)) {
		return w.buf[from : from+int64(n)], nil
	}
	want := max(n, int(min(readAhead, w.size-off)))
	if cap(w.buf) < want {
		w.buf = make([]byte, want)
	}
	got, err := w.r.ReadAt(w.buf[:want], off)
	w.buf, w.off = w.buf[:got], off
	if err != nil && !errors.Is(err, io.EOF) {
		w.buf = w.buf[:0]
		return nil, err
	}
	return w.buf[:min(n, got)], nil
}

// walk is the reading of one segment.
type walk struct {
	window window
	stamp  uint64
	synced int64 // what the sync note says; 0 for none
}

// seen is one thing that a walk meets: an entry, or bytes that are none.
type seen struct {
	at      int64
	entry   entry
	badBody bool
	late    bool   // it stands behind the sync note
	gap     int64  // how many bytes are no entry; the other fields are not set then
	guess   *Batch // what the gap holds, if that can be told; its Partition is -1
}

// run calls visit for everything in its order. The errors are those of reading and of visit.
func (w *walk) run(visit func(*seen) error) error {
	for at := int64(dataStart); at < max(w.window.size, w.synced); {
		s, err := w.next(at)
		if err != nil || s == nil {
			return err
		}
		if err := visit(s); err != nil {
			return err
		}
		at += s.gap
		if s.gap == 0 {
			at += s.entry.size()
		}
	}
	return nil
}

// next is what stands at a position, or nil where a write was torn.
func (w *walk) next(at int64) (*seen, error) {
	late := at >= w.synced
	b, err := w.window.bytes(at, entryBytes)
	if err != nil {
		return nil, err
	}
	if e, ok := decodeEntry(b, w.stamp); ok {
		good, err := w.goodBody(&e, at)
		if err != nil || late && !good {
			return nil, err
		}
		return &seen{at: at, entry: e, badBody: !good, late: late}, nil
	}
	if late {
		return nil, nil
	}
	end, err := w.resync(at + entryAlign)
	if err != nil {
		return nil, err
	}
	guess, err := w.guess(at, end)
	return &seen{at: at, gap: end - at, guess: guess}, err
}

// goodBody reports whether the body is what was put.
func (w *walk) goodBody(e *entry, at int64) (bool, error) {
	if e.length == 0 {
		return true, nil
	}
	n := padded(e.length)
	b, err := w.window.bytes(at+entryBytes, n)
	if err != nil || len(b) < n {
		return false, err
	}
	return e.holds(b), nil
}

// holds reports whether b, with the zeros behind it, is the body of e.
func (e *entry) holds(b []byte) bool {
	if checksum(b) != e.bodyCheck {
		return false
	}
	batch, err := batchfmt.Parse(b[:e.length])
	return err == nil && batch.Size() == e.length && batch.Digest() == e.digest && batch.Epoch() == e.epoch &&
		batch.BaseSequence() == e.base && batch.LastSequence() == e.last
}

// resync looks for the next intact header, up to the sync note.
func (w *walk) resync(at int64) (int64, error) {
	for ; at < min(w.window.size, w.synced); at += entryAlign {
		b, err := w.window.bytes(at, entryBytes)
		if err != nil {
			return 0, err
		}
		if _, ok := decodeEntry(b, w.stamp); ok {
			return at, nil
		}
	}
	return max(at, w.synced), nil
}

// guess looks for an intact batch behind a damaged header that fills the gap.
func (w *walk) guess(at, end int64) (*Batch, error) {
	if end-at <= entryBytes+batchfmt.FrontSize || end-at > entrySize(batchfmt.MaxBatchBytes) {
		return nil, nil
	}
	b, err := w.window.bytes(at+entryBytes, int(end-at-entryBytes))
	if err != nil {
		return nil, err
	}
	batch, err := batchfmt.Parse(b)
	if err != nil || batch.Verify() != nil || batch.RecordCount() == 0 || entrySize(batch.Size()) != end-at {
		return nil, nil
	}
	return &Batch{Partition: -1, Base: batch.BaseSequence(), Last: batch.LastSequence(), Epoch: batch.Epoch(),
		Digest: batch.Digest(), State: Pending, Damaged: true}, nil
}
