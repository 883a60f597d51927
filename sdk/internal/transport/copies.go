package transport

import (
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
	"github.com/quoin-io/quoin/wire/copies"
)

// take gives the frame at a place of the stream to its lanes, unless that was done when a copy
// of the frame came.
func (s *laneStream) take(at uint64, h wire.Header, payload []byte) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	if at < s.taking.next {
		return nil
	}
	s.taking.next = at + uint64(wire.HeaderSize+h.Size)
	return s.dispatch(h.Kind, payload)
}

// early takes the frame of a copy if it is its turn. One that cannot be taken is left to the
// stream.
func (s *laneStream) early(c wire.Copy, h wire.Header) {
	s.taking.Lock()
	defer s.taking.Unlock()
	if c.At != s.taking.next || s.dispatch(h.Kind, c.Frame[wire.HeaderSize:]) != nil {
		return
	}
	s.taking.next += uint64(len(c.Frame))
	s.conn.heard()
	s.conn.manager.copies.used.Add(1)
}

// receiveCopies takes copies of answers until the connection is over.
func (c *Conn) receiveCopies() {
	copies.Receive(c.quic, func(copied wire.Copy, h wire.Header) {
		if s := c.streamOf(quic.StreamID(copied.Stream)); s != nil {
			s.early(copied, h)
		}
	})
}

// streamOf finds a stream that takes lanes. One that takes no further lanes may have some yet,
// and does without copies.
func (c *Conn) streamOf(id quic.StreamID) *laneStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.mu.slots {
		if s != nil && s.stream.StreamID() == id {
			return s
		}
	}
	return nil
}

// copyCounts are what a manager has done with second copies of frames.
type copyCounts struct {
	sent atomic.Uint64 // of frames that went to the server
	used atomic.Uint64 // of answers: came before the answer itself
}

// Copies is how many second copies of frames were sent, and how many of answers were used as
// they came before the answer itself.
func (m *Manager) Copies() (sent, used uint64) { return m.copies.sent.Load(), m.copies.used.Load() }

// startCopies begins to send and to take copies on a connection, where both sides do.
func (c *Conn) startCopies() {
	if c.manager.config.WithoutCopies {
		return
	}
	if c.hello.Features&wire.FeatureCopies != 0 {
		c.copier = copies.NewSender(c.quic, func() { c.manager.copies.sent.Add(1) })
		c.manager.wg.Go(c.copier.Run)
	}
	c.manager.wg.Go(c.receiveCopies)
}
