package producerstate

import (
	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// Decide says what is to be done with a batch. It reads its arguments and nothing else,
// changes nothing and allocates nothing. The first line that matches wins. [a..b] is
// the range of the batch, L the last sequence of the lane; a pending batch counts as
// appended.
//
//	 0  the lane is not in memory, and     Load       its batches may still be on disk; only a
//	    was not looked for                            search can make "unknown" of "not here"
//	 1  the stream has no right: its       Fenced     the right is checked before the content, so
//	    instance lost the producer id, or             that a zombie learns of its state even when
//	    a newer opening exists; gateway:              its batch is a retry; it is told where the
//	    the epoch is below the lane's                 batch is if the lane knows
//	 2  gateway: newer epoch, base not 0   Gap        a new incarnation starts with 0; the epoch
//	                                                  is not taken from a batch that is refused
//	 3  gateway: newer epoch, base 0       Accept     Kafka clients renumber by themselves: floor
//	                                                  is a, the window starts empty
//	 4  it is a pending batch              Attach     success before the sync would be a lie
//	 5  it is a batch of the window        Duplicate  the answer that was lost, given again
//	 6  it touches the window otherwise,   Conflict   one sequence holds one batch for ever; the
//	    or a <= L < b, or a < floor <= b              tail is not appended either, as what stands
//	                                                  before it may differ
//	 7  floor <= a, b <= L                 LookUp     a lane has no hole, so it is stored; where,
//	                                                  and whether it is the same, stands in the log
//	 8  b < floor                          UnknownOutcome  of an older numbering, of which nothing
//	                                                  is left that could prove anything
//	    or a > L, under the lane's epoch,             what stood behind L was lost with a part of
//	    and damage may hide what followed             the log, and may have been this batch
//	 9  a == L+1                           Accept     or Fenced, if a fence or a later epoch has
//	                                                  passed it, or if nobody issued its epoch
//	10  a > L+1                            Gap        something before it is still on its way
//	11  lane unknown, nothing forgotten    Accept     a new lane, floor 0
//	    that could be it, a == 0
//	12  lane unknown, nothing forgotten    Gap        natively: its first batch is still on its way
//	    that could be it, a not 0
//	    lane unknown otherwise             LookUp     it may have been stored, and the log may still
//	                                                  have it. Gateway, a not 0: Gap on a partition
//	                                                  that was never written; Accept if nothing was
//	                                                  forgotten or the id is foreign, as Kafka does;
//	                                                  else as natively
//
// Row 7 with evidence: the same batch is a Duplicate (Attach while pending); any other
// batch in its place a Conflict; removed by retention a Duplicate that is not Verified;
// unreadable Damaged; and if the log has nothing there, UnknownOutcome.
//
// Row 12 with evidence: the same batch and another one in its place as in row 7, and Damaged
// if it is the same one and cannot be read. All else is UnknownProducer, also what would
// follow on the last batch that was found, see forgottenLane.
//
// A batch that is no identity is Invalid. Parsing refuses it long before.
func Decide(right Right, lane *Lane, id Identity, ev Evidence) Verdict {
	if !id.valid() {
		return Verdict{Kind: Invalid, Row: RowInvalid, Offset: UnknownOffset}
	}
	h := lane.past()
	e := h.touched(id)
	newer := right.Gateway && h != nil && id.Epoch > h.epoch
	switch {
	case h == nil && !ev.Loaded:
		return Verdict{Kind: Load, Row: 0, Offset: UnknownOffset}
	case !right.mayWrite(lane, h, id) && !planted.RightsOff:
		return fencedStream(right, h, id, ev)
	case newer && id.Base != 0:
		return gap(2, 0)
	case newer:
		return accept(3, id)
	case e.is(id) && e.pending(ev):
		return Verdict{Kind: Attach, Row: 4, Offset: e.offset, Want: e.digest, Have: id.Digest}
	case e.is(id):
		return duplicate(5, e, id)
	case e != nil:
		return conflict(6, e, id)
	case h.straddles(id):
		return Verdict{Kind: Conflict, Row: 6, Offset: UnknownOffset, Have: id.Digest}
	case h.covers(id):
		if planted.WindowOffByOne && h.depth > 0 && id.Last+1 == h.window[0].base {
			return gap(7, h.last+1)
		}
		return lookedUp(id, ev)
	case h.older(id), lane.hidden(id):
		return Verdict{Kind: UnknownOutcome, Row: 8, Offset: UnknownOffset}
	case h.follows(id):
		return next(right, h, id)
	case h != nil:
		if planted.GapAccepted {
			return accept(10, id)
		}
		return gap(10, h.last+1)
	case id.Base == 0 && !ev.Forgotten:
		return first(right, id)
	}
	return unknownLane(right, id, ev)
}

// fencedStream is row 1: no success, but what the lane knows of the batch is said.
func fencedStream(right Right, h *history, id Identity, ev Evidence) Verdict {
	v := Verdict{Kind: Fenced, Row: 1, Offset: UnknownOffset, Epoch: right.CurrentEpoch}
	if right.Gateway {
		v.Epoch = 0
	}
	if h == nil {
		return v
	}
	v.Epoch = max(v.Epoch, h.epoch)
	e := h.touched(id)
	switch {
	case e.is(id):
		if !e.pending(ev) {
			v.Fate, v.Offset = FateStored, e.offset
		}
	case right.Gateway:
		// The batch counts in an older numbering: what it touches here says nothing.
	case e != nil:
		if !e.pending(ev) {
			v.Fate = FateNever // another batch holds the sequence for ever
		}
	case id.Base > h.last && id.Epoch < h.epoch:
		v.Fate = FateNever // not stored, and the lane's epoch never falls
	}
	return v
}

// next is row 9.
func next(right Right, h *history, id Identity) Verdict {
	switch {
	case id.Epoch < h.epoch && !planted.FenceIgnored:
		return Verdict{
			Kind: Fenced, Row: 9, Offset: UnknownOffset,
			Epoch: max(h.epoch, right.CurrentEpoch), Fate: FateNever,
		}
	case !right.issued(id):
		return Verdict{Kind: Fenced, Row: 9, Offset: UnknownOffset, Epoch: max(h.epoch, right.CurrentEpoch)}
	}
	return Verdict{Kind: Accept, Row: 9, Offset: UnknownOffset, Expected: id.Base}
}

// first is row 11.
func first(right Right, id Identity) Verdict {
	if !right.issued(id) {
		return Verdict{Kind: Fenced, Row: 11, Offset: UnknownOffset, Epoch: right.CurrentEpoch}
	}
	return accept(11, id)
}

// issued reports whether the epoch of the batch was ever given to anybody. Kafka
// clients raise theirs by themselves.
func (r Right) issued(id Identity) bool {
	return r.Gateway || id.Epoch <= r.CurrentEpoch || planted.RightsOff
}

// lookedUp is row 7.
func lookedUp(id Identity, ev Evidence) Verdict {
	f := ev.LookedUp
	switch f.Found {
	case NotLookedUp:
		if planted.WindowOnly {
			return gap(7, id.Last+1)
		}
		return Verdict{Kind: LookUp, Row: 7, Offset: UnknownOffset}
	case FoundRemoved:
		return Verdict{Kind: Duplicate, Row: 7, Offset: UnknownOffset, Have: id.Digest}
	case FoundDamaged:
		return Verdict{Kind: Damaged, Row: 7, Offset: f.BaseOffset}
	case FoundBatch:
		if v, ok := compared(7, id, ev); ok {
			return v
		}
	}
	return Verdict{Kind: UnknownOutcome, Row: 7, Offset: UnknownOffset}
}

// compared holds a batch against the one that a look-up found. It reports false if they have
// no sequence in common.
func compared(row int, id Identity, ev Evidence) (Verdict, bool) {
	e := ev.LookedUp.entry()
	switch {
	case e.is(id) && e.pending(ev):
		return Verdict{Kind: Attach, Row: row, Offset: e.offset, Want: e.digest, Have: id.Digest}, true
	case e.is(id):
		return duplicate(row, &e, id), true
	case e.touches(id):
		return conflict(row, &e, id), true
	}
	return Verdict{}, false
}

// unknownLane is row 12.
func unknownLane(right Right, id Identity, ev Evidence) Verdict {
	switch {
	case !right.Gateway && !ev.Forgotten:
		return gap(12, 0)
	case !right.Gateway || id.Base == 0:
	case ev.LogEnd == 0:
		return gap(12, 0)
	case right.Foreign || !ev.Forgotten:
		v := accept(12, id)
		v.WithoutHistory = true
		return v
	}
	return forgottenLane(right, id, ev)
}

// forgottenLane is row 12 where the lane may have been here. What the log has of it proves
// that this is stored, and nothing else: batches behind it may have gone with a part of the
// log, and a fence or a close uses no sequence, so that no look-up by sequence meets it. A
// lane that would be made of what was found could end too early, and take what was shut
// out. So nothing new is accepted here, whatever was found, and what was not found is
// unknown. A Kafka client may have numbered anew: another batch with the same sequences is
// then in nobody's way, and only the batch itself counts.
func forgottenLane(right Right, id Identity, ev Evidence) Verdict {
	switch ev.LookedUp.Found {
	case NotLookedUp:
		if !planted.IndexesUnasked {
			return Verdict{Kind: LookUp, Row: 12, Offset: UnknownOffset}
		}
	case FoundBatch:
		if v, ok := compared(12, id, ev); ok && (v.Kind != Conflict || !right.Gateway) {
			return v
		}
	case FoundDamaged:
		return Verdict{Kind: Damaged, Row: 12, Offset: ev.LookedUp.BaseOffset}
	case FoundNothing:
		if planted.IndexLaneAccepts {
			return accept(12, id)
		}
	}
	return Verdict{Kind: UnknownProducer, Row: 12, Offset: UnknownOffset}
}

func accept(row int, id Identity) Verdict {
	return Verdict{Kind: Accept, Row: row, Offset: UnknownOffset, Expected: id.Base, NewNumbering: true}
}

func duplicate(row int, e *entry, id Identity) Verdict {
	return Verdict{
		Kind: Duplicate, Row: row, Offset: e.offset,
		Want: e.digest, Have: id.Digest, Verified: true,
	}
}

func conflict(row int, e *entry, id Identity) Verdict {
	if planted.ConflictTaken {
		return duplicate(row, e, id)
	}
	return Verdict{
		Kind: Conflict, Row: row, Offset: e.offset,
		Want: e.digest, Have: id.Digest, SameRange: e.sameRange(id),
	}
}

func gap(row int, expected batchfmt.Seq) Verdict {
	return Verdict{Kind: Gap, Row: row, Offset: UnknownOffset, Expected: expected}
}
