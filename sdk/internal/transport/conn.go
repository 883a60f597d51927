package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
	"github.com/quoin-io/quoin/wire/copies"
)

const (
	pingEvery   = time.Second
	missedPings = 3
	// drainGrace is how long a draining connection may go on after the time that the
	// server named, when the server itself does not close it.
	drainGrace = 10 * time.Second
	laneSlots  = 64 // streams for lanes
	// shortLife is how long a connection must last to count as one that works, when
	// nothing was answered on it.
	shortLife = 2 * time.Second
)

// A Conn is one connection after its Hello.
type Conn struct {
	manager *Manager
	greeted
	born   time.Time
	copier *copies.Sender // nil when there are no copies

	draining chan struct{} // closed when the server said Drain
	drained  wire.Drain    // set before draining is closed
	pings    atomic.Int64  // without an answer, since anything was heard
	answered atomic.Bool   // the server answered something besides Hello and pings
	silent   atomic.Bool   // over since the server was not heard any more

	mu struct {
		sync.Mutex
		slots [laneSlots]*laneStream
		uses  int // lanes, requests and subscriptions that are not finished
		quit  bool
	}
}

// newConn starts the goroutines of a connection; they end with it, and the manager
// waits for them.
func (m *Manager) newConn(g *greeted) *Conn {
	c := &Conn{manager: m, greeted: *g, born: time.Now(), draining: make(chan struct{})}
	m.mu.Lock()
	m.mu.live[c] = struct{}{}
	m.mu.Unlock()
	c.startCopies()
	m.wg.Go(c.readControl)
	m.wg.Go(c.keepWatch)
	if m.ctx.Err() != nil {
		c.close(wire.CodeOK, "client closed") // Close may have run before c was in the list
	}
	return c
}

// Addr says where the server is, for people.
func (c *Conn) Addr() string { return c.name }

// Limits are what the server said in its Hello.
func (c *Conn) Limits() *wire.HelloOK { return c.hello }

// Done is closed when the connection is over.
func (c *Conn) Done() <-chan struct{} { return c.quic.Context().Done() }

// Err is why the connection is over, or nil.
func (c *Conn) Err() error {
	if c.quic.Context().Err() == nil {
		return nil
	}
	return lost(context.Cause(c.quic.Context()))
}

// worked reports whether the connection was of use: something was answered on it, or it
// lasted.
func (c *Conn) worked() bool { return c.answered.Load() || time.Since(c.born) >= shortLife }

// wentSilent reports whether the connection is over because nothing came from the
// server.
func (c *Conn) wentSilent() bool {
	var idle *quic.IdleTimeoutError
	return c.silent.Load() || errors.As(context.Cause(c.quic.Context()), &idle)
}

// Draining is closed when the server is about to go: what is under way will be answered,
// nothing new should be started.
func (c *Conn) Draining() <-chan struct{} { return c.draining }

// drain is the message of the server; it is there once Draining is closed.
func (c *Conn) drain() wire.Drain { return c.drained }

func (c *Conn) close(code wire.Code, text string) {
	c.quic.CloseWithError(quic.ApplicationErrorCode(code), text)
}

// readControl reads what the server says on the control stream.
func (c *Conn) readControl() {
	defer c.forget()
	for {
		m, err := wire.Read(c.control)
		if err != nil {
			// The server never ends this stream while it means to go on.
			c.close(wire.CodeProtocol, "control stream: "+err.Error())
			<-c.Done()
			return
		}
		switch m := m.(type) {
		case *wire.Pong:
			c.pings.Store(0)
		case *wire.Drain:
			c.startDrain(*m)
		case *wire.TopicChanged:
			if told := c.manager.config.Observer.TopicChanged; told != nil {
				told(m)
			}
		case *wire.Error:
			c.close(m.Code, m.Detail)
		default:
			c.close(wire.CodeProtocol, fmt.Sprintf("%v on the control stream", m.Kind()))
		}
	}
}

func (c *Conn) startDrain(d wire.Drain) {
	select {
	case <-c.draining:
		return
	default:
	}
	c.drained = d
	close(c.draining)
	c.release(0)
}

