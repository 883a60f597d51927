package producerstate

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// A fence on a lane that may have gone on where the log is lost says nothing of what was lost:
// the holder, who meets the fence and raises its epoch to what the fence asks for, goes on.
func TestFenceDoesNotHideWhatComesAfter(t *testing.T) {
	s := New(Limits{})
	number := s.Opened(nativePID)
	s.Apply(ident(3, 0, 9), 100, nil)
	s.Apply(ident(3, 10, 19), 110, nil)
	s.Lost(120, 220)
	s.Cover(nativePID, 3)
	s.replayControl(nativePID, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 5, Last: 19}) // a batch of epoch 4 was settled
	l := s.Lane(nativePID)
	right := Right{Holds: true, Opening: number, CurrentEpoch: 5}
	id := ident(5, batchfmt.Seq(20), batchfmt.Seq(29))
	if v := Decide(right, l, id, settled); v.Kind != Accept {
		t.Errorf("the holder does not go on: %+v", v)
	}
	if v := Decide(right, l, ident(3, 20, 29), settled); v.Kind != UnknownOutcome {
		t.Errorf("what may be lost is %+v", v)
	}
}
