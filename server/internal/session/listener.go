package session

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/time/rate"

	"github.com/quoin-io/quoin/server/internal/broker"
	"github.com/quoin-io/quoin/server/internal/counters"
	"github.com/quoin-io/quoin/server/internal/hooks"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/wire"
	"github.com/quoin-io/quoin/wire/udp"
)

// Settings of the transport that are never left at the library's defaults.
const (
	handshakeTimeout  = 3 * time.Second
	firstFrameTimeout = 2 * time.Second
	idleTimeout       = 10 * time.Second

	// A connection's window is larger than the streams that may stall times theirs.
	streamWindow        = 1 << 20
	maxStreamWindow     = 4 << 20
	connectionWindow    = 16 << 20
	maxConnectionWindow = 64 << 20

	// maxStreams bounds what a client may have open at once: lanes, subscriptions and
	// requests together.
	maxStreams = 1024

	// maxConnections bounds the connections of the process, and maxPerAddress those of
	// one address. Each idle one costs about 80 KiB.
	maxConnections = 4096
	maxPerAddress  = 1024

	// windowBudget bounds how far the flow-control windows of all connections together
	// may grow above their first size: memory that peers could make us hold.
	windowBudget = 512 << 20

	// Above this many handshakes a second new addresses must prove themselves first,
	// which costs them a round trip.
	unprovenPerSecond = 200
)

// Config is what a listener needs. All fields but Log and Hooks are required.
type Config struct {
	Addr              string // UDP host:port; port 0 for any
	Certificate       tls.Certificate
	StatelessResetKey [32]byte // kept over restarts, so that clients notice one at once
	TokenKey          [32]byte
	Counters          *counters.Set
	Broker            *broker.Broker
	Log               *slog.Logger
	Hooks             *hooks.Hooks
	Name, Version     string // of the server, for HelloOK
}

// A Listener accepts connections on one UDP socket. Close ends it and waits for all of
// its goroutines.
type Listener struct {
	cfg       Config
	socket    udp.Conn
	transport *quic.Transport
	listener  *quic.Listener
	draining  atomic.Bool
	count     atomic.Int64
	ctx       context.Context
	cancel    context.CancelFunc
	running   sync.WaitGroup // the accept loop and every session

	mu struct {
		sync.Mutex
		sessions  map[*session]struct{}
		byAddress map[netip.Addr]int
		closed    bool
	}
	windows struct {
		sync.Mutex
		granted map[*quic.Conn]uint64
		total   uint64
	}
}

// Listen opens the socket and starts to accept.
func Listen(cfg Config) (*Listener, error) {
	// The library warns on stderr by itself; ReportBuffers does it where logs belong.
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	socket, err := udp.Listen("udp", cfg.Addr, udp.Options{})
	if err != nil {
		return nil, err
	}
	resetKey, tokenKey := quic.StatelessResetKey(cfg.StatelessResetKey), quic.TokenGeneratorKey(cfg.TokenKey)
	unproven := rate.NewLimiter(unprovenPerSecond, unprovenPerSecond)
	l := &Listener{cfg: cfg, socket: socket}
	l.transport = &quic.Transport{
		Conn: socket, StatelessResetKey: &resetKey, TokenGeneratorKey: &tokenKey,
		VerifySourceAddress: func(net.Addr) bool { return !unproven.Allow() },
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.mu.sessions = make(map[*session]struct{})
	l.mu.byAddress = make(map[netip.Addr]int)
	l.windows.granted = make(map[*quic.Conn]uint64)
	tlsConfig := &tls.Config{
		Certificates: []tls.Certificate{cfg.Certificate}, NextProtos: []string{wire.ALPN}, MinVersion: tls.VersionTLS13,
	}
	l.listener, err = l.transport.Listen(tlsConfig, l.quicConfig())
	if err != nil {
		l.cancel()
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", cfg.Addr, err), l.transport.Close(), socket.Close())
	}
	cfg.Broker.Watch(l.topicChanged)
	l.running.Add(1)
	go l.accept()
	return l, nil
}

func (l *Listener) quicConfig() *quic.Config {
	c := &quic.Config{
		HandshakeIdleTimeout:           handshakeTimeout,
		MaxIdleTimeout:                 idleTimeout,
		InitialStreamReceiveWindow:     streamWindow,
		MaxStreamReceiveWindow:         maxStreamWindow,
		InitialConnectionReceiveWindow: connectionWindow,
		MaxConnectionReceiveWindow:     maxConnectionWindow,
		MaxIncomingStreams:             maxStreams,
		MaxIncomingUniStreams:          -1,
		AllowConnectionWindowIncrease:  l.allowWindow,
		EnableDatagrams:                true,              // for copies of frames
		Allow0RTT:                      planted.EarlyData, // early data would be carried out again when replayed
	}
	plain := c.Clone()
	c.GetConfigForClient = func(info *quic.ClientInfo) (*quic.Config, error) {
		if err := l.admit(addressOf(info.RemoteAddr)); err != nil {
			return nil, err
		}
		return plain, nil
	}
	return c
}

// admit says whether one more connection may begin. First match wins.
//
//	draining                        refuse   clients go elsewhere, or come back
//	the process is at its limit     refuse
//	the address is at its limit     refuse   one must not starve the others
//	otherwise                       admit
func (l *Listener) admit(from netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.draining.Load():
		return errors.New("draining")
	case len(l.mu.sessions) >= maxConnections:
		return errors.New("too many connections")
	case l.mu.byAddress[from] >= maxPerAddress:
		return errors.New("too many connections from this address")
	}
	return nil
}