// heard notes that the server answered something besides Hello and pings. It is a sign of
// life, too: under load an answer to a ping may come late where others do not.
func (c *Conn) heard() {
	c.answered.Store(true)
	c.pings.Store(0)
}

func (c *Conn) forget() {
	c.manager.mu.Lock()
	delete(c.manager.mu.live, c)
	c.manager.mu.Unlock()
}

// keepWatch pings, and ends a connection whose server does not answer, within four seconds:
// the protocol below would take ten to notice. Nobody else looks for that; lanes have more
// patience. It also ends one that drains for too long.
func (c *Conn) keepWatch() {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	draining := c.draining
	var giveUp <-chan time.Time
	// The first ping goes out at once. A server that was started again answers a packet of a
	// connection that it does not know only if it has more than 42 bytes, and that of a ping
	// has 43 from the 64th byte of the stream on, which Hello alone does not reach.
	c.ping(0)
	for nonce := uint64(1); ; nonce++ {
		select {
		case <-c.Done():
			return
		case <-giveUp:
			c.close(wire.CodeOK, "drained for too long")
			return
		case <-draining:
			draining = nil
			timer := time.NewTimer(min(c.drained.RetryAfter, time.Minute) + drainGrace)
			defer timer.Stop()
			giveUp = timer.C
		case <-ticker.C:
			if c.pings.Add(1) > missedPings {
				c.silent.Store(true)
				c.close(wire.CodeShutdown, "no answer to pings")
				return
			}
			c.ping(nonce)
		}
	}
}

func (c *Conn) ping(nonce uint64) {
	var room [wire.HeaderSize + 8]byte
	// Without room for sixteen bytes the ping counts as missed, as it should.
	_ = c.control.TryWriteAll(wire.Append(room[:0], &wire.Ping{Nonce: nonce}))
}

// acquire counts a use of the connection; release ends it. A draining connection is
// closed when nothing uses it any more.
func (c *Conn) acquire() {
	c.mu.Lock()
	c.mu.uses++
	c.mu.Unlock()
}

func (c *Conn) release(n int) {
	c.mu.Lock()
	c.mu.uses -= n
	finished := false
	if c.mu.uses == 0 && !c.mu.quit {
		select {
		case <-c.draining:
			c.mu.quit, finished = true, true
		default:
		}
	}
	c.mu.Unlock()
	if finished {
		c.close(wire.CodeOK, "drained")
	}
}

// request sends one request on a stream of its own. The error is a *wire.Error when the
// server refused, else an ErrLost or that of ctx; it is ErrNoStream too when ctx ended
// before there was a stream.
func (c *Conn) request(ctx context.Context, m wire.Message) (wire.Message, error) {
	c.acquire()
	defer c.release(1)
	stream, err := c.quic.OpenStreamSync(ctx)
	if err != nil {
		if err = c.streamError(ctx, err); ctx.Err() != nil && c.Err() == nil {
			err = fmt.Errorf("%w: %w", ErrNoStream, err)
		}
		return nil, err
	}
	defer stream.CancelRead(quic.StreamErrorCode(wire.CodeOK))
	// A deadline in the past wakes reads and writes, and does so for good.
	stop := context.AfterFunc(ctx, func() { stream.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := wire.Write(stream, m); err != nil {
		stream.CancelWrite(quic.StreamErrorCode(wire.CodeOK))
		return nil, c.streamError(ctx, err)
	}
	// A server that has all it needs may stop reading before it sees the end of our side,
	// and then Close fails. The reply is on its way all the same; Read says if it is not.
	_ = stream.Close()
	reply, err := wire.Read(stream)
	if errors.Is(err, wire.ErrFrame) {
		return nil, fmt.Errorf("the answer to %v cannot be read: %w", m.Kind(), err) // nor would the next one
	}
	if err != nil {
		return nil, c.streamError(ctx, err)
	}
	c.heard()
	if refusal, ok := reply.(*wire.Error); ok {
		return nil, refusal
	}
	return reply, nil
}

func (c *Conn) streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if cause := c.Err(); cause != nil {
		return cause
	}
	return lost(err)
}
