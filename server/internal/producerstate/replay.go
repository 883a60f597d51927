package producerstate

import "github.com/quoin-io/quoin/batchfmt"

// Replay applies a batch that stands in the log: every batch at recovery, and a control
// batch when the owner has just appended it. It decides nothing: what the log holds was
// decided when it was written. A batch without a producer is passed over, and so is one
// that the state contains already, so a replay may begin before the end of the snapshot
// that it goes on from. Holes, overlaps and control batches that make no sense are
// taken as far as they can be; nothing panics.
func (s *State) Replay(b batchfmt.Batch) {
	switch {
	case b.ProducerID() == batchfmt.NoProducer:
	case b.IsControl():
		if c, err := b.Control(); err == nil {
			s.replayControl(b.ProducerID(), c)
		}
	default:
		id := IdentityOf(b)
		if !s.lanes[id.PID].past().contains(id) {
			s.Apply(id, b.BaseOffset(), b.Position())
		}
	}
}

// contains reports whether the history is already past a batch of the log. A gateway
// lane numbers anew with every epoch, so there the epoch counts first.
func (h *history) contains(id Identity) bool {
	switch {
	case h == nil:
		return false
	case InGatewaySpace(id.PID) && id.Epoch != h.epoch:
		return id.Epoch < h.epoch
	}
	return id.Last <= h.last
}

// replayControl takes what a fence or a close says. Both repeat where the lane stood,
// which is all that is known of it when the log before is gone. A control batch that
// stands behind what the lane already has raises the epoch at most.
func (s *State) replayControl(pid batchfmt.ProducerID, c batchfmt.Control) {
	sane := 0 <= c.Floor && c.Floor-1 <= c.Last && c.Last < maxSequence
	if !sane && !s.lanes[pid].Known() {
		return
	}
	h := s.touch(pid)
	if !h.known {
		h.start(c.Last + 1)
		h.floor = c.Floor
	}
	if l := s.lanes[pid]; l.covered && c.MinEpoch > h.epoch {
		l.raised = true
	}
	h.epoch = max(h.epoch, c.MinEpoch)
	if !sane || c.Last < h.last {
		return
	}
	if c.Last > h.last {
		h.last, h.lastOffset = c.Last, UnknownOffset
	}
	h.floor = c.Floor
	h.setPosition(c.Position)
	if c.Kind == batchfmt.ControlClose {
		h.marks |= markClosed
	}
}
