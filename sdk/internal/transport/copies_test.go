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

// A copy of what does not belong on a lane stream, or cannot be read, ends nothing: the stream
// says what is true.
func TestCopyOfAWrongFrame(t *testing.T) {
	conns := make(chan *quic.Conn, 1)
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		conns <- conn
		answerPings(conn, control)
	}, func(s *quic.Stream) {
		if _, err := wire.Read(s); err != nil {
			return
		}
		conn := <-conns
		opened := wire.Append(nil, &wire.LaneOpened{LastSequence: -1})
		damaged := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff} // a number of results that cannot be
		wire.PutHeader(damaged, wire.KindProduceResults, 4)
		for _, frame := range [][]byte{wire.Append(nil, &wire.Pong{}), wire.Append(nil, wire.Errorf(wire.CodeInternal, "no")), damaged, opened} {
			if err := conn.SendDatagram(wire.AppendCopy(nil, wire.Copy{Stream: uint64(s.StreamID()), Frame: frame})); err != nil {
				t.Error(err)
			}
		}
		_, _ = wire.Read(s) // until the client is done
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sink := make(laneEvents, 10)
	if _, err := openLane(conn, 0, &wire.OpenLane{}, sink); err != nil {
		t.Fatal(err)
	}
	if opened, ok := (<-sink).(*wire.LaneOpened); !ok {
		t.Fatalf("got %+v", opened)
	}
}

// A newer server may put optional frames on a lane stream, and send copies of them. The stream
// steps over such a frame; its copy changes nothing either, and copies count again behind it.
func TestCopyOfAnOptionalFrame(t *testing.T) {
	optional := []byte{3, 0, 0, 0, 0xff, 0xff, 0, 0, 'n', 'e', 'w'}
	opened, answer := wire.Append(nil, &wire.LaneOpened{LastSequence: -1}), wire.Append(nil, &wire.ProduceResults{Results: []wire.ProduceResult{{Expected: 7}}})
	carryOn, conns := make(chan struct{}), make(chan *quic.Conn, 1)
	p := startPeer(t, func(conn *quic.Conn, control *quic.Stream) {
		conns <- conn
		answerPings(conn, control)
	}, func(s *quic.Stream) {
		conn := <-conns
		copied := func(at int, frame []byte) {
			if err := conn.SendDatagram(wire.AppendCopy(nil, wire.Copy{Stream: uint64(s.StreamID()), At: uint64(at), Frame: frame})); err != nil {
				t.Error(err)
			}
		}
		if _, err := wire.Read(s); err != nil {
			return
		}
		copied(0, opened)
		copied(len(opened), optional)
		<-carryOn // what was copied so far is taken, or stepped over
		if _, err := s.Write(append(append(opened, optional...), answer...)); err != nil {
			t.Error(err)
		}
		if _, err := wire.Read(s); err != nil {
			return
		}
		copied(len(opened)+len(optional)+len(answer), answer)
		_, _ = wire.Read(s) // until the client is done
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sink := make(laneEvents, 10)
	l, err := openLane(conn, 0, &wire.OpenLane{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if first, ok := (<-sink).(*wire.LaneOpened); !ok {
		t.Fatalf("got %+v", first)
	}
	close(carryOn)
	for range 2 {
		event := <-sink
		if answer, ok := event.(wire.ProduceResult); !ok || answer.Expected != 7 {
			t.Fatalf("got %+v, want the answer", event)
		}
		if err := l.Produce(frameOf(10), wire.Produce{}, soon()); err != nil {
			t.Fatal(err)
		}
	}
	if _, used := m.Copies(); used != 2 {
		t.Errorf("%d copies were used", used)
	}
}
