package copies

import (
	"context"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

const (
	// MaxFrame is the largest frame, in bytes, that is copied. Larger ones fill packets of
	// their own, and are rarely alone. Where packets are smaller the limit is lower by itself.
	MaxFrame = 1400

	// maxWaiting bounds the copies that wait for their time: about 90 KiB a connection.
	maxWaiting = 64
	maxSpare   = 8 // buffers that are kept for the next ones
)

// A Conn is what the package needs of a QUIC connection; a *quic.Conn is one.
type Conn interface {
	SendDatagram([]byte) error
	ReceiveDatagram(context.Context) ([]byte, error)
	ConnectionStats() quic.ConnectionStats
	ConnectionState() quic.ConnectionState
	Context() context.Context
}

// A Sender sends the copies of one connection. A nil *Sender is one that sends none.
type Sender struct {
	conn Conn
	sent func()
	wake chan struct{} // capacity 1: a copy waits

	mu struct {
		sync.Mutex
		meter   meter
		waiting []waiting // in the order of their time
		spare   [][]byte
	}
}

// waiting is a copy that waits for its time.
type waiting struct {
	at       time.Time
	datagram []byte
}

// NewSender makes a sender, whose owner calls Run. sent is called for each copy that was handed
// to the connection. The result is nil when the peer takes no datagrams.
func NewSender(conn Conn, sent func()) *Sender {
	if !conn.ConnectionState().SupportsDatagrams.Remote {
		return nil
	}
	return &Sender{conn: conn, sent: sent, wake: make(chan struct{}, 1)}
}

// Add copies a frame that was just written to a stream, behind at bytes, if that is worth it. It
// must be told of every frame: those that are not copied need room as well.
// It keeps nothing of frame and does not block.
func (s *Sender) Add(stream quic.StreamID, at uint64, frame []byte) {
	if s == nil {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.meter.due(now) {
		s.mu.meter.look(now, s.conn.ConnectionStats())
	}
	s.mu.meter.offer(len(frame))
	if len(frame) > MaxFrame || len(s.mu.waiting) >= maxWaiting || !s.mu.meter.take(wire.CopyHead+len(frame)) {
		return
	}
	datagram := wire.AppendCopy(s.buffer(), wire.Copy{Stream: uint64(stream), At: at, Frame: frame})
	s.mu.waiting = append(s.mu.waiting, waiting{now.Add(s.mu.meter.delay), datagram})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// buffer is an empty buffer. mu is held.
func (s *Sender) buffer() []byte {
	if n := len(s.mu.spare); n > 0 {
		b := s.mu.spare[n-1]
		s.mu.spare = s.mu.spare[:n-1]
		return b[:0]
	}
	return make([]byte, 0, wire.CopyHead+MaxFrame)
}

// Run sends each copy at its time, until the connection is over.
func (s *Sender) Run() {
	if s == nil {
		return
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	over := s.conn.Context().Done()
	for {
		w, some := s.first()
		if !some {
			select {
			case <-s.wake:
				continue
			case <-over:
				return
			}
		}
		if wait := time.Until(w.at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-over:
				return
			}
		}
		// The connection takes a copy of it. It refuses one that is too large for the packets
		// of this path, and everything when it is over, which ends this soon.
		if s.conn.SendDatagram(w.datagram) == nil {
			s.sent()
		}
		s.giveBack(w.datagram)
	}
}

// first takes the copy whose time is next.
func (s *Sender) first() (w waiting, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.waiting) == 0 {
		return w, false
	}
	w = s.mu.waiting[0]
	n := copy(s.mu.waiting, s.mu.waiting[1:])
	s.mu.waiting[n] = waiting{}
	s.mu.waiting = s.mu.waiting[:n]
	return w, true
}

func (s *Sender) giveBack(buffer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.spare) < maxSpare {
		s.mu.spare = append(s.mu.spare, buffer)
	}
}

// Receive gives every copy that comes on a connection to take, until the connection is over.
// What take gets is valid during the call only. Datagrams that are no copies are thrown away.
// It must run on each connection that takes datagrams, wanted or not: those that nobody reads
// are kept in memory.
func Receive(conn Conn, take func(c wire.Copy, h wire.Header)) {
	for {
		datagram, err := conn.ReceiveDatagram(conn.Context())
		if err != nil {
			return
		}
		if c, h, err := wire.ParseCopy(datagram); err == nil {
			take(c, h)
		}
	}
}
