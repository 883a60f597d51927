package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

func ignoreStream(s *quic.Stream) { <-s.Context().Done() }

func TestSilentServerIsLeft(t *testing.T) {
	t.Parallel()
	p := startPeer(t, func(*quic.Conn, *quic.Stream) {}, ignoreStream)
	_, events := connect(t, p)
	start := time.Now()
	events.want(t, "disconnected: connection lost: closed here: SHUTDOWN: no answer to pings")
	if d := time.Since(start); d < 3*time.Second || d > 6*time.Second {
		t.Errorf("noticed after %v", d)
	}
	events.want(t, "connected")
}

// TestAnswersAreSignsOfLife: a server that is busy elsewhere and late with its pongs is not left.
func TestAnswersAreSignsOfLife(t *testing.T) {
	t.Parallel()
	const pushes, pause = 11, pingEvery / 2
	p := startPeer(t, func(*quic.Conn, *quic.Stream) {}, func(s *quic.Stream) {
		for range pushes {
			if wire.Write(s, &wire.Subscribed{}) != nil {
				return
			}
			<-time.After(pause) // longer in all than a server may be silent
		}
		ignoreStream(s)
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sub, err := conn.Subscribe(&wire.Subscribe{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for n := range pushes {
		if _, err := sub.Next(); err != nil {
			t.Fatalf("push %d: %v", n+1, err)
		}
	}
}

func TestServerThatClosesIsDialedAgain(t *testing.T) {
	var closed atomic.Bool
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		if closed.CompareAndSwap(false, true) {
			wire.Read(control) // a ping: until then the greeting may be lost with the connection
			conn.CloseWithError(quic.ApplicationErrorCode(wire.CodeInternal), "oops")
			return
		}
		answerPings(conn, control)
	}, ignoreStream)
	_, events := connect(t, p)
	events.want(t, "disconnected: connection lost: closed by the server: INTERNAL_ERROR: oops")
	events.want(t, "connected")
}

func TestNonsenseOnControlEndsTheConnection(t *testing.T) {
	var mad atomic.Bool
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		if mad.CompareAndSwap(false, true) {
			wire.Write(control, &wire.EndReached{})
		}
		answerPings(conn, control)
	}, ignoreStream)
	_, events := connect(t, p)
	events.want(t, "disconnected: connection lost: closed here: PROTOCOL_ERROR: EndReached on the control stream")
	events.want(t, "connected")
}

// TestDrainedConnectionFinishesItsWork wants a request that was under way to be answered
// on the old connection, and the old connection to be closed after it.
func TestDrainedConnectionFinishesItsWork(t *testing.T) {
	var drained atomic.Bool
	asked, ended, answer := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		if drained.CompareAndSwap(false, true) {
			<-asked
			wire.Write(control, &wire.Drain{Reason: "update"})
			defer close(ended)
		}
		answerPings(conn, control)
	}, func(s *quic.Stream) {
		if _, err := wire.Read(s); err != nil {
			return
		}
		close(asked)
		<-answer
		wire.Write(s, &wire.TopicDeleted{})
		s.Close()
	})
	m, events := connect(t, p)
	old, _ := m.Current()
	replied := make(chan error, 1)
	go func() {
		_, err := m.Do(context.Background(), &wire.DeleteTopic{Name: "t"}, false)
		replied <- err
	}()
	events.want(t, "drained: update")
	events.want(t, "connected")
	if fresh, _ := m.Current(); fresh == old {
		t.Error("new work still goes to the draining connection")
	}
	if old.Err() != nil {
		t.Errorf("closed before its work was done: %v", old.Err())
	}
	close(answer)
	if err := <-replied; err != nil {
		t.Error(err)
	}
	<-old.Done()
	<-ended
}