func addressOf(a net.Addr) netip.Addr {
	if u, ok := a.(*net.UDPAddr); ok {
		return u.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// allowWindow keeps the windows of all connections within the budget. The library asks
// each time that one would grow.
func (l *Listener) allowWindow(conn *quic.Conn, delta uint64) bool {
	l.windows.Lock()
	defer l.windows.Unlock()
	if l.windows.total+delta > windowBudget {
		return false
	}
	l.windows.total += delta
	l.windows.granted[conn] += delta
	return true
}

func (l *Listener) returnWindow(conn *quic.Conn) {
	l.windows.Lock()
	defer l.windows.Unlock()
	l.windows.total -= l.windows.granted[conn]
	delete(l.windows.granted, conn)
}

// Addr is the address that the socket is bound to.
func (l *Listener) Addr() *net.UDPAddr { return l.socket.LocalAddr().(*net.UDPAddr) }

// Connections is how many connections are open.
func (l *Listener) Connections() int { return int(l.count.Load()) }

// Buffers reports the effective sizes of the socket's kernel buffers in bytes.
func (l *Listener) Buffers() (udp.Buffers, error) { return udp.BufferSizes(l.socket) }

// accept only spawns: the library's queue of accepted connections holds 32.
func (l *Listener) accept() {
	defer l.running.Done()
	for {
		conn, err := l.listener.Accept(l.ctx)
		if err != nil {
			return
		}
		s := newSession(l, conn)
		if !l.add(s) {
			conn.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "shutting down")
			continue
		}
		go func() {
			defer l.remove(s)
			s.serve()
		}()
	}
}

func (l *Listener) add(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return false
	}
	l.mu.sessions[s] = struct{}{}
	l.mu.byAddress[s.address]++
	l.count.Add(1)
	l.running.Add(1)
	return true
}

func (l *Listener) remove(s *session) {
	l.mu.Lock()
	delete(l.mu.sessions, s)
	if l.mu.byAddress[s.address]--; l.mu.byAddress[s.address] == 0 {
		delete(l.mu.byAddress, s.address)
	}
	l.mu.Unlock()
	l.returnWindow(s.conn)
	l.count.Add(-1)
	l.running.Done()
}

func (l *Listener) all() []*session {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*session, 0, len(l.mu.sessions))
	for s := range l.mu.sessions {
		all = append(all, s)
	}
	return all
}

// topicChanged tells every client. One that has never asked for the topic ignores it.
func (l *Listener) topicChanged(m *wire.TopicChanged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return // and nobody may begin to tell any more
	}
	for s := range l.mu.sessions {
		s.changed(m)
	}
}

// Cut ends all connections at once, with nothing said before; the listener goes on.
func (l *Listener) Cut() {
	for _, s := range l.all() {
		s.cut()
	}
}

// Drain refuses new connections, tells the clients that are there, and waits until they
// have gone or ctx ends. What they have in flight is answered meanwhile.
func (l *Listener) Drain(ctx context.Context, retryAfter time.Duration) {
	l.draining.Store(true)
	sessions := l.all()
	for _, s := range sessions {
		// A write to a client that is gone takes until its connection ends, which Close
		// sees to at the latest; it waits for these, too.
		l.running.Go(func() { s.drain(retryAfter) })
	}
	for _, s := range sessions {
		select {
		case <-s.conn.Context().Done():
		case <-ctx.Done():
			return
		}
	}
}

// Close ends every connection and the socket, and waits for the goroutines.
func (l *Listener) Close() error {
	l.cfg.Broker.Watch(nil)
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.draining.Store(true)
	for _, s := range l.all() {
		s.close(wire.CodeShutdown, "the server is shutting down")
	}
	l.cancel()
	err := l.listener.Close()
	l.running.Wait()
	return errors.Join(err, l.transport.Close(), l.socket.Close())
}
