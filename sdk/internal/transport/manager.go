package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quoin-io/quoin/wire"
)

// Pauses between attempts to reconnect, and how long an attempt may take. Most attempts
// are short, so that a server which comes back is found soon: packets that went to nobody
// are repeated ever more slowly by the protocol. Every third is long, for a server that
// is far away.
const (
	firstPause   = 50 * time.Millisecond
	youngPause   = 10 * time.Millisecond // the first one when a server was there and left us
	maxPause     = 2 * time.Second
	shortAttempt = time.Second
	longAttempt  = 2 * handshakeTimeout
	dialPause    = 50 * time.Millisecond // before a refused first connection is tried again
	dialPatience = 15 * time.Second      // for the first connection, when the context has no deadline
)

// An Observer is told what happens to the connection, from goroutines of this package;
// its functions must not block. All of them must be set.
type Observer struct {
	Connected    func(addr string)
	Disconnected func(addr string, err error)
	Retrying     func(attempt int, wait time.Duration, err error)
	Drained      func(addr, reason string)
}

// Config of a Manager.
type Config struct {
	Targets       []Target // at least one
	Trust         Trust
	Name, Version string // of this client
	Logger        *slog.Logger
	Observer      Observer
}

// A Manager keeps one connection. Its goroutine, started by [New] and stopped and
// awaited by [Manager.Close], alone dials.
type Manager struct {
	config  Config
	sockets sockets
	first   int      // the target to try first, modulo their number; the dialing goroutine's
	session [16]byte // what the last server called this client; the dialing goroutine's

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // run, and the goroutines of connections

	mu struct {
		sync.Mutex
		current *Conn         // nil while there is none
		changed chan struct{} // closed when current changes
		live    map[*Conn]struct{}
	}
}

// New makes the first connection: one attempt over all targets, within ctx, or 15 s if
// it has no deadline. Only a server that refuses connections for the moment is tried
// again. After that the manager reconnects by itself until it is closed.
func New(ctx context.Context, c Config) (*Manager, error) {
	m := &Manager{config: c, sockets: sockets{logger: c.Logger}}
	m.mu.changed = make(chan struct{})
	m.mu.live = make(map[*Conn]struct{})
	m.ctx, m.cancel = context.WithCancel(context.Background())
	conn, err := m.dialFirst(ctx)
	if err != nil {
		m.cancel()
		m.wg.Wait()
		m.sockets.close()
		return nil, err
	}
	m.sockets.reportBuffers()
	m.setCurrent(conn)
	c.Observer.Connected(conn.Addr())
	m.wg.Go(func() { m.run(conn) })
	return m, nil
}

func (m *Manager) dialFirst(ctx context.Context) (*Conn, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialPatience)
		defer cancel()
	}
	for {
		conn, err := m.dialAny(ctx)
		if err == nil || !refused(err) || !sleep(ctx, dialPause+rand.N(dialPause)) {
			return conn, err
		}
	}
}

// sleep waits for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// run waits for the end of the current connection and makes the next one: at once after
// one that worked, else after a pause that grows, so that a server which accepts and then
// drops its clients is not stormed.
func (m *Manager) run(conn *Conn) {
	failures := 0 // in a row: attempts, and connections on which nothing worked
	for {
		var pause time.Duration
		select {
		case <-m.ctx.Done():
			return
		case <-conn.Done():
			m.setCurrent(nil)
			m.config.Logger.Warn("connection lost", "server", conn.Addr(), "error", conn.Err())
			m.config.Observer.Disconnected(conn.Addr(), conn.Err())
			if conn.wentSilent() {
				m.first++ // another host may be heard
			}
		case <-conn.Draining():
			m.setCurrent(nil)
			d := conn.drain()
			m.config.Logger.Info("server drains", "server", conn.Addr(), "reason", d.Reason)
			m.config.Observer.Drained(conn.Addr(), d.Reason)
			// Another host is asked at once; the same one when it said so.
			if len(m.config.Targets) == 1 {
				pause = rand.N(min(d.RetryAfter, maxPause) + 1)
			}
			m.first++
		}
		if conn.worked() {
			failures = 0
		} else {
			failures++
			pause = max(pause, pauseAfter(failures, youngPause))
		}
		next := m.reconnect(pause, &failures)
		if next == nil {
			return
		}
		conn = next
		m.setCurrent(conn)
		m.config.Logger.Info("connected", "server", conn.Addr())
		m.config.Observer.Connected(conn.Addr())
	}
}

