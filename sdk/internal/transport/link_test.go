package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// A told is one call of an observer.
type told struct {
	what string // connected, lost, retrying or drained
	Change
	err error
}

type telling chan told

func (c telling) observer() Observer {
	return Observer{
		Connected:    func(ch Change) { c <- told{"connected", ch, nil} },
		Disconnected: func(ch Change, err error) { c <- told{"lost", ch, err} },
		Retrying:     func(ch Change, _ int, _ time.Duration, err error) { c <- told{"retrying", ch, err} },
		Drained:      func(ch Change, reason string) { c <- told{"drained", ch, errors.New(reason)} },
	}
}

// until takes what is told until there is an event of this kind with so many connections.
func (c telling) until(t *testing.T, what string, live int) told {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case e := <-c:
			if e.what == what && e.Live == live {
				return e
			}
		case <-timeout:
			t.Fatalf("never %s with %d connections", what, live)
		}
	}
}

// connectAll makes a manager that keeps n connections to p, and waits for all of them.
func connectAll(t *testing.T, p *peer, n int) (*Manager, telling) {
	t.Helper()
	events := make(telling, 10_000)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	m, err := New(ctx, Config{Targets: []Target{p.target()}, Trust: Trust{Pins: []Pin{p.pin}}, Connections: n,
		Name: "test", Logger: slog.New(slog.DiscardHandler), Observer: events.observer()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	events.until(t, "connected", n)
	return m, events
}

// collect is a control function of a peer that notes its connections.
func collect(into chan<- *quic.Conn) func(*quic.Conn, *quic.Stream) {
	return func(conn *quic.Conn, control *quic.Stream) {
		into <- conn
		answerPings(conn, control)
	}
}

// waitHomes waits for the homes of the keys from 0, all at once.
func waitHomes(ctx context.Context, m *Manager, keys int) <-chan []*Conn {
	homes := make(chan []*Conn, 1)
	all := make([]*Conn, keys)
	var wg sync.WaitGroup
	for key := range all {
		wg.Go(func() { all[key], _ = m.WaitHome(ctx, uint64(key)) })
	}
	go func() {
		wg.Wait()
		homes <- all
	}()
	return homes
}

// wantSpread wants eight keys to be on four connections, two on each.
func wantSpread(t *testing.T, homes []*Conn) {
	t.Helper()
	on := make(map[*Conn]int)
	for _, conn := range homes {
		on[conn]++
	}
	for conn, n := range on {
		if conn == nil || n != 2 {
			t.Errorf("%d keys on the connection %p", n, conn)
		}
	}
}

// TestLostConnectionComesBackAlone: the others stay, and so does the work on them.
func TestLostConnectionComesBackAlone(t *testing.T) {
	p := startPeer(t, answerPings, ignoreStream)
	m, events := connectAll(t, p, 4)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	before := <-waitHomes(ctx, m, 8)
	wantSpread(t, before)
	before[2].close(wire.CodeInternal, "lost on the way")
	gone := events.until(t, "lost", 3)
	if !errors.Is(gone.err, ErrLost) || gone.Addr != p.target().String() {
		t.Errorf("lost: %+v", gone)
	}
	back := events.until(t, "connected", 4)
	if gone.Connection != 3 || back.Connection != 3 {
		t.Errorf("connection 3 was lost, told is %d; back is %d", gone.Connection, back.Connection)
	}
	for key, conn := range <-waitHomes(ctx, m, 8) {
		if stays := key%4 != gone.Connection-1; (conn == before[key]) != stays {
			t.Errorf("key %d: stays %v", key, !stays)
		}
	}
}

// TestWorkSpreadsAgainAfterALossOfAll: whoever waits must not rush to the first one back.
func TestWorkSpreadsAgainAfterALossOfAll(t *testing.T) {
	p := startPeer(t, answerPings, ignoreStream)
	m, events := connectAll(t, p, 4)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 3 {
		for _, conn := range <-waitHomes(ctx, m, 4) {
			conn.close(wire.CodeInternal, "lost on the way")
		}
		for lost := 0; lost < 4; {
			if e := <-events; e.what == "lost" {
				lost++
			}
		}
		wantSpread(t, <-waitHomes(ctx, m, 8))
		// Each was lost once and comes back once, in whatever order.
		for m.alive() < 4 {
			<-events
		}
	}
}

// A gate is a peer that takes connections only while it is open.
type gate struct {
	listener *quic.Listener
	room     atomic.Int64 // connections that it takes yet
	pin      Pin
}

// startGate starts a gate at an address with room for so many connections.
func startGate(t *testing.T, room int) *gate {
	t.Helper()
	cert, pin := selfSigned(t)
	g := &gate{pin: pin}
	g.room.Store(int64(room))
	conf := quicConfig(true)
	conf.MaxIncomingStreams = 1000
	conf.GetConfigForClient = func(*quic.ClientInfo) (*quic.Config, error) {
		if g.room.Add(-1) < 0 {
			return nil, errors.New("full")
		}
		return nil, nil
	}
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{wire.ALPN}}, conf)
	if err != nil {
		t.Fatal(err)
	}
	g.listener = l
	ctx, cancel := context.WithCancel(context.Background())
	p := &peer{listener: l, pin: pin, control: answerPings, stream: ignoreStream, ctx: ctx}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		cancel()
		l.Close()
		p.wg.Wait()
	})
	return g
}

