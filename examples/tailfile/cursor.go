package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/quoin-io/quoin/examples/internal/lines"
)

// readBytes is how much is read at once.
const readBytes = 64 << 10

// A cursor reads one open file, whatever its name is by now.
type cursor struct {
	name    string // under which it was opened
	file    *os.File
	info    fs.FileInfo
	maxLine int
	at      position
	head    []byte // the first bytes, up to at, that at.prefix is the hash of
	unread  []byte // what stands behind at
}

// open opens a member and stands at its beginning. It is nil without an error when the name
// is that of another file by now.
func open(m member, generation uint32, maxLine int) (*cursor, error) {
	f, err := os.Open(m.path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, m.info) {
		f.Close()
		return nil, err
	}
	c := &cursor{name: m.path, file: f, info: info, maxLine: maxLine}
	c.at = position{id: identityOf(info), generation: generation, written: info.ModTime().UnixNano()}
	return c, nil
}

// adopt stands where a position is, if the file has what stands in front of that.
func (c *cursor) adopt(p *position) (ok bool, err error) {
	if c.info.Size() < p.offset {
		return false, nil
	}
	head, err := headOf(c.file, p.prefix.bytes)
	if err != nil || prefixOf(head) != p.prefix {
		return false, c.fault(err)
	}
	c.head, c.at.prefix, c.at.offset, c.at.generation = head, p.prefix, p.offset, p.generation
	return true, nil
}

func (c *cursor) fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read %s: %w", c.name, err)
}

// intact reports whether the file still begins with what was read.
func (c *cursor) intact() (bool, error) {
	head, err := headOf(c.file, uint16(len(c.head)))
	return bytes.Equal(head, c.head), c.fault(err)
}

// next is the next whole line, and whether there is one. Its value is valid until the call
// after. The position is behind it then.
func (c *cursor) next() (line lines.Line, ok bool, err error) {
	for {
		if end := bytes.IndexByte(c.unread[:min(len(c.unread), c.maxLine+1)], '\n'); end >= 0 {
			return c.take(end + 1), true, nil
		}
		if len(c.unread) > c.maxLine { // a piece of a line; one that is just as long as may be is whole
			return c.take(c.maxLine), true, nil
		}
		n, err := c.fill()
		if n == 0 || err != nil {
			return lines.Line{}, false, err
		}
	}
}

// rest is what stands behind the last line feed, if there is anything.
func (c *cursor) rest() (line lines.Line, ok bool) {
	if len(c.unread) == 0 {
		return lines.Line{}, false
	}
	return c.take(len(c.unread)), true
}

// fill reads on, and returns how many bytes there were. It takes none of a file that was
// truncated and written anew.
func (c *cursor) fill() (int, error) {
	have := len(c.unread)
	grown := append(make([]byte, 0, have+readBytes), c.unread...)
	n, err := c.file.ReadAt(grown[have:have+readBytes], c.at.offset+int64(have))
	if err != nil && err != io.EOF {
		return 0, c.fault(err)
	}
	if n == 0 {
		return 0, nil
	}
	if ok, err := c.intact(); !ok || err != nil {
		return 0, err
	}
	c.unread = grown[:have+n]
	return n, c.stat()
}

func (c *cursor) stat() (err error) {
	if c.info, err = c.file.Stat(); err != nil {
		return err
	}
	c.at.written = c.info.ModTime().UnixNano()
	return nil
}

// take makes a line of the first n unread bytes, and moves the position behind it.
func (c *cursor) take(n int) lines.Line {
	raw := c.unread[:n]
	c.unread = c.unread[n:]
	c.at.offset += int64(n)
	if more := min(n, maxPrefix-len(c.head)); more > 0 {
		c.head = append(c.head, raw[:more]...)
		c.at.prefix = prefixOf(c.head)
	}
	line := lines.Line{Value: raw, EOL: lines.None}
	if value, ok := bytes.CutSuffix(raw, []byte("\n")); ok {
		line.Value, line.EOL = value, lines.LF
		if value, ok := bytes.CutSuffix(value, []byte("\r")); ok {
			line.Value, line.EOL = value, lines.CRLF
		}
	}
	return line
}

// truncated reports whether what was read is not there any more.
func (c *cursor) truncated() (bool, error) {
	if err := c.stat(); err != nil {
		return false, err
	}
	if c.info.Size() < c.at.offset+int64(len(c.unread)) {
		return true, nil
	}
	ok, err := c.intact()
	return !ok && err == nil, err
}

// restart stands at the beginning of the file, which was truncated.
func (c *cursor) restart() {
	c.at.generation++
	c.at.offset, c.at.prefix, c.head, c.unread = 0, prefix{}, nil, nil
}

func (c *cursor) close() { c.file.Close() }
