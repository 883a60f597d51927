package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// A Subscription is one partition that is pushed to this client. Next is for one
// goroutine, Grant and Close for any.
type Subscription struct {
	conn   *Conn
	stream *quic.Stream
	in     *bufio.Reader
	close  sync.Once

	granting sync.Mutex
}

// Subscribe opens a subscription; its first message, from Next, is the answer. It does
// not wait for the server. The error is ErrNoStream when the server allows no further
// stream.
func (c *Conn) Subscribe(m *wire.Subscribe) (*Subscription, error) {
	c.acquire()
	stream, err := c.quic.OpenStream()
	if err != nil {
		c.release(1)
		return nil, c.streamError(context.Background(), err)
	}
	s := &Subscription{conn: c, stream: stream, in: bufio.NewReaderSize(stream, 64<<10)}
	stream.SetWriteDeadline(time.Now().Add(writeStall))
	if err := wire.Write(stream, m); err != nil {
		s.Close()
		return nil, c.streamError(context.Background(), err)
	}
	return s, nil
}

// Next returns the next message: Subscribed, Batches or EndReached, in memory that
// belongs to it. The error is a *wire.Error when the server ended the subscription, else
// an ErrLost.
func (s *Subscription) Next() (wire.Message, error) {
	m, err := wire.Read(s.in)
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, s.conn.streamError(context.Background(), err)
	}
	s.conn.heard()
	switch m := m.(type) {
	case *wire.Error:
		return nil, m
	case *wire.Subscribed, *wire.Batches, *wire.EndReached:
		return m, nil
	}
	return nil, lost(fmt.Errorf("%v on a subscription", m.Kind()))
}

// Grant allows the server to push n bytes more.
func (s *Subscription) Grant(n int) error {
	s.granting.Lock()
	defer s.granting.Unlock()
	s.stream.SetWriteDeadline(time.Now().Add(writeStall))
	if err := wire.Write(s.stream, &wire.Credit{Bytes: uint32(n)}); err != nil {
		s.Close()
		return lost(err)
	}
	return nil
}

// Close ends the subscription; a Next that waits returns. It may be called again.
func (s *Subscription) Close() {
	s.close.Do(func() {
		s.stream.CancelRead(quic.StreamErrorCode(wire.CodeOK))
		s.stream.CancelWrite(quic.StreamErrorCode(wire.CodeOK))
		s.conn.release(1)
	})
}