func (g *gate) config(events telling) Config {
	return Config{Targets: []Target{targetOf(g.listener)}, Trust: Trust{Pins: []Pin{g.pin}}, Connections: 4,
		Name: "test", Logger: slog.New(slog.DiscardHandler), Observer: events.observer()}
}

func targetOf(l *quic.Listener) Target {
	return Target{"127.0.0.1", l.Addr().(*net.UDPAddr).AddrPort().Port()}
}

// TestServerWithoutRoomForAll: the client works over those that it got, and takes the
// others when there is room.
func TestServerWithoutRoomForAll(t *testing.T) {
	g := startGate(t, 2)
	events := make(telling, 10_000)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m, err := New(ctx, g.config(events))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	events.until(t, "connected", 2)
	refused := make(map[int]bool)
	for len(refused) < 2 {
		e := events.until(t, "retrying", 2)
		if !errors.Is(e.err, ErrRefused) {
			t.Errorf("retry: %v", e.err)
		}
		refused[e.Connection] = true
	}
	on := make(map[*Conn]int)
	for _, conn := range <-waitHomes(ctx, m, 8) {
		on[conn]++
	}
	if len(on) != 2 || on[nil] != 0 {
		t.Errorf("work on %d connections, %d keys on none", len(on), on[nil])
	}
	g.room.Store(100)
	events.until(t, "connected", 4)
	wantSpread(t, <-waitHomes(ctx, m, 8))
}

func TestAllConnectionsRefused(t *testing.T) {
	g := startGate(t, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, g.config(make(telling, 100))); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}

// TestOutageThatLasts: pauses have grown, and nobody expects a connection any more. The
// first one that is made brings the others back, and the work spreads over all.
func TestOutageThatLasts(t *testing.T) {
	g := startGate(t, 4)
	events := make(telling, 10_000)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m, err := New(ctx, g.config(events))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	events.until(t, "connected", 4)
	for _, conn := range <-waitHomes(ctx, m, 4) {
		conn.close(wire.CodeInternal, "lost on the way")
	}
	events.until(t, "lost", 0)
	failures := make(map[int]int)
	for failures[1] < 4 || failures[2] < 4 || failures[3] < 4 || failures[4] < 4 {
		failures[events.until(t, "retrying", 0).Connection]++
	}
	homes := waitHomes(ctx, m, 8)
	g.room.Store(100)
	wantSpread(t, <-homes)
	events.until(t, "connected", 4)
}

// TestDrainOfSeveralConnections: each says so, and each is replaced.
func TestDrainOfSeveralConnections(t *testing.T) {
	drain := make(chan struct{})
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		select {
		case <-drain: // it came afterwards
			answerPings(conn, control)
			return
		default:
		}
		var pings sync.WaitGroup
		pings.Go(func() { answerPings(conn, control) })
		defer pings.Wait()
		select {
		case <-drain:
			wire.Write(control, &wire.Drain{Reason: "update"})
		case <-conn.Context().Done():
		}
	}, ignoreStream)
	m, events := connectAll(t, p, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	old := <-waitHomes(ctx, m, 3)
	close(drain)
	seen := make(map[int]bool)
	for len(seen) < 3 {
		e := <-events
		if e.what == "drained" {
			seen[e.Connection] = true
		}
	}
	for m.alive() < 3 {
		<-events
	}
	fresh := <-waitHomes(ctx, m, 3)
	for i, conn := range old {
		<-conn.Done() // nothing was under way on it
		if fresh[i] == conn {
			t.Errorf("work for %d still goes to a connection that drains", i)
		}
	}
}

