package transport

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

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

// soon is a deadline that no test reaches.
func soon() time.Time { return time.Now().Add(time.Minute) }

func openLane(conn *Conn, key uint64, m *wire.OpenLane, sink LaneSink) (*Lane, error) {
	l, err := conn.NewLane(key, sink)
	if err == nil {
		err = l.Open(m, soon())
	}
	return l, err
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
		l, err := openLane(conn, uint64(i)*7, &wire.OpenLane{Partition: int32(100 + i)}, sink)
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
		if err := l.Produce(frameOf(10), wire.Produce{}, soon()); err != nil {
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
	fresh, err := openLane(conn, 1, &wire.OpenLane{Partition: 13}, sinks[0])
	if err != nil {
		t.Fatal(err)
	}
	if streams[fresh.on] != 0 {
		t.Error("a stream that lost its last lane is used again")
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

// TestLanesAreGivenBack opens many more lanes, one after the other, than a server has
// streams: it keeps each opening until its stream ends.
func TestLanesAreGivenBack(t *testing.T) {
	p := startPeer(t, answerPings, echoAndEnd)
	m, _ := connect(t, p)
	conn, _ := m.Current()
	for i := range 1500 {
		sink := make(laneEvents, 10)
		l, err := openLane(conn, uint64(i), &wire.OpenLane{Partition: 1 + 12*int32(i%2)}, sink)
		if err != nil {
			t.Fatalf("lane %d: %v", i, err)
		}
		<-sink // opened or refused
		l.Close()
	}
}

// echoAndEnd ends its side when the client has ended its own.
func echoAndEnd(s *quic.Stream) {
	echo(s)
	s.Close()
}

// TestWornStreamIsLeft opens a lane again and again on streams that others keep alive.
func TestWornStreamIsLeft(t *testing.T) {
	p := startPeer(t, answerPings, echoAndEnd)
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sink := make(laneEvents, 2*laneSlots)
	var first *Lane
	for i := range laneSlots {
		l, err := openLane(conn, 0, &wire.OpenLane{}, sink)
		if err != nil {
			t.Fatal(err)
		}
		<-sink
		if i == 0 {
			first = l
		}
	}
	seen := map[*laneStream]int{}
	for range 3 * maxOpenings {
		l, err := openLane(conn, 0, &wire.OpenLane{}, sink)
		if err != nil {
			t.Fatal(err)
		}
		<-sink
		seen[l.on]++
		l.Close()
	}
	if n := seen[first.on]; n != maxOpenings-1 {
		t.Errorf("the stream carried %d further lanes, want %d", n, maxOpenings-1)
	}
	if err := first.Produce(frameOf(10), wire.Produce{}, soon()); err != nil {
		t.Errorf("the lane that was there before: %v", err)
	}
	if r, ok := (<-sink).(wire.ProduceResult); !ok || r.Lane != first.number {
		t.Error("no answer on the stream that was left")
	}
	first.Close()
	if err := first.Produce(frameOf(10), wire.Produce{}, soon()); !errors.Is(err, ErrLost) {
		t.Errorf("on a stream that ended: %v", err)
	}
}

// TestLanesEndWithEverythingWritten wants the server to read what was written before a
// lane was closed.
func TestLanesEndWithEverythingWritten(t *testing.T) {
	received := make(chan int64, 1)
	p := startPeer(t, answerPings, func(s *quic.Stream) {
		n, _ := io.Copy(io.Discard, s)
		received <- n
		s.Close()
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	l, err := conn.NewLane(0, make(laneEvents, 10))
	if err != nil {
		t.Fatal(err)
	}
	frame := frameOf(1 << 20)
	if err := l.Produce(frame, wire.Produce{}, soon()); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if n := <-received; n != int64(len(frame)) {
		t.Errorf("the server read %d bytes of %d", n, len(frame))
	}
}

// TestWritesEndAtTheirDeadline: neither a server that does not read nor another lane on
// the same stream holds a write up for longer.
func TestWritesEndAtTheirDeadline(t *testing.T) {
	p := startPeer(t, answerPings, ignoreStream)
	m, _ := connect(t, p)
	conn, _ := m.Current()
	l, err := conn.NewLane(0, make(laneEvents, 10))
	if err != nil {
		t.Fatal(err)
	}
	<-l.on.writing // as another lane would
	start := time.Now()
	if err := l.Produce(frameOf(1), wire.Produce{}, start.Add(20*time.Millisecond)); !errors.Is(err, ErrLost) {
		t.Errorf("while another lane writes: %v", err)
	}
	if err := l.on.ended(); err != nil {
		t.Errorf("nothing was written, and the stream is over: %v", err)
	}
	opened := make(chan error)
	go func() { opened <- l.Open(&wire.OpenLane{}, soon()) }()
	other, err := conn.NewLane(0, make(laneEvents, 10))
	if err != nil {
		t.Fatal(err)
	}
	l.Interrupt()
	if err := <-opened; !errors.Is(err, ErrLost) {
		t.Errorf("interrupted: %v", err)
	}
	l = other
	for err == nil {
		err = l.Produce(frameOf(1<<20), wire.Produce{}, time.Now().Add(50*time.Millisecond))
	}
	if !errors.Is(err, ErrLost) {
		t.Errorf("to a server that does not read: %v", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
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
	l, err := openLane(conn, 0, &wire.OpenLane{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	sink.wantLost(t, "reset stream")
	if err := l.Produce(frameOf(1), wire.Produce{}, soon()); !errors.Is(err, ErrLost) {
		t.Errorf("produce after it: %v", err)
	}
	l.Close()
	if conn.Err() != nil {
		t.Error("the connection went with the stream")
	}
	if next, err := openLane(conn, 0, &wire.OpenLane{}, sink); err != nil {
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
		if _, err := openLane(conn, 0, &wire.OpenLane{}, sink); err != nil {
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
	l, err := openLane(conn, 0, &wire.OpenLane{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		for {
			if err := l.Produce(frameOf(1<<20), wire.Produce{}, soon()); err != nil {
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
