package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/wire"
)

const (
	dialPause    = 50 * time.Millisecond // before a refused first connection is tried again
	dialPatience = 15 * time.Second      // for the first connection, when the context has no deadline
)

// MaxConnections is how many connections a manager may keep.
const MaxConnections = 16

// A Change is what an [Observer] is told of: something happened to one of the connections.
type Change struct {
	Addr       string // of the server; empty while there is none
	Connection int    // which of the connections, from 1
	Live       int    // how many connections take new work now, after the change
}

// An Observer is told what happens to the connections, one thing at a time, from goroutines
// of this package; its functions must not block. All but the last must be set.
type Observer struct {
	Connected    func(Change)
	Disconnected func(Change, error)
	Retrying     func(c Change, attempt int, wait time.Duration, err error)
	Drained      func(c Change, reason string)
	// TopicChanged passes on what the server says; it may be nil.
	TopicChanged func(*wire.TopicChanged)
}

// Config of a Manager.
type Config struct {
	Targets       []Target // at least one; all are ways to the same server
	Trust         Trust
	Connections   int    // how many are kept, at most [MaxConnections]; 0 is 1
	WithoutCopies bool   // send and take no second copies of frames
	Name, Version string // of this client
	Logger        *slog.Logger
	Observer      Observer
}

// A Manager keeps connections to a server. Each has a goroutine that alone dials it: all
// are started by [New] and stopped and awaited by [Manager.Close].
type Manager struct {
	config  Config
	sockets sockets

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the links' goroutines, and those of connections
	turn   atomic.Uint64  // of Current
	copies copyCounts

	telling sync.Mutex // held over a change and what the observer is told of it; before mu

	mu struct {
		sync.Mutex
		places  []place       // one a link
		changed chan struct{} // closed when places change
		live    map[*Conn]struct{}
		first   int        // the target to ask first
		last    netip.Addr // the address that answered last
	}
}

// New makes the first connection: one attempt over all targets, within ctx, or 15 s if
// it has no deadline. Only a server that refuses connections for the moment is tried
// again. The others are made after the return, and from then on each comes back by itself
// until the manager is closed.
func New(ctx context.Context, c Config) (*Manager, error) {
	m := newManager(c)
	conn, err := m.dialFirst(ctx)
	if err != nil {
		m.cancel()
		m.wg.Wait()
		m.sockets.close()
		return nil, err
	}
	m.sockets.reportBuffers()
	for i := range m.mu.places {
		l := &link{m: m, index: i}
		if i == 0 {
			l.connected(conn)
		}
		m.wg.Go(l.run)
	}
	return m, nil
}

func newManager(c Config) *Manager {
	m := &Manager{config: c, sockets: sockets{logger: c.Logger}}
	m.mu.places = make([]place, min(max(c.Connections, 1), MaxConnections))
	m.mu.changed = make(chan struct{})
	m.mu.live = make(map[*Conn]struct{})
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

func (m *Manager) dialFirst(ctx context.Context) (*Conn, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialPatience)
		defer cancel()
	}
	var refusal error
	for {
		conn, err := m.dialAny(ctx, approach{})
		switch {
		case err == nil:
			return conn, nil
		case refused(err):
			refusal = err
		case refusal != nil && ctx.Err() != nil:
			return nil, refusal // it tells more than that the last attempt was too short
		default:
			return nil, err
		}
		if !sleep(ctx, dialPause+rand.N(dialPause)) {
			return nil, refusal
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

// Current returns a connection that takes new work, nil while there is none, and a channel
// that is closed when something changes. With several connections each call gives the next
// one; work that lasts belongs on that of [Manager.Home].
func (m *Manager) Current() (*Conn, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return next(m.mu.places, m.turn.Add(1)-1), m.mu.changed
}

// Home returns the connection that work with this key belongs on, nil while there is none
// or while it is worth waiting for, and a channel that is closed when something changes.
// Keys in a row are on connections in a row. See home.
func (m *Manager) Home(key uint64) (*Conn, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return home(m.mu.places, key), m.mu.changed
}

// Wait returns what [Manager.Current] does, and waits while there is none.
func (m *Manager) Wait(ctx context.Context) (*Conn, error) { return m.await(ctx, m.Current) }

// WaitHome returns what [Manager.Home] does, and waits while there is none.
func (m *Manager) WaitHome(ctx context.Context, key uint64) (*Conn, error) {
	return m.await(ctx, func() (*Conn, <-chan struct{}) { return m.Home(key) })
}

func (m *Manager) await(ctx context.Context, get func() (*Conn, <-chan struct{})) (*Conn, error) {
	for {
		conn, changed := get()
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

// Do sends a request over any connection and returns its reply. A request that the server refused for the
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

// Try sends a request once, on a connection that there is, and returns its reply.
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

// Close ends the connections and waits for every goroutine of the manager. What was not
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
	for i := range m.mu.places {
		m.put(i, nil, false)
	}
	m.sockets.close()
}
