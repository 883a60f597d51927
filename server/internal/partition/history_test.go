package partition

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/wire"
)

// A history is what a log says of the batches and the lanes in it, read as plainly as can be:
// it is what the partition is compared with, so it shares no code with it.
type history struct {
	at    map[producerstate.Identity]batchfmt.Offset
	lanes map[batchfmt.ProducerID]*track
	end   batchfmt.Offset
}

// A track is the history of one lane.
type track struct {
	batches []producerstate.Identity
	last    batchfmt.Seq    // -1 if there is none
	offset  batchfmt.Offset // of the record with that sequence
	epoch   batchfmt.Epoch  // the lowest that may follow
	known   bool            // something speaks of it, be it only a fence
	ended   batchfmt.Seq    // the last sequence when the producer was done; -2 if it never was
}

func newTrack() *track { return &track{last: -1, offset: -1, ended: -2} }

// historyOf reads a log, and says what in it cannot be.
func historyOf(stored []batchfmt.Batch) (*history, error) {
	h := &history{at: map[producerstate.Identity]batchfmt.Offset{}, lanes: map[batchfmt.ProducerID]*track{}}
	for _, b := range stored {
		if b.BaseOffset() != h.end {
			return h, fmt.Errorf("a batch of producer %d stands at %d, behind offset %d", b.ProducerID(), b.BaseOffset(), h.end)
		}
		if err := h.add(b); err != nil {
			return h, err
		}
		h.end = b.NextOffset()
	}
	return h, nil
}

func (h *history) add(b batchfmt.Batch) error {
	id := producerstate.IdentityOf(b)
	if _, twice := h.at[id]; twice && !b.IsControl() {
		return fmt.Errorf("%+v is stored twice, now at %d", id, b.BaseOffset())
	}
	if id.PID == batchfmt.NoProducer {
		h.at[id] = b.BaseOffset()
		return nil
	}
	if h.lanes[id.PID] == nil {
		h.lanes[id.PID] = newTrack()
	}
	l := h.lanes[id.PID]
	l.known = true
	switch {
	case b.IsControl():
		return l.control(b)
	case id.Base != l.last+1:
		return fmt.Errorf("%+v stands at %d, behind sequence %d", id, b.BaseOffset(), l.last)
	case id.Epoch < l.epoch:
		return fmt.Errorf("%+v stands at %d, behind the fence for epoch %d", id, b.BaseOffset(), l.epoch)
	}
	h.at[id] = b.BaseOffset()
	l.push(id, b.BaseOffset())
	return nil
}

func (l *track) push(id producerstate.Identity, base batchfmt.Offset) {
	l.batches = append(l.batches, id)
	l.last, l.offset = id.Last, base+batchfmt.Offset(id.Last-id.Base)
	l.epoch = max(l.epoch, id.Epoch)
}

func (l *track) control(b batchfmt.Batch) error {
	c, err := b.Control()
	if err != nil {
		return err
	}
	if c.Last != l.last {
		return fmt.Errorf("a control batch of producer %d at %d says that the lane ends with %d, it does with %d",
			b.ProducerID(), b.BaseOffset(), c.Last, l.last)
	}
	l.epoch = max(l.epoch, c.MinEpoch)
	if c.Kind == batchfmt.ControlClose {
		l.ended = c.Last
	}
	return nil
}

func (h *history) lane(pid batchfmt.ProducerID) *track {
	if l := h.lanes[pid]; l != nil {
		return l
	}
	return newTrack()
}

// keepsOut reports whether a batch that is not stored can never be: another one holds a
// sequence of it, or a fence has passed it.
func (l *track) keepsOut(id producerstate.Identity) bool {
	return id.Base <= l.last || id.Epoch < l.epoch
}

// judge says what must become of a batch that comes with the newest opening of its lane.
func (h *history) judge(id producerstate.Identity) want {
	l := h.lane(id.PID)
	_, stored := h.at[id]
	switch {
	case stored:
		return wantAgain
	case id.Base <= l.last:
		return wantConflict
	case id.Base > l.last+1:
		return wantGap
	case id.Epoch < l.epoch:
		return wantFenced
	}
	return wantNew
}

// fateOf says what must be known of a batch when nothing is under way.
func (h *history) fateOf(id producerstate.Identity) (wire.ResolveOutcome, batchfmt.Offset) {
	if offset, ok := h.at[id]; ok {
		return wire.ResolveStored, offset
	}
	if l := h.lane(id.PID); l.known && l.keepsOut(id) {
		return wire.ResolveNever, -1
	}
	return wire.ResolveNotYet, -1
}
