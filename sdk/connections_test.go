package sdk_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

func TestNumberOfConnectionsHasBounds(t *testing.T) {
	for _, n := range []int{-1, 0, 17} {
		_, err := sdk.Dial(testContext(t), "quoin://127.0.0.1:1", sdk.Connections(n))
		var de *sdk.DialError
		if !errors.As(err, &de) || de.Stage != sdk.StageOptions || !strings.Contains(err.Error(), "1 to 16") {
			t.Errorf("%d connections: %v", n, err)
		}
	}
}

// watch is an OnEvent, and the channel to which it passes on the events.
func watch() (sdk.DialOption, <-chan sdk.Event) {
	events := make(chan sdk.Event, 10_000)
	return sdk.OnEvent(func(e sdk.Event) { events <- e }), events
}

// awaitLive takes events until one of this kind says that so many connections live.
func awaitLive(t *testing.T, events <-chan sdk.Event, kind sdk.EventKind, live int) sdk.Event {
	t.Helper()
	ctx := testContext(t)
	for {
		select {
		case e := <-events:
			if e.Kind == kind && e.Live == live {
				return e
			}
		case <-ctx.Done():
			t.Fatalf("never %v with %d connections", kind, live)
		}
	}
}

// A splitter passes everything on between clients and a server, and counts for each
// connection of a client the streams by their first frame.
type splitter struct {
	url, server string
	ctx         context.Context
	wg          sync.WaitGroup
	mu          struct {
		sync.Mutex
		streams map[*quic.Conn]map[wire.Kind]int
	}
}

func startSplitter(t *testing.T, s *servertest.Server) *splitter {
	t.Helper()
	cert, _ := certificate(t)
	conf := &quic.Config{MaxIncomingStreams: 1000}
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{wire.ALPN}}, conf)
	if err != nil {
		t.Fatal(err)
	}
	p := &splitter{url: "quoin://" + l.Addr().String() + "?pin=" + pinOf(cert.Leaf), server: hostOf(s)}
	p.mu.streams = make(map[*quic.Conn]map[wire.Kind]int)
	var cancel context.CancelFunc
	p.ctx, cancel = context.WithCancel(context.Background())
	p.wg.Go(func() {
		for {
			conn, err := l.Accept(p.ctx)
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		p.wg.Wait()
	})
	return p
}

func hostOf(s *servertest.Server) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(s.URL(), "quoin://"), "?")
	return host
}

func (p *splitter) serve(client *quic.Conn) {
	defer client.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "the server left")
	server, err := quic.DialAddr(p.ctx, p.server, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}}, nil)
	if err != nil {
		return
	}
	defer server.CloseWithError(quic.ApplicationErrorCode(wire.CodeOK), "the client left")
	for {
		in, err := client.AcceptStream(p.ctx)
		if err != nil {
			return
		}
		out, err := server.OpenStreamSync(p.ctx)
		if err != nil {
			return
		}
		p.wg.Go(func() {
			frame, kind, err := readFrame(in)
			if err == nil {
				p.count(client, kind)
				_, err = io.Copy(out, io.MultiReader(bytes.NewReader(frame), in))
			}
			if err != nil {
				out.CancelWrite(0)
				return
			}
			out.Close()
		})
		p.wg.Go(func() {
			defer in.CancelRead(0)
			defer in.Close()
			io.Copy(in, out)
		})
	}
}

func (p *splitter) count(client *quic.Conn, kind wire.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.streams[client] == nil {
		p.mu.streams[client] = make(map[wire.Kind]int)
	}
	p.mu.streams[client][kind]++
}

// counts is how many streams of a kind each connection has seen that saw any.
func (p *splitter) counts(kind wire.Kind) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []int
	for _, kinds := range p.mu.streams {
		if kinds[kind] > 0 {
			all = append(all, kinds[kind])
		}
	}
	return all
}

