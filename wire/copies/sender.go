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
	conn  Conn
	start func(func()) // starts a goroutine that somebody waits for
	sent  func()

	mu struct {
		sync.Mutex
		meter   meter
		waiting []waiting // in the order of their time
		spare   [][]byte
		running bool
	}
}

// waiting is a copy that waits for its time.
type waiting struct {
	at       time.Time
	datagram []byte
}

// NewSender makes a sender. start runs a function in a goroutine; it is called when there are
// copies to send, and the function ends when there are none any more or the connection is
// over. sent is called for each copy that was handed to the connection. The result is nil when
// the peer takes no datagrams.
func NewSender(conn Conn, start func(func()), sent func()) *Sender {
	if !conn.ConnectionState().SupportsDatagrams.Remote {
		return nil
	}
	return &Sender{conn: conn, start: start, sent: sent}
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
	if !s.mu.running {
		s.mu.running = true
		s.start(s.run)
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

// run sends each copy at its time, until there are none.
func (s *Sender) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w, more := s.first()
		if !more {
			return
		}
		if wait := time.Until(w.at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-s.conn.Context().Done():
				return // the rest is for nobody
			}
		}
		// The connection takes a copy of it. It refuses one that is too large for the packets
		// of this path; when it is over, the wait above or the next one ends this.
		if s.conn.SendDatagram(w.datagram) == nil {
			s.sent()
		}
		s.mu.Lock()
		s.mu.spare = append(s.mu.spare, w.datagram)
		s.mu.Unlock()
	}
}

// first takes the copy whose time is next.
func (s *Sender) first() (w waiting, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.waiting) == 0 {
		s.mu.running = false
		return w, false
	}
	w = s.mu.waiting[0]
	n := copy(s.mu.waiting, s.mu.waiting[1:])
	s.mu.waiting[n] = waiting{}
	s.mu.waiting = s.mu.waiting[:n]
	return w, true
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