// TestConnectionsThatDieYoungAreNotStormed: a server that takes connections and drops
// them before anything works is asked ever more slowly, one that worked at once.
func TestConnectionsThatDieYoungAreNotStormed(t *testing.T) {
	connections, begin := make(chan struct{}, 1000), make(chan struct{})
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		connections <- struct{}{}
		<-begin // the first greeting must not be lost with the connection
		conn.CloseWithError(quic.ApplicationErrorCode(wire.CodeInternal), "oops")
	}, ignoreStream)
	connect(t, p)
	close(begin)
	start := time.Now()
	const dropped = 8
	for range dropped {
		<-connections
	}
	// The pauses are more than half a second on average; without them it took some 20 ms.
	if d := time.Since(start); d < 60*time.Millisecond {
		t.Errorf("%d connections in %v", dropped, d)
	}
}

func TestPausesGrow(t *testing.T) {
	for failures := 1; failures <= 200; failures++ {
		limit := min(firstPause<<min(failures-1, 20), maxPause)
		for range 20 {
			if d := pauseAfter(failures, firstPause, maxPause); d < 0 || d > limit {
				t.Fatalf("pause of %v after %d failures", d, failures)
			}
		}
	}
}

func TestConnectionWorkedWhenSomethingWasAnswered(t *testing.T) {
	p := startPeer(t, answerPings, func(s *quic.Stream) {
		if _, err := wire.Read(s); err == nil {
			wire.Write(s, &wire.TopicDeleted{})
			s.Close()
		}
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	if conn.worked() {
		t.Error("a connection works before anything was asked")
	}
	if _, err := m.Do(context.Background(), &wire.DeleteTopic{Name: "t"}, false); err != nil {
		t.Fatal(err)
	}
	if !conn.worked() {
		t.Error("an answer does not count")
	}
	old := &Conn{born: time.Now().Add(-shortLife)}
	if !old.worked() {
		t.Error("a connection that lasted does not count")
	}
}

// TestRequestWithoutAStream fills all streams that the server allows.
func TestRequestWithoutAStream(t *testing.T) {
	p := startPeer(t, answerPings, ignoreStream)
	m, _ := connect(t, p)
	conn, _ := m.Current()
	var err error
	var open []*Subscription
	for err == nil && len(open) < 2000 {
		var sub *Subscription
		if sub, err = conn.Subscribe(&wire.Subscribe{}); err == nil {
			open = append(open, sub)
		}
	}
	if !errors.Is(err, ErrNoStream) || errors.Is(err, ErrLost) {
		t.Errorf("subscription %d: %v", len(open), err)
	}
	if _, err := conn.NewLane(0, make(laneEvents, 1)); !errors.Is(err, ErrNoStream) {
		t.Errorf("lane: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = m.Do(ctx, &wire.DeleteTopic{Name: "t"}, true)
	if !errors.Is(err, ErrNoStream) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) {
		t.Errorf("request: %v", err)
	}
	for _, sub := range open {
		sub.Close()
	}
}

// blackHole is an address where everything is taken and nothing is answered.
func blackHole(t *testing.T) Target {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return Target{"127.0.0.1", conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()}
}

func TestSilentHostLeavesTimeForTheNext(t *testing.T) {
	p := startPeer(t, answerPings, ignoreStream)
	m := newManager(Config{Targets: []Target{blackHole(t), p.target()}, Trust: Trust{Pins: []Pin{p.pin}},
		Logger: slog.New(slog.DiscardHandler)})
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := m.dialAny(ctx, approach{})
	if err != nil {
		t.Fatal(err)
	}
	if m.firstTarget() != 1 {
		t.Errorf("%s answered and is not the first to be asked next time", conn.Addr())
	}
}

// TestSilenceMovesToAnotherHost: whoever was not heard is not asked first again.
func TestSilenceMovesToAnotherHost(t *testing.T) {
	t.Parallel()
	silent := startPeer(t, func(*quic.Conn, *quic.Stream) {}, ignoreStream)
	other := startPeer(t, answerPings, ignoreStream)
	events := make(seen, 100)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	m, err := New(ctx, Config{Targets: []Target{silent.target(), other.target()}, Trust: Trust{Pins: []Pin{silent.pin, other.pin}},
		Name: "test", Logger: slog.New(slog.DiscardHandler), Observer: events.observer()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	events.want(t, "connected")
	events.want(t, "disconnected: connection lost: closed here: SHUTDOWN: no answer to pings")
	start := time.Now()
	events.want(t, "connected")
	if conn, _ := m.Current(); conn == nil || conn.Addr() != other.target().String() {
		t.Errorf("connected to %v", conn.Addr())
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}

func TestRequests(t *testing.T) {
	var count atomic.Int64
	replies := map[string]func(s *quic.Stream){
		"ok":       func(s *quic.Stream) { wire.Write(s, &wire.TopicDeleted{}); s.Close() },
		"hasty":    func(s *quic.Stream) { s.CancelRead(0); wire.Write(s, &wire.TopicDeleted{}); s.Close() },
		"refused":  func(s *quic.Stream) { wire.Write(s, wire.Errorf(wire.CodeUnknownTopic, "gone")); s.Close() },
		"reset":    func(s *quic.Stream) { s.CancelWrite(quic.StreamErrorCode(wire.CodeInternal)) },
		"no reply": func(s *quic.Stream) { s.Close() },
		"nonsense": func(s *quic.Stream) { s.Write([]byte("no frame at all")); s.Close() },
		"throttled once": func(s *quic.Stream) {
			if count.Add(1) == 1 {
				wire.Write(s, wire.Errorf(wire.CodeThrottled, ""))
			} else {
				wire.Write(s, &wire.TopicDeleted{})
			}
			s.Close()
		},
		"reset once": func(s *quic.Stream) {
			if count.Add(1) == 1 {
				s.CancelWrite(0)
				return
			}
			wire.Write(s, &wire.TopicDeleted{})
			s.Close()
		},
	}
	p := startPeer(t, answerPings, func(s *quic.Stream) {
		m, err := wire.Read(s)
		if err != nil {
			return
		}
		if m.(*wire.DeleteTopic).Name != "hasty" {
			io.Copy(io.Discard, s)
		}
		if reply := replies[m.(*wire.DeleteTopic).Name]; reply != nil {
			reply(s)
			return
		}
		<-s.Context().Done() // "silence"
	})
	m, _ := connect(t, p)
	do := func(name string, again bool) error {
		count.Store(0)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if name == "silence" {
			ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
		}
		defer cancel()
		_, err := m.Do(ctx, &wire.DeleteTopic{Name: name}, again)
		return err
	}
	var refusal *wire.Error
	tests := []struct {
		name  string
		again bool
		good  func(error) bool
	}{
		{"ok", false, func(err error) bool { return err == nil }},
		{"nonsense", true, func(err error) bool { return errors.Is(err, wire.ErrFrame) && !errors.Is(err, ErrLost) }},
		{"refused", true, func(err error) bool { return errors.As(err, &refusal) && refusal.Code == wire.CodeUnknownTopic }},
		{"reset", false, func(err error) bool {
			return errors.Is(err, ErrLost) && strings.Contains(err.Error(), "INTERNAL_ERROR")
		}},
		{"no reply", false, func(err error) bool { return errors.Is(err, ErrLost) }},
		{"throttled once", false, func(err error) bool { return err == nil }},
		{"reset once", true, func(err error) bool { return err == nil }},
		{"reset once", false, func(err error) bool { return errors.Is(err, ErrLost) }},
		{"silence", true, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	}
	// A server that stops reading as soon as it has the request is a race with our end of
	// the stream; both may win.
	for i := range 200 {
		if err := do("hasty", false); err != nil {
			t.Fatalf("hasty, %d: %v", i, err)
		}
	}
	for _, tt := range tests {
		if err := do(tt.name, tt.again); !tt.good(err) {
			t.Errorf("%s, again %v: %v", tt.name, tt.again, err)
		}
	}
	m.Close()
	if err := do("ok", true); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