func TestPartitionsAreSpreadOverTheConnections(t *testing.T) {
	const partitions = 8
	s := servertest.Start(t)
	split := startSplitter(t, s)
	onEvent, events := watch()
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, split.url, sdk.Connections(4), onEvent)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	awaitLive(t, events, sdk.EventConnected, 4)
	if n := s.Running().Connections(); n != 4 {
		t.Errorf("the server has %d connections", n)
	}
	createTopic(t, c, "t", partitions)
	p := build(t, c.Producer("t").Partitioner(func(r *sdk.Record, n int) int { return int(r.Value[0]) % n }))
	for i := range 2 * partitions {
		if _, err := p.Send(ctx, sdk.Record{Value: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(readAll(t, c, "t")); n != partitions {
		t.Errorf("read %d partitions", n)
	}
	two := []int{2, 2, 2, 2}
	for _, kind := range []wire.Kind{wire.KindOpenLane, wire.KindSubscribe} {
		if diff := cmp.Diff(two, split.counts(kind)); diff != "" {
			t.Errorf("streams of %v on the connections (-want +got):\n%s", kind, diff)
		}
	}
}

// TestNothingIsLostOverSeveralConnections cuts all connections, again and again, and
// starts the server again in the middle.
func TestNothingIsLostOverSeveralConnections(t *testing.T) {
	const records, partitions = 800, 8
	s := servertest.Start(t)
	onEvent, events := watch()
	c := dial(t, s, sdk.Connections(4), onEvent)
	createTopic(t, c, "t", partitions)
	p := build(t, c.Producer("t").Partitioner(func(r *sdk.Record, n int) int { return int(r.Value[0]) % n }))
	ctx := testContext(t)
	var wg sync.WaitGroup
	for part := range partitions {
		wg.Go(func() {
			for i := range records / partitions {
				if _, err := p.Send(ctx, sdk.Record{Value: []byte{byte(part), byte(i)}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		awaitLive(t, events, sdk.EventConnected, 4)
		s.CutConnection()
	}
	awaitLive(t, events, sdk.EventConnected, 4)
	s.Restart()
	awaitLive(t, events, sdk.EventConnected, 4)
	wg.Wait()
	for part, got := range readAll(t, c, "t") {
		if len(got) != records/partitions {
			t.Errorf("partition %d holds %d records", part, len(got))
		}
		for i, r := range got {
			if r.Value[0] != byte(part) || r.Value[1] != byte(i) {
				t.Fatalf("partition %d, offset %d: %v", part, i, r.Value)
			}
		}
	}
}

// TestEventsAreOfOneConnectionEach: an application knows which one it was, and whether it
// was the last.
func TestEventsAreOfOneConnectionEach(t *testing.T) {
	s := servertest.Start(t)
	onEvent, events := watch()
	c := dial(t, s, sdk.Connections(3), onEvent)
	ctx := testContext(t)
	live := make(map[int]bool)
	take := func(e sdk.Event) {
		t.Helper()
		switch e.Kind {
		case sdk.EventConnected:
			if live[e.Connection] {
				t.Errorf("connection %d came twice", e.Connection)
			}
			live[e.Connection] = true
		case sdk.EventDisconnected, sdk.EventDrained:
			if !live[e.Connection] || e.Err == nil {
				t.Errorf("connection %d went and was not there, because of %v", e.Connection, e.Err)
			}
			delete(live, e.Connection)
		}
		if e.Live != len(live) || e.Connection < 1 || e.Connection > 3 {
			t.Errorf("%v: connection %d, %d live, those of the events are %d", e.Kind, e.Connection, e.Live, len(live))
		}
	}
	takeUntil := func(n int) {
		t.Helper()
		for len(live) != n {
			select {
			case e := <-events:
				take(e)
			case <-ctx.Done():
				t.Fatalf("never %d connections", n)
			}
		}
	}
	takeUntil(3)
	for _, fault := range []func(){s.CutConnection, s.Restart} {
		fault()
		gone := 0
		for gone < 3 {
			e := <-events
			if take(e); e.Kind == sdk.EventDisconnected || e.Kind == sdk.EventDrained {
				gone++
			}
		}
		takeUntil(3)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	for len(events) > 0 {
		if e := <-events; e.Kind == sdk.EventDisconnected {
			t.Errorf("closing is told as a loss: %+v", e)
		}
	}
}

// A hole is a relay for the datagrams of one client that can swallow them all.
type hole struct {
	outside, inside *net.UDPConn // towards the client, and towards the server
	client          atomic.Pointer[netip.AddrPort]
	swallows        atomic.Bool
	wg              sync.WaitGroup
}

func startHole(t *testing.T, server string) *hole {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp4", server)
	if err != nil {
		t.Fatal(err)
	}
	outside, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	inside, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{outside: outside, inside: inside}
	h.wg.Go(func() {
		h.copy(h.outside, func(b []byte, from netip.AddrPort) {
			h.client.Store(&from)
			h.inside.WriteToUDPAddrPort(b, to.AddrPort())
		})
	})
	h.wg.Go(func() {
		h.copy(h.inside, func(b []byte, _ netip.AddrPort) {
			if client := h.client.Load(); client != nil {
				h.outside.WriteToUDPAddrPort(b, *client)
			}
		})
	})
	t.Cleanup(func() {
		outside.Close()
		inside.Close()
		h.wg.Wait()
	})
	return h
}

func (h *hole) copy(from *net.UDPConn, pass func([]byte, netip.AddrPort)) {
	buf := make([]byte, 64<<10)
	for {
		n, addr, err := from.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil && !h.swallows.Load():
			pass(buf[:n], addr)
		}
	}
}

// TestRestartedServerIsNoticedAtOnce: the client hears nothing of the server's end. The next
// packet that it sends on each connection is answered by the new one, which does not know
// the connection, and the client does not wait for the silence to last.
func TestRestartedServerIsNoticedAtOnce(t *testing.T) {
	for _, connections := range []int{1, 4} {
		s := servertest.Start(t)
		h := startHole(t, hostOf(s))
		onEvent, events := watch()
		ctx := testContext(t)
		url := strings.Replace(s.URL(), hostOf(s), h.outside.LocalAddr().String(), 1)
		c, err := sdk.Dial(ctx, url, sdk.Connections(connections), onEvent)
		if err != nil {
			t.Fatal(err)
		}
		awaitLive(t, events, sdk.EventConnected, connections)
		createTopic(t, c, "t", 4)
		p := build(t, c.Producer("t"))
		if _, err := p.Send(ctx, value(0)); err != nil {
			t.Fatal(err)
		}
		h.swallows.Store(true)
		s.Kill()
		h.swallows.Store(false)
		begin := time.Now()
		for n := 0; n < connections; {
			e := <-events
			if e.Kind != sdk.EventDisconnected {
				continue
			}
			n++
			if !errors.Is(e.Err, sdk.ErrConnectionLost) || !strings.Contains(e.Err.Error(), "it was restarted") {
				t.Errorf("connection %d: %v", e.Connection, e.Err)
			}
			t.Logf("connection %d of %d noticed after %v", e.Connection, connections, time.Since(begin))
		}
		if _, err := p.Send(ctx, value(1)); err != nil {
			t.Error(err)
		}
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
