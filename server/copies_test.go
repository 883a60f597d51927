package server_test

import (
	"slices"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// copiesOfFrames sends frames twice: once on the stream and once as a datagram.
func copiesOfFrames(t *testing.T) {
	s := servertest.Start(t)
	c := rawclient.Dial(t, s.URL())
	topic := c.CreateTopic("orders", 1)
	lane, reply := c.OpenLane(&wire.OpenLane{Lane: 1, TopicID: topic.ID})
	if reply.Kind() != wire.KindLaneOpened {
		t.Fatalf("opened with %+v", reply)
	}
	numbered := func(n batchfmt.Seq, value string) *wire.Produce {
		return &wire.Produce{Lane: 1, Durability: wire.Synced, ConfirmedThrough: n, Batch: plain(t, value)}
	}
	wantNumber := func(n batchfmt.Seq, offset batchfmt.Offset) {
		t.Helper()
		if r := lane.Result(); r.Code != wire.CodeOK || r.BaseSequence != n || r.BaseOffset != offset {
			t.Fatalf("%v of %d at %d (%s), want %d at %d", r.Code, r.BaseSequence, r.BaseOffset, r.Detail, n, offset)
		}
	}
	first, second, third := numbered(1, "one"), numbered(2, "two"), numbered(3, "three")
	lane.SendCopy(first, 0)
	wantNumber(1, 0)
	// Frames go on coming as copies while the stream is behind.
	lane.SendCopy(second, len(wire.Append(nil, first)))
	wantNumber(2, 1)
	lane.Send(first)
	lane.Send(second)
	lane.Send(third)
	wantNumber(3, 2)
	// A copy that is late: where it stood was read.
	lane.SendCopy(third, -len(wire.Append(nil, third)))
	// A lane is opened by a copy, and by the frame no second time.
	p := c.NewProducer()
	open := &wire.OpenLane{Lane: 2, ProducerID: p.ProducerID, Key: p.Key, Epoch: p.Epoch, TopicID: topic.ID}
	lane.SendCopy(open, 0)
	if m, ok := lane.Read().(*wire.LaneOpened); !ok || m.Lane != 2 {
		t.Fatalf("opened with %+v", m)
	}
	lane.Send(open)
	lane.Send(&wire.Produce{Lane: 2, Durability: wire.Synced, ConfirmedThrough: -1, Batch: rawclient.Batch(t, p, 0, "four")})
	wantNumber(0, 3)
	lane.Leave()
	if values, _ := c.Subscribe(topic, 0); !slices.Equal(values, []string{"one", "two", "three", "four"}) {
		t.Errorf("stored are %q", values)
	}
}

// Copies whose turn it is not, or that are none, change nothing and end nothing.
func TestCopiesThatAreIgnored(t *testing.T) {
	f := setUp(t)
	produce := func(lane uint32, seq batchfmt.Seq) *wire.Produce {
		return &wire.Produce{Lane: lane, Durability: wire.Synced, ConfirmedThrough: -1, Batch: f.batch(t, seq, "v")}
	}
	whole := wire.Append(nil, produce(1, 0))
	for _, bytes := range [][]byte{
		nil, {1}, make([]byte, 1000),
		wire.AppendCopy(nil, wire.Copy{Stream: 4000, Frame: whole}),
		wire.AppendCopy(nil, wire.Copy{Stream: 0, Frame: whole}), // the control stream
		wire.AppendCopy(nil, wire.Copy{Stream: uint64(f.lane.Stream.StreamID()), At: 1 << 60, Frame: whole}),
	} {
		f.c.Datagram(bytes)
	}
	f.lane.SendCopy(produce(1, 0), 1)                      // not yet
	f.lane.SendCopy(produce(1, 0), -1)                     // in the middle of what was read
	f.lane.SendCopy(produce(7, 0), 0)                      // no such lane: the stream will say so
	f.lane.SendCopy(&wire.Ping{}, 0)                       // does not belong here
	f.lane.SendCopy(&wire.Produce{Lane: 1, Batch: nil}, 0) // durability 0: refused, as on the stream
	if r := f.lane.Result(); r.Code != wire.CodeInvalidDurability {
		t.Fatalf("got %v (%s)", r.Code, r.Detail)
	}
	f.lane.Send(&wire.Produce{Lane: 1, Batch: nil}) // it was answered
	f.lane.Send(produce(1, 0))
	wantStored(t, f.lane.Result(), 0, false)
	wantValues(t, f.c, f.topic, 0, "v")
}
