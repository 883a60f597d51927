package copies

import (
	"bufio"
	"io"
)

// A Reader reads a stream and counts its bytes: where a frame begins is how its copy names it.
type Reader struct {
	buffered *bufio.Reader
	at       uint64
}

// NewReader reads r through a buffer of so many bytes.
func NewReader(r io.Reader, size int) *Reader { return &Reader{buffered: bufio.NewReaderSize(r, size)} }

func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.buffered.Read(p)
	r.at += uint64(n)
	return n, err
}

// At is how many bytes were read.
func (r *Reader) At() uint64 { return r.at }

// Buffered is how many bytes can be read without waiting.
func (r *Reader) Buffered() int { return r.buffered.Buffered() }

// Uncounted is the rest of the stream, for one that has no copies.
func (r *Reader) Uncounted() *bufio.Reader { return r.buffered }
