package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
)

const (
	// maxHeader is the longest header of a batch.
	maxHeader = batchfmt.HeaderSize2 + batchfmt.MaxExtensionBytes
	// lookBytes is how much is read at once where a few headers are looked for, and
	// walkBytes where everything is read. Both are at least maxHeader.
	lookBytes = 64 << 10
	walkBytes = 256 << 10
)

// window reads a file from position to position through a buffer. It takes memory for
// one batch and one chunk at most.
type window struct {
	f     io.ReaderAt
	end   int64 // nothing is read at or behind it
	chunk int   // bytes that are read at once, at least
	buf   []byte
	pos   int64 // of buf[0] in the file
	head  []byte
}

// windows are reused by reads, which take one each to find their first batch.
var windows = sync.Pool{New: func() any { return &window{chunk: lookBytes} }}

// openWindow takes a window for looking at headers; done gives it back.
func openWindow(f io.ReaderAt, end int64) *window {
	w := windows.Get().(*window)
	w.f, w.end, w.buf, w.pos = f, end, w.buf[:0], 0
	return w
}

func (w *window) done() {
	w.f = nil
	if cap(w.buf) > 2*walkBytes || cap(w.head) > 2*walkBytes {
		return // a window that met a large batch is not worth keeping
	}
	windows.Put(w)
}

// at returns n bytes from pos, fewer only at the end. They are valid until the next call.
func (w *window) at(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.end-pos))
	if n <= 0 {
		return nil, nil
	}
	if pos < w.pos || pos+int64(n) > w.pos+int64(len(w.buf)) {
		want := int(min(int64(max(n, w.chunk)), w.end-pos))
		w.buf = slices.Grow(w.buf[:0], want)[:want]
		w.pos = pos
		if err := readFull(w.f, w.buf, pos); err != nil {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	off := int(pos - w.pos)
	return w.buf[off : off+n], nil
}

// batch returns the whole batch at pos, its front verified but not its body. Bytes that
// are no batch, and a batch that does not end before the window does, are a
// *batchfmt.FormatError; any other error is the disk's. The batch is valid until the
// next call.
func (w *window) batch(pos int64) (batchfmt.Batch, error) {
	b, err := w.at(pos, batchfmt.FrontSize)
	if err != nil {
		return batchfmt.Batch{}, err
	}
	front, err := batchfmt.ParseFront(b)
	if err != nil {
		return batchfmt.Batch{}, err
	}
	if b, err = w.at(pos, front.Size); err != nil {
		return batchfmt.Batch{}, err
	}
	return parseVerified(b)
}

// header returns the batch at pos with its header only: what lies behind the header is
// not what the file has. The front is verified. The body need not even be there.
func (w *window) header(pos int64) (batchfmt.Batch, error) {
	b, err := w.at(pos, maxHeader)
	if err != nil {
		return batchfmt.Batch{}, err
	}
	front, err := batchfmt.ParseFront(b)
	if err != nil {
		return batchfmt.Batch{}, err
	}
	if front.Size <= len(b) {
		return parseVerified(b)
	}
	// batchfmt parses whole batches only. It looks at the header alone, so a buffer of
	// the right length with the header in front will do, and the body is never read.
	if cap(w.head) < front.Size {
		w.head = make([]byte, front.Size)
	}
	head := w.head[:front.Size]
	n := copy(head, b)
	clear(head[n:min(maxHeader, len(head))]) // less than a header there: nothing of an older one
	return parseVerified(head)
}

func parseVerified(b []byte) (batchfmt.Batch, error) {
	batch, err := batchfmt.Parse(b)
	if err != nil {
		return batchfmt.Batch{}, err
	}
	return batch, batch.VerifyFront()
}

// isFormat tells bytes that are not a batch from a disk that does not read.
func isFormat(err error) bool {
	var f *batchfmt.FormatError
	return errors.As(err, &f)
}

// isNewer reports whether a newer release has written what cannot be read.
func isNewer(err error) bool {
	_, ok := errors.AsType[*VersionError](err)
	return ok
}

// newer is a *VersionError if a batch of a newer release begins at pos, else nil; or an error
// of the disk.
func (w *window) newer(pos int64) error {
	b, err := w.at(pos, batchfmt.FrontSize)
	if isFormat(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if v, ok := batchfmt.NewerVersion(b); ok {
		return &VersionError{What: fmt.Sprintf("the batch at byte %d", pos), Version: int(v), Known: int(batchfmt.Version2)}
	}
	front, err := batchfmt.ParseFront(b)
	if err != nil {
		return nil
	}
	if b, err = w.at(pos, front.Size); err != nil {
		if isFormat(err) {
			return nil
		}
		return err
	}
	if f := batchfmt.NewerContent(b); f != nil {
		return &VersionError{What: fmt.Sprintf("the batch at byte %d", pos), Version: int(front.Version), Known: int(batchfmt.Version2), Why: f}
	}
	return nil
}

// onlyZeros reports whether there is nothing but zeros from pos on.
func (w *window) onlyZeros(pos int64) (bool, error) {
	for pos < w.end {
		b, err := w.at(pos, w.chunk)
		if err != nil {
			return false, err
		}
		if len(bytes.TrimRight(b, "\x00")) > 0 {
			return false, nil
		}
		pos += int64(len(b))
	}
	return true, nil
}

// lastNonZero is the position behind the last byte from pos on that is not zero, or pos.
func (w *window) lastNonZero(pos int64) (int64, error) {
	last := pos
	for pos < w.end {
		b, err := w.at(pos, w.chunk)
		if err != nil {
			return 0, err
		}
		if t := bytes.TrimRight(b, "\x00"); len(t) > 0 {
			last = pos + int64(len(t))
		}
		pos += int64(len(b))
	}
	return last, nil
}

// nextMagic is the first position from pos on where a batch might begin, or the end.
func (w *window) nextMagic(pos int64) (int64, error) {
	magic := []byte("QBF")
	for pos < w.end {
		// What is in the buffer is looked through before more is read: with a beginning
		// every few bytes a chunk for each would be read.
		n := max(w.pos+int64(len(w.buf))-pos, int64(len(magic)))
		b, err := w.at(pos, int(min(n, int64(w.chunk))))
		if err != nil {
			return 0, err
		}
		if i := bytes.Index(b, magic); i >= 0 {
			return pos + int64(i), nil
		}
		if len(b) < len(magic) {
			break
		}
		pos += int64(len(b) - len(magic) + 1) // it may begin in the last two bytes
	}
	return w.end, nil
}
