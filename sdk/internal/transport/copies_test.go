package transport

import (
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// TestCopiesOfAnswers: an answer counts as soon as it comes, on its stream or as a copy, and
// once. Copies that are late, early or of nothing that is known change nothing.
func TestCopiesOfAnswers(t *testing.T) {
	conns, carryOn := make(chan *quic.Conn, 1), make(chan struct{})
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		conns <- conn
		answerPings(conn, control)
	}, func(s *quic.Stream) {
		conn := <-conns
		result := func(n int64) wire.Message {
			return &wire.ProduceResults{Results: []wire.ProduceResult{{Expected: n}}}
		}
		var ahead []byte // what would stand on the stream by now
		copied := func(m wire.Message) {
			frame := wire.Append(nil, m)
			for _, c := range []wire.Copy{
				{Stream: uint64(s.StreamID()) + 4, At: 0, Frame: frame},                      // of another stream
				{Stream: uint64(s.StreamID()), At: uint64(len(ahead)) + 1, Frame: frame},     // not yet
				{Stream: uint64(s.StreamID()), At: uint64(len(ahead)), Frame: frame},         // now
				{Stream: uint64(s.StreamID()), At: uint64(len(ahead)), Frame: frame},         // not any more
				{Stream: uint64(s.StreamID()), At: 0, Frame: wire.Append(nil, &wire.Pong{})}, // was not that, and is over
			} {
				if err := conn.SendDatagram(wire.AppendCopy(nil, c)); err != nil {
					t.Error(err)
				}
			}
			ahead = append(ahead, frame...)
		}
		if _, err := wire.Read(s); err != nil {
			return
		}
		copied(&wire.LaneOpened{Lane: 0, LastSequence: -1})
		for n := range int64(2) {
			if _, err := wire.Read(s); err != nil {
				return
			}
			copied(result(n))
		}
		<-carryOn
		if _, err := s.Write(append(ahead, wire.Append(nil, result(2))...)); err != nil {
			t.Error(err)
		}
		_, _ = wire.Read(s) // until the client is done
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sink := make(laneEvents, 10)
	l, err := openLane(conn, 0, &wire.OpenLane{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if opened, ok := (<-sink).(*wire.LaneOpened); !ok {
		t.Fatalf("got %+v", opened)
	}
	want := func(n int64) {
		t.Helper()
		if r, ok := (<-sink).(wire.ProduceResult); !ok || r.Expected != n {
			t.Fatalf("got %+v, want the answer %d", r, n)
		}
	}
	for n := range int64(2) {
		if err := l.Produce(frameOf(10), wire.Produce{}, soon()); err != nil {
			t.Fatal(err)
		}
		want(n)
	}
	close(carryOn)
	want(2)
	if _, used := m.Copies(); used != 3 {
		t.Errorf("%d copies were used", used)
	}
}

// A copy of what does not belong on a lane stream ends it, as the frame itself would.
func TestCopyOfAWrongFrame(t *testing.T) {
	conns := make(chan *quic.Conn, 1)
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		conns <- conn
		answerPings(conn, control)
	}, func(s *quic.Stream) {
		if _, err := wire.Read(s); err == nil {
			frame := wire.Append(nil, &wire.Pong{})
			(<-conns).SendDatagram(wire.AppendCopy(nil, wire.Copy{Stream: uint64(s.StreamID()), Frame: frame}))
			_, _ = wire.Read(s)
		}
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sink := make(laneEvents, 10)
	if _, err := openLane(conn, 0, &wire.OpenLane{}, sink); err != nil {
		t.Fatal(err)
	}
	sink.wantLost(t, "a pong on a lane stream")
}
