package transport

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// laneEvents is a sink that passes on what it hears.
type laneEvents chan any

func (e laneEvents) LaneOpened(m *wire.LaneOpened)      { e <- m }
func (e laneEvents) LaneRefused(err *wire.Error)        { e <- err }
func (e laneEvents) LaneResult(r *wire.ProduceResult)   { e <- *r }
func (e laneEvents) LaneLost(err error)                 { e <- err }
func (e laneEvents) wantLost(t *testing.T, what string) { t.Helper(); wantLost(t, <-e, what) }

func wantLost(t *testing.T, event any, what string) {
	t.Helper()
	if err, ok := event.(error); !ok || !errors.Is(err, ErrLost) {
		t.Fatalf("%s: got %v", what, event)
	}
}

// frameOf is a produce frame with room for its head in front of n bytes.
func frameOf(n int) []byte {
	return append(make([]byte, wire.HeaderSize+wire.ProduceHead), bytes.Repeat([]byte{7}, n)...)
}

// echo opens every lane, and answers every batch with its length as the offset.
func echo(s *quic.Stream) {
	for {
		m, err := wire.Read(s)
		if err != nil {
			return
		}
		var reply wire.Message
		switch m := m.(type) {
		case *wire.OpenLane:
			reply = &wire.LaneOpened{Lane: m.Lane, LastSequence: -1}
			if m.Partition == 13 {
				reply = &wire.LaneRefused{Lane: m.Lane, Err: *wire.Errorf(wire.CodeUnknownPartition, "")}
			}
		case *wire.Produce:
			reply = &wire.ProduceResults{Results: []wire.ProduceResult{{Lane: m.Lane, BaseSequence: 0}, {Lane: m.Lane + 1000}}}
		}
		if wire.Write(s, reply) != nil {
			return
		}
	}
}

