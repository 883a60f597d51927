package transport

import (
	"runtime"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// A lane that has become quiet shares its stream with one whose large batch waits for the server.
// That it cannot say what was confirmed must cost it nothing: sdk's sayConfirmed takes an error as
// the loss of the lane, and opens it anew, each second or so.
func TestConfirmOnABusyStream(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	p := startPeer(t, answerPings, func(s *quic.Stream) {
		for range 2 {
			m, err := wire.Read(s)
			if err != nil {
				return
			}
			if m, ok := m.(*wire.OpenLane); ok && wire.Write(s, &wire.LaneOpened{Lane: m.Lane, LastSequence: -1}) != nil {
				return
			}
		}
		<-gate
	})
	m, _ := connect(t, p)
	conn, _ := m.Current()
	sinks := []laneEvents{make(laneEvents, 10), make(laneEvents, 10)}
	a, err := openLane(conn, 0, &wire.OpenLane{}, sinks[0])
	if err != nil {
		t.Fatal(err)
	}
	b := &Lane{on: a.on, sink: sinks[1]} // as NewLane gives it when the streams are in use
	conn.acquire()
	if err := a.on.add(b); err != nil {
		t.Fatal(err)
	}
	if err := b.Open(&wire.OpenLane{}, soon()); err != nil {
		t.Fatal(err)
	}
	<-sinks[0]
	<-sinks[1]
	busy := make(chan error, 1)
	go func() { busy <- a.Produce(frameOf(8<<20), wire.Produce{}, soon()) }()
	for len(a.on.writing) > 0 { // until the batch is being written; the peer does not read it
		runtime.Gosched()
	}
	if said, err := b.Confirm(7); said || err != nil {
		t.Errorf("the stream lives, and the lane is given up: %v", err)
	}
	select {
	case e := <-sinks[1]:
		t.Errorf("its sink heard %v", e)
	default:
	}
	a.Interrupt()
	<-busy
}
