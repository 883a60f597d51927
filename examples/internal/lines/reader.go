package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// bufferBytes is how much is read at once. Lines that fit are not copied.
const bufferBytes = 64 << 10

// A Line is one line of a stream.
type Line struct {
	Value  []byte // valid until the next call of Next; never nil
	EOL    EOL
	Number int64 // from 1
}

// AppendTo appends the line as it was in the stream.
func (l Line) AppendTo(dst []byte) []byte {
	return append(append(dst, l.Value...), l.EOL.Terminator()...)
}

// A TooLongError stands in for a line that was skipped.
type TooLongError struct {
	Number int64 // of the line
	Bytes  int64 // of its value
	Limit  int
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("line of %d bytes, more than %d are never read", e.Bytes, e.Limit)
}

// A Reader finds the lines of a stream. It is not safe for concurrent use.
type Reader struct {
	in     *bufio.Reader
	max    int
	long   []byte // the line, when it does not fit into the buffer of in
	number int64
	atEOF  bool
}

// NewReader reads the lines of r. A line whose value is longer than max bytes is skipped;
// the Reader never holds much more than max and 64 KiB.
func NewReader(r io.Reader, max int) *Reader { return newReader(r, max, bufferBytes) }

func newReader(r io.Reader, max, buffer int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, buffer), max: max}
}

// Next returns the next line. The error is io.EOF behind the last one, a *[TooLongError]
// for a line that was skipped, after which Next may be called again, or that of the
// stream; what came of a line before the stream failed is not returned.
func (r *Reader) Next() (Line, error) {
	if r.atEOF {
		return Line{}, io.EOF
	}
	raw, err := r.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		raw, err = r.gather(raw)
	}
	var skipped *TooLongError
	switch {
	case errors.As(err, &skipped):
		return Line{}, err
	case err == io.EOF:
		r.atEOF = true
		if len(raw) == 0 {
			return Line{}, io.EOF
		}
	case err != nil:
		return Line{}, err
	}
	r.number++
	value, eol := cut(raw)
	if len(value) > r.max {
		return Line{}, &TooLongError{Number: r.number, Bytes: int64(len(value)), Limit: r.max}
	}
	return Line{Value: value, EOL: eol, Number: r.number}, nil
}

// cut parts a line from its terminator. A carriage return belongs to the terminator only
// right before a line feed.
func cut(raw []byte) ([]byte, EOL) {
	value, ended := bytes.CutSuffix(raw, []byte("\n"))
	if !ended {
		return raw, None
	}
	if value, ok := bytes.CutSuffix(value, []byte("\r")); ok {
		return value, CRLF
	}
	return value, LF
}

// gather goes on with a line that does not fit into the buffer, until it is known to be
// too long.
func (r *Reader) gather(first []byte) ([]byte, error) {
	r.long = append(r.long[:0], first...)
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.long)+len(part) > r.max+len("\r\n") {
			return nil, r.skip(part, err)
		}
		r.long = append(r.long, part...)
		if err != bufio.ErrBufferFull {
			return r.long, err
		}
	}
}

// skip drops the rest of a line, and what gather has of it. It keeps the last two bytes,
// which tell how long the terminator is.
func (r *Reader) skip(part []byte, err error) error {
	total := int64(len(r.long))
	end := bytes.Clone(lastTwo(r.long))
	r.long = r.long[:0]
	for {
		total += int64(len(part))
		end = lastTwo(append(end, lastTwo(part)...))
		if err != bufio.ErrBufferFull {
			break
		}
		part, err = r.in.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return err
	}
	r.atEOF = err == io.EOF
	r.number++
	_, eol := cut(end)
	return &TooLongError{Number: r.number, Bytes: total - int64(len(eol.Terminator())), Limit: r.max}
}

func lastTwo(b []byte) []byte { return b[max(0, len(b)-2):] }
