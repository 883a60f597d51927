package transport

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

func ignoreStream(s *quic.Stream) { <-s.Context().Done() }

func TestSilentServerIsLeft(t *testing.T) {
	p := startPeer(t, func(*quic.Conn, *quic.Stream) {}, ignoreStream)
	_, events := connect(t, p)
	start := time.Now()
	events.want(t, "disconnected: connection lost: closed here: SHUTDOWN: no answer to pings")
	if d := time.Since(start); d < 3*time.Second || d > 6*time.Second {
		t.Errorf("noticed after %v", d)
	}
	events.want(t, "connected")
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

func TestRequests(t *testing.T) {
	var count atomic.Int64
	replies := map[string]func(s *quic.Stream){
		"ok":       func(s *quic.Stream) { wire.Write(s, &wire.TopicDeleted{}); s.Close() },
		"hasty":    func(s *quic.Stream) { s.CancelRead(0); wire.Write(s, &wire.TopicDeleted{}); s.Close() },
		"refused":  func(s *quic.Stream) { wire.Write(s, wire.Errorf(wire.CodeUnknownTopic, "gone")); s.Close() },
		"reset":    func(s *quic.Stream) { s.CancelWrite(quic.StreamErrorCode(wire.CodeInternal)) },
		"no reply": func(s *quic.Stream) { s.Close() },
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
