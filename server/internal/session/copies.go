package session

import (
	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// carries says that copies of frames of the stream may be taken from now on.
func (s *session) carries(ls *laneStream) {
	s.copies.Lock()
	defer s.copies.Unlock()
	if s.copies.of == nil {
		s.copies.of = make(map[quic.StreamID]*laneStream)
	}
	s.copies.of[ls.stream.StreamID()] = ls
}

func (s *session) carriesNoMore(ls *laneStream) {
	s.copies.Lock()
	defer s.copies.Unlock()
	delete(s.copies.of, ls.stream.StreamID())
}

// copied takes a copy of a frame.
func (s *session) copied(c wire.Copy, h wire.Header) {
	s.copies.Lock()
	ls := s.copies.of[quic.StreamID(c.Stream)]
	s.copies.Unlock()
	n := &s.l.cfg.Counters.Copies
	n.Received.Add(1)
	if ls != nil && ls.early(c, h) {
		n.Used.Add(1)
	}
}

// early takes the frame of a copy if it is its turn, and reports whether it did. What the
// stream would have refused, or had no memory for, is left to the stream.
func (ls *laneStream) early(c wire.Copy, h wire.Header) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.mu.over || c.At != ls.mu.next {
		return false
	}
	payload := c.Frame[wire.HeaderSize:]
	switch h.Kind {
	case wire.KindProduce:
		if !ls.earlyBatch(payload) {
			return false
		}
	case wire.KindOpenLane, wire.KindConfirmed:
		m, err := wire.Decode(h.Kind, payload)
		if err != nil {
			return false
		}
		ls.small(m)
	default:
		return false
	}
	ls.mu.next += uint64(len(c.Frame))
	return true
}

func (ls *laneStream) earlyBatch(payload []byte) bool {
	buf := ls.s.in.Get(len(payload))
	if buf == nil {
		return false
	}
	copy(buf.B, payload)
	var m wire.Produce
	if err := wire.DecodeInto(&m, buf.B); err != nil {
		buf.Release()
		return false
	}
	if l := ls.mu.lanes[m.Lane]; l == nil || !l.open.Load() {
		buf.Release()
		return false
	}
	ls.batch(&m, buf)
	return true
}
