package server_test

import (
	"maps"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// plain seals a batch without a producer.
func plain(t *testing.T, values ...string) []byte {
	t.Helper()
	var b batchfmt.Builder
	for _, v := range values {
		if err := b.Add(&batchfmt.Record{Timestamp: 1, Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := b.Seal(nil, batchfmt.Seal{Version: batchfmt.Version1})
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// A plain lane takes what comes, each time; beside it idempotent producers go on as ever.
func TestPlainLane(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	c := rawclient.Dial(t, s.URL())
	topic := c.CreateTopic("mixed", 1)
	p := c.NewProducer()
	idempotent := c.Lane(p, topic, 0, -1)
	lane, reply := c.OpenLane(&wire.OpenLane{Lane: 1, TopicID: topic.ID})
	if m, ok := reply.(*wire.LaneOpened); !ok || m.LastSequence != -1 || m.LastOffset != -1 || m.MaxBatchBytes == 0 {
		t.Fatalf("opened with %+v", reply)
	}
	stored := func(l *rawclient.Lane, batch []byte, offset batchfmt.Offset, duplicate bool) {
		t.Helper()
		l.Produce(batch)
		if r := l.Result(); r.Code != wire.CodeOK || r.BaseOffset != offset || r.Duplicate != duplicate {
			t.Fatalf("%v (%s) at %d, duplicate %v", r.Code, r.Detail, r.BaseOffset, r.Duplicate)
		}
	}
	stored(lane, plain(t, "a", "b"), 0, false)
	stored(idempotent, rawclient.Batch(t, p, 0, "c"), 2, false)
	lane.Send(&wire.Produce{Lane: 1, Durability: wire.Synced, ConfirmedThrough: 77, Batch: plain(t, "numbered")})
	lane.Send(&wire.Produce{Lane: 1, Durability: 9, ConfirmedThrough: 78, Batch: plain(t, "numbered")})
	numbers := map[batchfmt.Seq]wire.Code{}
	for range 2 {
		r := lane.Result()
		numbers[r.BaseSequence] = r.Code
	}
	if want := map[batchfmt.Seq]wire.Code{77: wire.CodeOK, 78: wire.CodeInvalidDurability}; !maps.Equal(numbers, want) {
		t.Errorf("answers by number: %v", numbers)
	}
	stored(lane, plain(t, "a", "b"), 4, false) // sent again, stored again
	stored(idempotent, rawclient.Batch(t, p, 0, "c"), 2, true)

	// Neither takes what belongs to the other.
	for _, wrong := range []struct {
		lane  *rawclient.Lane
		batch []byte
	}{{lane, rawclient.Batch(t, p, 1, "d")}, {idempotent, plain(t, "e")}} {
		wrong.lane.Produce(wrong.batch)
		if r := wrong.lane.Result(); r.Code != wire.CodeCorruptBatch {
			t.Fatalf("a batch of the other kind is answered with %v", r.Code)
		}
	}
	s.Crash()
	c = rawclient.Dial(t, s.URL())
	values, next := c.Subscribe(topic, 0)
	if next != 6 || len(values) != 6 || values[0] != "a" || values[2] != "c" || values[4] != "a" {
		t.Errorf("%v up to %d", values, next)
	}
}