// TestRequestsGoOverAnyConnection: one that is lost takes no request with it that may be
// asked again.
func TestRequestsGoOverAnyConnection(t *testing.T) {
	conns := make(chan *quic.Conn, 100)
	p := startPeer(t, collect(conns), func(s *quic.Stream) {
		if _, err := wire.Read(s); err == nil {
			wire.Write(s, &wire.TopicDeleted{})
			s.Close()
		}
	})
	m, _ := connectAll(t, p, 3)
	used := make(map[*Conn]bool)
	for range 3 {
		conn, _ := m.Current()
		used[conn] = true
	}
	if len(used) != 3 {
		t.Errorf("three requests over %d connections", len(used))
	}
	for i := range 60 {
		if i%20 == 10 {
			(<-conns).CloseWithError(quic.ApplicationErrorCode(wire.CodeInternal), "oops")
		}
		if _, err := m.Do(context.Background(), &wire.DeleteTopic{Name: "t"}, true); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeadFirstHostCostsOneStagger wants a client whose first host is dead to be connected
// long before an attempt there would have ended.
func TestDeadFirstHostCostsOneStagger(t *testing.T) {
	p := startPeer(t, answerPings, ignoreStream)
	events := make(seen, 100)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	begin := time.Now()
	m, err := New(ctx, Config{Targets: []Target{blackHole(t), blackHole(t), p.target()}, Trust: Trust{Pins: []Pin{p.pin}},
		Name: "test", Logger: slog.New(slog.DiscardHandler), Observer: events.observer()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if d := time.Since(begin); d < 2*stagger || d > handshakeTimeout {
		t.Errorf("connected after %v", d)
	}
	begin = time.Now()
	conn, _ := m.Current()
	conn.close(wire.CodeInternal, "lost on the way")
	events.want(t, "connected")
	events.want(t, "disconnected: connection lost: closed here: INTERNAL_ERROR: lost on the way")
	events.want(t, "connected") // with nothing that is told to have failed in between
	t.Logf("back after %v", time.Since(begin))
}

// TestLoserOfTheRaceIsTold: a server that shook hands, but was slower to say Hello, hears
// at once that it is not needed.
func TestLoserOfTheRaceIsTold(t *testing.T) {
	cert, pin := selfSigned(t)
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{wire.ALPN}}, quicConfig(true))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := l.Accept(context.Background())
		if err == nil {
			<-conn.Context().Done()
			err = context.Cause(conn.Context())
		}
		ended <- err
	}()
	p := startPeer(t, answerPings, ignoreStream)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	m, err := New(ctx, Config{Targets: []Target{targetOf(l), p.target()}, Trust: Trust{Pins: []Pin{p.pin, pin}},
		Name: "test", Logger: slog.New(slog.DiscardHandler), Observer: make(seen, 10).observer()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if conn, _ := m.Current(); conn.Addr() != p.target().String() {
		t.Errorf("connected to %s", conn.Addr())
	}
	var closed *quic.ApplicationError
	if err := <-ended; !errors.As(err, &closed) || !closed.Remote {
		t.Errorf("the loser's connection ended with %v", err)
	}
}

// TestAddressThatAnsweredIsAskedFirst looks at what is remembered of a race, and forgotten
// when nothing is heard any more.
func TestAddressThatAnsweredIsAskedFirst(t *testing.T) {
	m := newManager(Config{Targets: make([]Target, 3)})
	defer m.Close()
	at := netip.MustParseAddrPort("192.0.2.1:1")
	conn := &Conn{greeted: greeted{target: 2, at: at}}
	m.prefer(2, at)
	if m.firstTarget() != 2 || m.lastAddress() != at.Addr() {
		t.Errorf("first %d, last %v", m.firstTarget(), m.lastAddress())
	}
	for range 3 { // as many as there are connections: they are lost together
		m.avoid(conn)
	}
	if m.firstTarget() != 0 || m.lastAddress().IsValid() {
		t.Errorf("after a silence: first %d, last %v", m.firstTarget(), m.lastAddress())
	}
}

// TestCloseWhileLinksTry closes a manager of which some connections live and some pause.
func TestCloseWhileLinksTry(t *testing.T) {
	g := startGate(t, 1)
	events := make(telling, 10_000)
	m, err := New(t.Context(), g.config(events))
	if err != nil {
		t.Fatal(err)
	}
	events.until(t, "retrying", 1)
	m.Close()
	if conn, _ := m.Current(); conn != nil {
		t.Error("a connection is left")
	}
	if _, err := m.WaitHome(context.Background(), 3); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	for len(events) > 0 {
		if e := <-events; e.what == "lost" {
			t.Errorf("closing is told as a loss: %+v", e)
		}
	}
}

func TestErrorOfARaceNamesEveryAddress(t *testing.T) {
	g, full := startGate(t, 0), startGate(t, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := g.config(make(telling, 100))
	c.Targets = append(c.Targets, targetOf(full.listener))
	m := newManager(c)
	defer m.Close()
	_, err := m.dialAny(ctx, approach{})
	for _, target := range c.Targets {
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), target.String()) {
			t.Errorf("error does not name %v: %v", target, err)
		}
	}
}
