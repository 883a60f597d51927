package server_test

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// A quiet lane says what was confirmed without a batch. It is believed up to the last
// sequence, never taken back, and of a lane that is not there it is ignored.
func TestConfirmedWithoutABatch(t *testing.T) {
	f := setUp(t)
	confirmed := func() batchfmt.Seq {
		t.Helper()
		m := f.c.Request(&wire.DescribeProducers{TopicID: f.topic.ID, ProducerID: f.p.ProducerID})
		described, ok := m.(*wire.ProducersDescribed)
		if !ok || len(described.Lanes) != 1 {
			t.Fatalf("described as %+v", m)
		}
		return described.Lanes[0].Confirmed
	}
	f.lane.Produce(f.batch(t, 0, "a", "b", "c"))
	wantStored(t, f.lane.Result(), 0, false)
	for i, step := range []struct {
		say  wire.Confirmed
		want batchfmt.Seq
	}{
		{wire.Confirmed{Lane: 9, Through: 2}, -1},
		{wire.Confirmed{Lane: 1, Through: 1}, 1},
		{wire.Confirmed{Lane: 1, Through: 0}, 1},
		{wire.Confirmed{Lane: 1, Through: 1 << 40}, 2},
		{wire.Confirmed{Lane: 1, Through: -7}, 2},
	} {
		f.lane.Send(&step.say)
		// What the owner is told in order it does in order: the answer to a bad batch comes after it.
		f.lane.Produce(f.batch(t, 1, "a", "b", "c"))
		wantCode(t, f.lane.Result(), wire.CodeSequenceConflict)
		if got := confirmed(); got != step.want {
			t.Errorf("step %d: %d is confirmed, want %d", i, got, step.want)
		}
	}
}