// pauseAfter is how long to wait after so many failures in a row; first is the most that
// it is after the first of them.
func pauseAfter(failures int, first time.Duration) time.Duration {
	return rand.N(min(first<<min(failures-1, 8), maxPause) + 1)
}

// reconnect dials until there is a connection, or returns nil when the manager closes.
func (m *Manager) reconnect(pause time.Duration, failures *int) *Conn {
	for attempt := 1; ; attempt++ {
		if !sleep(m.ctx, pause) {
			return nil
		}
		patience := shortAttempt
		if attempt%3 == 0 {
			patience = longAttempt
		}
		ctx, cancel := context.WithTimeout(m.ctx, patience*time.Duration(len(m.config.Targets)))
		conn, err := m.dialAny(ctx)
		cancel()
		if err == nil {
			return conn
		}
		if m.ctx.Err() != nil {
			return nil
		}
		*failures++
		pause = pauseAfter(*failures, firstPause)
		m.config.Logger.Warn("cannot reconnect", "attempt", attempt, "next try in", pause, "error", err)
		m.config.Observer.Retrying(attempt, pause, err)
	}
}

func (m *Manager) setCurrent(conn *Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.current = conn
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

// Current returns the connection that new work belongs on, nil while there is none, and
// a channel that is closed when that changes.
func (m *Manager) Current() (*Conn, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.current, m.mu.changed
}

// Wait returns the current connection, and waits for one while there is none.
func (m *Manager) Wait(ctx context.Context) (*Conn, error) {
	for {
		conn, changed := m.Current()
		if conn != nil {
			return conn, nil
		}
		select {
		case <-changed:
		case <-m.ctx.Done():
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("no connection to the server: %w", context.Cause(ctx))
		}
	}
}

// Do sends a request and returns its reply. A request that the server refused for the
// moment is repeated until ctx ends. After a lost connection it is repeated only if
// again says that doing it twice is the same as once; else the error is an ErrLost. The
// error is ErrNoStream, and nothing was sent, when ctx ended before there was a stream.
func (m *Manager) Do(ctx context.Context, request wire.Message, again bool) (wire.Message, error) {
	for attempt := 0; ; attempt++ {
		conn, err := m.Wait(ctx)
		if err != nil {
			return nil, err
		}
		reply, err := conn.request(ctx, request)
		if err == nil {
			return reply, nil
		}
		switch {
		case errors.Is(err, ErrNoStream):
			return nil, err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("no answer: %w", context.Cause(ctx))
		}
		wait, ok := mayRepeat(err, again)
		if !ok {
			return nil, err
		}
		if wait == 0 {
			wait = rand.N(min(firstPause<<min(attempt, 8), maxPause))
		}
		if !sleep(ctx, wait) {
			return nil, fmt.Errorf("%w; the last attempt: %w", context.Cause(ctx), err)
		}
		if m.ctx.Err() != nil {
			return nil, ErrClosed
		}
	}
}

// Try sends a request once, on the connection that there is, and returns its reply.
func (m *Manager) Try(ctx context.Context, request wire.Message) (wire.Message, error) {
	conn, _ := m.Current()
	if conn == nil {
		return nil, lost(errors.New("there is none"))
	}
	return conn.request(ctx, request)
}

func mayRepeat(err error, again bool) (time.Duration, bool) {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		info := refusal.Code.Info()
		return refusal.RetryAfter, info.Retry && (again || info.Outcome == wire.NothingHappened)
	}
	return 0, again && errors.Is(err, ErrLost)
}

// Close ends the connection and waits for every goroutine of the manager. What was not
// answered by then is lost: callers finish their work first.
func (m *Manager) Close() {
	m.cancel()
	m.mu.Lock()
	live := make([]*Conn, 0, len(m.mu.live))
	for conn := range m.mu.live {
		live = append(live, conn)
	}
	m.mu.Unlock()
	for _, conn := range live {
		conn.close(wire.CodeOK, "client closed")
	}
	m.wg.Wait()
	m.setCurrent(nil)
	m.sockets.close()
}
