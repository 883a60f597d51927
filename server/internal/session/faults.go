package session

import (
	"errors"
	"io"

	"github.com/quoin-io/quoin/wire"
)

var errCut = errors.New("cut by a test")

func (s *session) frameStart(in bool, k wire.Kind, size int) int {
	if h := s.l.cfg.Hooks; h != nil && h.FrameStart != nil {
		return h.FrameStart(in, k, size)
	}
	return -1
}

func (s *session) frameEnd(in bool, m wire.Message) bool {
	h := s.l.cfg.Hooks
	return h != nil && h.FrameEnd != nil && h.FrameEnd(in, m)
}

// A cutReader passes some bytes and then cuts the connection in the middle of a frame.
type cutReader struct {
	r    io.Reader
	left int
	cut  func()
}

func (c *cutReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.cut()
		return 0, errCut
	}
	n, err := c.r.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
