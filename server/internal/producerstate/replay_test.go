package producerstate

import (
	"math"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// sealed is a batch of n records as it stands in the log at offset.
func sealed(tb testing.TB, offset batchfmt.Offset, n int, s batchfmt.Seal, value string) batchfmt.Batch {
	tb.Helper()
	var builder batchfmt.Builder
	for range n {
		if err := builder.Add(&batchfmt.Record{Value: []byte(value)}); err != nil {
			tb.Fatal(err)
		}
	}
	bytes, err := builder.Seal(nil, s)
	if err != nil {
		tb.Fatal(err)
	}
	return stamped(tb, bytes, offset)
}

func control(tb testing.TB, offset batchfmt.Offset, pid batchfmt.ProducerID, c batchfmt.Control) batchfmt.Batch {
	tb.Helper()
	return stamped(tb, batchfmt.AppendControl(nil, pid, 0, c), offset)
}

func stamped(tb testing.TB, bytes []byte, offset batchfmt.Offset) batchfmt.Batch {
	tb.Helper()
	b, err := batchfmt.Parse(bytes)
	if err != nil {
		tb.Fatal(err)
	}
	b.Stamp(batchfmt.Stamp{BaseOffset: offset})
	return b
}

type standingWant struct {
	epoch       batchfmt.Epoch
	floor, last batchfmt.Seq
	lastOffset  batchfmt.Offset
	position    string
	closed      bool
}

// TestReplay replays what stands in the log; [a..b]@o is a batch of the native producer.
func TestReplay(t *testing.T) {
	data := func(epoch batchfmt.Epoch, base batchfmt.Seq, n int, offset batchfmt.Offset, position string) batchfmt.Batch {
		s := batchfmt.Seal{ProducerID: nativePID, Epoch: epoch, BaseSequence: base}
		if position != "" {
			s.Position = []byte(position)
		}
		return sealed(t, offset, n, s, "v")
	}
	fence := func(offset batchfmt.Offset, c batchfmt.Control) batchfmt.Batch {
		c.Kind = batchfmt.ControlFence
		return control(t, offset, nativePID, c)
	}
	closing := func(offset batchfmt.Offset, last batchfmt.Seq) batchfmt.Batch {
		return control(t, offset, nativePID, batchfmt.Control{Kind: batchfmt.ControlClose, Last: last})
	}
	first := data(1, 0, 10, 100, "p")
	for _, r := range []struct {
		name string
		log  []batchfmt.Batch
		want standingWant
	}{
		{"a batch makes a lane", []batchfmt.Batch{first}, standingWant{1, 0, 9, 109, "p", false}},
		{"the log begins in the middle of the lane", []batchfmt.Batch{data(1, 50, 10, 100, "")}, standingWant{1, 50, 59, 109, "", false}},
		{"again, as after a snapshot", []batchfmt.Batch{first, data(1, 10, 5, 110, "q"), first}, standingWant{1, 0, 14, 114, "q", false}},
		{"a hole", []batchfmt.Batch{first, data(1, 20, 10, 120, "")}, standingWant{1, 0, 29, 129, "p", false}},
		{"an overlap", []batchfmt.Batch{first, data(1, 5, 10, 120, "")}, standingWant{1, 0, 14, 129, "p", false}},
		{"the last sequence there is", []batchfmt.Batch{data(1, math.MaxInt64-batchfmt.MaxRecordCount, 10, 0, "")}, standingWant{1, math.MaxInt64 - batchfmt.MaxRecordCount, math.MaxInt64 - batchfmt.MaxRecordCount + 9, 9, "", false}},
		{"a higher epoch goes on natively", []batchfmt.Batch{first, data(4, 10, 1, 110, "")}, standingWant{4, 0, 10, 110, "p", false}},

		{"a fence raises the epoch", []batchfmt.Batch{first, fence(110, batchfmt.Control{MinEpoch: 5, Last: 9, Position: []byte("p")})}, standingWant{5, 0, 9, 109, "p", false}},
		{"a fence lowers nothing", []batchfmt.Batch{first, fence(110, batchfmt.Control{MinEpoch: 0, Last: 9})}, standingWant{1, 0, 9, 109, "p", false}},
		{"a fence of a lane without batches", []batchfmt.Batch{fence(110, batchfmt.Control{MinEpoch: 1, Last: -1})}, standingWant{1, 0, -1, UnknownOffset, "", false}},
		{"a fence is all that retention left", []batchfmt.Batch{fence(110, batchfmt.Control{MinEpoch: 1, Last: 9, Position: []byte("p")})}, standingWant{1, 0, 9, UnknownOffset, "p", false}},
		{"a fence knows the floor that the log lost", []batchfmt.Batch{data(1, 50, 10, 100, ""), fence(110, batchfmt.Control{MinEpoch: 1, Last: 59})}, standingWant{1, 0, 59, 109, "", false}},
		{"a fence knows of batches that the log lost", []batchfmt.Batch{first, fence(110, batchfmt.Control{MinEpoch: 1, Last: 29})}, standingWant{1, 0, 29, UnknownOffset, "p", false}},
		{"and the lane goes on behind it", []batchfmt.Batch{first, fence(110, batchfmt.Control{MinEpoch: 1, Last: 29}), data(1, 30, 10, 110, "")}, standingWant{1, 0, 39, 119, "p", false}},
		{"a fence from before the snapshot", []batchfmt.Batch{first, data(1, 10, 10, 110, "q"), fence(110, batchfmt.Control{MinEpoch: 2, Last: 9, Position: []byte("p")})}, standingWant{2, 0, 19, 119, "q", false}},

		{"a close", []batchfmt.Batch{first, closing(110, 9)}, standingWant{1, 0, 9, 109, "p", true}},
		{"a close from before the snapshot", []batchfmt.Batch{first, data(1, 10, 10, 110, ""), closing(110, 9)}, standingWant{1, 0, 19, 119, "p", false}},
		{"a fence does not open what is closed", []batchfmt.Batch{first, closing(110, 9), fence(110, batchfmt.Control{MinEpoch: 2, Last: 9})}, standingWant{2, 0, 9, 109, "p", true}},
		{"a batch opens what is closed", []batchfmt.Batch{first, closing(110, 9), data(1, 10, 1, 110, "")}, standingWant{1, 0, 10, 110, "p", false}},

		{"a fence without sense raises the epoch at most", []batchfmt.Batch{first, fence(110, batchfmt.Control{MinEpoch: 2, Floor: 50, Last: 9})}, standingWant{2, 0, 9, 109, "p", false}},
		{"a fence beyond all sequences as well", []batchfmt.Batch{first, fence(110, batchfmt.Control{MinEpoch: 2, Last: math.MaxInt64})}, standingWant{2, 0, 9, 109, "p", false}},
	} {
		t.Run(r.name, func(t *testing.T) {
			s := New(Limits{})
			for _, b := range r.log {
				s.Replay(b)
			}
			l := s.Lane(nativePID)
			got := standingWant{l.Epoch(), l.Floor(), l.Last(), l.LastOffset(), string(l.Position()), l.Closed()}
			if got != r.want {
				t.Errorf("got %+v, want %+v", got, r.want)
			}
			if _, _, err := ParseSnapshot(AppendSnapshot(nil, s, testPartition, 1000), &testPartition); err != nil {
				t.Errorf("its snapshot: %v", err)
			}
		})
	}
}

func TestReplayPassesOverWhatSaysNothing(t *testing.T) {
	s := New(Limits{})
	s.Replay(sealed(t, 0, 3, batchfmt.Seal{}, "plain"))
	s.Replay(control(t, 3, nativePID, batchfmt.Control{Kind: batchfmt.ControlFence, Floor: 5, Last: -1}))
	if s.Len() != 0 {
		t.Errorf("%d lanes were made", s.Len())
	}
}

func TestReplayOfAGatewayLaneFollowsItsEpochs(t *testing.T) {
	s := New(Limits{})
	batch := func(epoch batchfmt.Epoch, base batchfmt.Seq, offset batchfmt.Offset) batchfmt.Batch {
		return sealed(t, offset, 10, batchfmt.Seal{ProducerID: gatewayPID, Epoch: epoch, BaseSequence: base}, "v")
	}
	old, next := batch(1, 0, 0), batch(2, 0, 10)
	for _, b := range []batchfmt.Batch{old, next, batch(2, 10, 20), old, next} {
		s.Replay(b)
	}
	l := s.Lane(gatewayPID)
	if l.Epoch() != 2 || l.Floor() != 0 || l.Last() != 19 || l.LastOffset() != 29 {
		t.Errorf("epoch %d, floor %d, last %d at %d", l.Epoch(), l.Floor(), l.Last(), l.LastOffset())
	}
}

// Replay changes lanes within a group as Apply does: a control batch is undone with the
// write that it belongs to.
func TestReplayIsUndoneWithItsGroup(t *testing.T) {
	s := New(Limits{})
	s.Begin()
	s.Replay(control(t, 0, nativePID, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 1, Last: -1}))
	if s.Lane(nativePID).Epoch() != 1 {
		t.Error("the fence had no effect")
	}
	s.Rollback()
	if s.Len() != 0 {
		t.Error("the fence outlived its write")
	}
}

func TestIdentityOf(t *testing.T) {
	b := sealed(t, 5, 3, batchfmt.Seal{ProducerID: 9, Epoch: 4, BaseSequence: 100}, "v")
	if got, want := IdentityOf(b), (Identity{PID: 9, Epoch: 4, Base: 100, Last: 102, Digest: b.Digest()}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, b := range map[string]batchfmt.Batch{
		"plain":   sealed(t, 0, 1, batchfmt.Seal{}, "v"),
		"control": control(t, 0, 9, batchfmt.Control{Kind: batchfmt.ControlFence, Last: -1}),
	} {
		if v := Decide(holder, nil, IdentityOf(b), settled); v.Kind != Invalid {
			t.Errorf("%s: %v", name, v)
		}
	}
}