func TestLanesShareStreamsBeyondTheLimit(t *testing.T) {
	p := startPeer(t, answerPings, echo)
	m, _ := connect(t, p)
	conn, _ := m.Current()
	const lanes = 3 * laneSlots
	var all []*Lane
	var sinks []laneEvents
	for i := range lanes {
		sink := make(laneEvents, 10)
		l, err := conn.OpenLane(uint64(i)*7, &wire.OpenLane{Partition: int32(100 + i)}, sink)
		if err != nil {
			t.Fatal(err)
		}
		all, sinks = append(all, l), append(sinks, sink)
	}
	streams := make(map[*laneStream]int)
	for i, l := range all {
		streams[l.on]++
		if opened, ok := (<-sinks[i]).(*wire.LaneOpened); !ok || opened.Lane != l.number {
			t.Fatalf("lane %d was not opened", i)
		}
	}
	if len(streams) != laneSlots {
		t.Errorf("%d streams for %d lanes", len(streams), lanes)
	}
	for i, l := range all {
		if err := l.Produce(frameOf(10), wire.Produce{}); err != nil {
			t.Fatal(err)
		}
		if r, ok := (<-sinks[i]).(wire.ProduceResult); !ok || r.Lane != l.number {
			t.Fatalf("lane %d has the result of another", i)
		}
	}
	for _, l := range all {
		l.Close()
		l.Close()
	}
	reused, err := conn.OpenLane(1, &wire.OpenLane{Partition: 13}, sinks[0])
	if err != nil {
		t.Fatal(err)
	}
	if streams[reused.on] == 0 {
		t.Error("a stream without lanes is not used again")
	}
	if refusal, ok := (<-sinks[0]).(*wire.Error); !ok || refusal.Code != wire.CodeUnknownPartition {
		t.Error("not refused")
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.mu.uses != 0 {
		t.Errorf("%d uses are left", conn.mu.uses)
	}
}

func TestLostStreamIsToldToItsLanes(t *testing.T) {
	p := startPeer(t, answerPings, func(s *quic.Stream) {
		if _, err := wire.Read(s); err == nil {
			s.CancelRead(quic.StreamErrorCode(wire.CodeInternal))
			s.CancelWrite(quic.StreamErrorCode(wire.CodeInternal))
		}
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sink := make(laneEvents, 10)
	l, err := conn.OpenLane(0, &wire.OpenLane{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	sink.wantLost(t, "reset stream")
	if err := l.Produce(frameOf(1), wire.Produce{}); !errors.Is(err, ErrLost) {
		t.Errorf("produce after it: %v", err)
	}
	l.Close()
	if conn.Err() != nil {
		t.Error("the connection went with the stream")
	}
	if next, err := conn.OpenLane(0, &wire.OpenLane{}, sink); err != nil {
		t.Error(err)
	} else if next.on == l.on {
		t.Error("opened on the stream that is over")
	}
	sink.wantLost(t, "second reset")
}

func TestWrongFrameEndsTheLaneStream(t *testing.T) {
	for _, reply := range []wire.Message{&wire.Pong{}, wire.Errorf(wire.CodeInternal, "no")} {
		p := startPeer(t, answerPings, func(s *quic.Stream) {
			if _, err := wire.Read(s); err == nil {
				wire.Write(s, reply)
			}
		})
		m, _ := connect(t, p)
		conn, _ := m.Current()
		sink := make(laneEvents, 10)
		if _, err := conn.OpenLane(0, &wire.OpenLane{}, sink); err != nil {
			t.Fatal(err)
		}
		sink.wantLost(t, reply.Kind().String())
	}
}

// TestInterruptWakesAWrite fills the window of a server that does not read.
func TestInterruptWakesAWrite(t *testing.T) {
	p := startPeer(t, answerPings, ignoreStream)
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sink := make(laneEvents, 10)
	l, err := conn.OpenLane(0, &wire.OpenLane{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		for {
			if err := l.Produce(frameOf(1<<20), wire.Produce{}); err != nil {
				result <- err
				return
			}
		}
	}()
	l.Interrupt()
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	sink.wantLost(t, "interrupted")
}

func TestSubscription(t *testing.T) {
	credit := make(chan int, 1)
	p := startPeer(t, answerPings, func(s *quic.Stream) {
		m, err := wire.Read(s)
		if err != nil {
			return
		}
		if m.(*wire.Subscribe).Partition == 13 {
			wire.Write(s, wire.Errorf(wire.CodeUnknownPartition, ""))
			return
		}
		wire.Write(s, &wire.Subscribed{Start: 5})
		wire.Write(s, &wire.Batches{Batches: []byte("xyz")})
		if m, err := wire.Read(s); err == nil {
			credit <- int(m.(*wire.Credit).Bytes)
		}
		wire.Write(s, &wire.Pong{})
		io.Copy(io.Discard, s)
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sub, err := conn.Subscribe(&wire.Subscribe{Partition: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sub.Next(); err != nil || got.(*wire.Subscribed).Start != 5 {
		t.Fatalf("got %v, %v", got, err)
	}
	if got, err := sub.Next(); err != nil || string(got.(*wire.Batches).Batches) != "xyz" {
		t.Fatalf("got %v, %v", got, err)
	}
	if err := sub.Grant(77); err != nil || <-credit != 77 {
		t.Errorf("grant: %v", err)
	}
	if _, err := sub.Next(); !errors.Is(err, ErrLost) {
		t.Errorf("a frame that does not belong: %v", err)
	}
	sub.Close()
	sub.Close()
	if err := sub.Grant(1); !errors.Is(err, ErrLost) {
		t.Errorf("grant after Close: %v", err)
	}
	refused, err := conn.Subscribe(&wire.Subscribe{Partition: 13})
	if err != nil {
		t.Fatal(err)
	}
	var refusal *wire.Error
	if _, err := refused.Next(); !errors.As(err, &refusal) {
		t.Errorf("got %v", err)
	}
	refused.Close()
}
