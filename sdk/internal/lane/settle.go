package lane

import (
	"errors"
	"slices"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// SetGrace sets how long after its deadline a batch may yet be settled before its outcome
// is told to be unknown. Without a call it is told at the deadline.
func (c *Core) SetGrace(d time.Duration) { c.grace = d }

// Tell says that the application was told of a record of b that its outcome is unknown.
// From now on b is not sent again: an answer that is on its way decides what became of
// it, or the server is asked.
func (c *Core) Tell(now time.Time, b *Batch) {
	if !slices.Contains(c.queue, b) {
		return
	}
	b.told = true
	switch {
	case c.mode == raising:
		c.drop(b, ErrGivenUp)
		c.completeStored()
	case c.mode != settling:
		c.Tick(now)
	}
}

// Close ends the lane from this side. What was handed over and is not proved is settled
// first, and ends unknown if there is no answer until then.
func (c *Core) Close(now time.Time, cause error, until time.Time) {
	switch {
	case c.mode == stopped:
		return
	case c.closing:
		if until.Before(c.stopAt) {
			c.stopAt = until
			c.Tick(now)
		}
		return
	}
	c.closing, c.stopAt = true, until
	c.startSettling(now, cause)
	c.Tick(now)
}

// owesSettle reports whether the head is one that would have to be sent again and must
// not be.
func (c *Core) owesSettle() bool {
	if c.hole != noHole || len(c.queue) == 0 || planted.ResendUnknown {
		return false
	}
	b := c.queue[0]
	return b.told && b.attempts > 0 && !b.unanswered && b.stored == nil
}

// startSettling sends nothing any more until it is known what became of the head. Answers
// that are on their way still count.
func (c *Core) startSettling(now time.Time, cause error) {
	c.mode, c.cause, c.resumeAt = settling, cause, time.Time{}
	c.settleNext(now)
}

// settleNext asks for the next batch, or ends the settling. First match wins.
//
//	closing, and every batch has its outcome      the lane is over
//	an answer is awaited                          wait for it
//	closing no, but something was told unknown    ask for the oldest of it
//	every batch has its outcome                   go on
//	success behind a hole                         the lane is over: a lane has no holes
//	the head has success or is dropped            give the outcome, look at the next
//	closing, and the head is proved not stored    likewise
//	closing, the head is due, or told unknown     ask for the head
//	otherwise                                     go on
func (c *Core) settleNext(now time.Time) {
	for c.mode == settling {
		switch {
		case c.closing && len(c.queue) == 0:
			c.finish()
		case c.asked != nil:
			return
		case !c.closing && len(c.unsettled) > 0:
			c.ask(c.unsettled[0])
		case len(c.queue) == 0:
			c.resume(now)
		case c.queue[0].stored != nil && c.hole != noHole:
			c.fail(now, c.cause)
		case c.queue[0].stored != nil, c.queue[0].dropped != nil:
			c.completeStored()
		case c.closing && c.finalOutcome(c.queue[0]).Fate == NotStored:
			b := c.pop()
			c.complete(b, c.finalOutcome(b))
		case c.closing, c.isDue(c.queue[0], now), c.owesSettle(), c.queue[0].apart:
			c.ask(c.queue[0])
		default:
			c.resume(now)
		}
	}
}

func (c *Core) isDue(b *Batch, now time.Time) bool { return !now.Before(b.Deadline) }

func (c *Core) ask(b *Batch) {
	c.asked = b
	c.out = append(c.out, Action{Kind: Settle, Batch: b})
}

// resume goes on when nothing is left to be settled.
func (c *Core) resume(now time.Time) {
	if c.fenced {
		c.startRaising()
		return
	}
	c.cause = nil
	c.reopen(now)
}

func (c *Core) reopen(now time.Time) {
	if !c.linked {
		c.giveUpAnswers()
		c.mode = detached
		return
	}
	c.openAgain(now)
}

// settled is what follows from the answer to a Settle.
type settled uint8

const (
	settledStored settled = iota + 1 // it is stored, and no fence was written
	settledFenced                    // it is not, and nothing that stands behind it can be
	settledTaken                     // another batch has its sequences
	settledOver                      // nobody can say, or there is no lane any more
)

// decideSettled says what an answer means. First match wins.
//
//	stored                                                Stored
//	not stored, and the lane ends in front of the batch   Fenced
//	not stored                                            Taken
//	otherwise                                             Over
//
// Fenced holds for everything behind the batch too: a lane has no holes, and a copy of
// the batch itself, which could fill this one, is shut out by its epoch.
func decideSettled(base batchfmt.Seq, m *wire.Resolved) settled {
	switch {
	case m.Outcome == wire.ResolveStored:
		return settledStored
	case m.Outcome == wire.ResolveNever && m.LastSequence < base:
		return settledFenced
	case m.Outcome == wire.ResolveNever:
		return settledTaken
	}
	return settledOver
}

// Settled is the answer to Settle.
func (c *Core) Settled(now time.Time, b *Batch, m *wire.Resolved) {
	if c.asked != b || c.mode == stopped {
		return
	}
	c.asked = nil
	c.minEpoch = max(c.minEpoch, m.Epoch)
	switch decideSettled(b.Base, m) {
	case settledStored:
		c.settledStored(b, m)
	case settledFenced:
		c.fencedOff(now, m.LastSequence)
	case settledTaken:
		b.never = true
		c.report(b, m)
		if refusal, ok := errors.AsType[*wire.Error](c.cause); ok && refusal.Code == wire.CodeInvalidProducerEpoch {
			break // by the instance that holds the producer now
		}
		c.fail(now, laneError(wire.CodeProducerCloned, b.Base, -1, "another batch has these sequences: "+m.Detail))
	default:
		c.report(b, m)
		code := wire.CodeUnknownOutcome
		if m.Outcome == wire.ResolveTopicGone {
			code = wire.CodeUnknownTopicID
		}
		c.fail(now, laneError(code, b.Base, -1, m.Detail))
	}
	c.settleNext(now)
}

// SettleRefused is the other answer to Settle: the server will not say.
func (c *Core) SettleRefused(now time.Time, b *Batch, err error) {
	if c.asked != b || c.mode == stopped {
		return
	}
	c.fail(now, err)
}

func (c *Core) settledStored(b *Batch, m *wire.Resolved) {
	r := wire.ProduceResult{BaseSequence: b.Base, BaseOffset: m.Offset, Duplicate: true, Verified: m.Verified, Expected: -1}
	if m.Unreadable {
		r.Code = wire.CodeBatchUnreadable
	}
	if slices.Contains(c.queue, b) {
		b.stored = &r
		return
	}
	if m.Offset >= 0 && !m.Unreadable && (c.acked == nil || c.acked.Sequence < b.Last()) {
		c.acked = &wire.LanePoint{Sequence: b.Last(), Offset: m.Offset + batchfmt.Offset(b.Count) - 1, Digest: b.Digest}
	}
	c.report(b, m)
}

// report tells what became of b if it was told to be unknown. Of one that was proved not to be
// stored its outcome said so.
func (c *Core) report(b *Batch, m *wire.Resolved) {
	i := slices.Index(c.unsettled, b)
	if i < 0 {
		return
	}
	c.unsettled = slices.Delete(c.unsettled, i, i+1)
	if b.ended.Fate == NotStored && m.Outcome != wire.ResolveStored {
		return
	}
	found := *m
	c.out = append(c.out, Action{Kind: Report, Batch: b, Found: &found})
}

// fencedOff notes that nothing behind last is stored nor can be, as it is sealed by now.
// Batches that are due, given up or closing end there; the others are sealed anew once the
// epoch is raised.
func (c *Core) fencedOff(now time.Time, last batchfmt.Seq) {
	never := wire.Resolved{Outcome: wire.ResolveNever, Offset: -1, LastSequence: last, Epoch: c.minEpoch,
		Detail: "a fence has passed it"}
	for len(c.unsettled) > 0 {
		c.report(c.unsettled[0], &never)
	}
	if c.acked != nil && last < c.acked.Sequence || slices.ContainsFunc(c.queue, func(b *Batch) bool { return b.stored != nil }) {
		c.fail(now, laneError(wire.CodeDataLoss, last, int64(c.next), "the lane ends in front of what was acknowledged"))
		return
	}
	c.fenced, c.hole = true, noHole
	c.next, c.sent = last+1, min(c.sent, last)
	for _, b := range c.queue {
		b.never, b.unanswered, b.apart = true, false, false
		switch {
		case c.closing:
			c.drop(b, c.causeFor(b))
		case b.told:
			c.drop(b, ErrGivenUp)
		case c.isDue(b, now):
			c.drop(b, ErrDeliveryTimeout)
		}
	}
	c.completeStored()
}

// drop lets b, which is proved not to be stored, end as soon as those in front of it have.
func (c *Core) drop(b *Batch, cause error) {
	if b.dropped == nil {
		b.dropped = cause
	}
}

// dropDue ends what has waited for the whole delivery timeout while the epoch is raised:
// none of it is stored.
func (c *Core) dropDue(now time.Time) {
	for _, b := range c.queue {
		if c.isDue(b, now) {
			c.drop(b, ErrDeliveryTimeout)
		}
	}
	c.completeStored()
}

func (c *Core) startRaising() {
	if c.mode == stopped {
		return
	}
	c.mode = raising
	c.out = append(c.out, Action{Kind: Raise, Epoch: max(c.epoch+1, c.minEpoch)})
}

// Raised is the answer to Raise. What waits is sealed anew, in its order, from the
// sequence on that follows what the server has.
func (c *Core) Raised(now time.Time, epoch batchfmt.Epoch) {
	if c.mode != raising {
		return
	}
	c.dropDue(now)
	c.fenced, c.epoch, c.cause = false, max(c.epoch, epoch), nil
	for _, b := range c.queue {
		if b.dropped != nil {
			continue
		}
		b.renew(c.next)
		c.next = b.Last() + 1
		c.out = append(c.out, Action{Kind: Reseal, Batch: b})
	}
	c.reopen(now)
}

// RaiseRefused is the other answer to Raise: the producer is not ours any more.
func (c *Core) RaiseRefused(now time.Time, err error) {
	if c.mode == raising {
		c.fail(now, err)
	}
}

// tellAt is when the head, or all when closing, is told to be unknown.
func (c *Core) tellAt() time.Time {
	switch {
	case c.closing:
		return c.stopAt
	case len(c.queue) == 0:
		return time.Time{}
	}
	return c.queue[0].Deadline.Add(c.grace)
}

// tickSettling tells what is out of time. It stays to be settled, and the lane sends
// nothing before that is done.
func (c *Core) tickSettling(now time.Time) {
	if c.closing && !now.Before(c.stopAt) {
		c.finish()
		return
	}
	for len(c.queue) > 0 && !now.Before(c.tellAt()) {
		c.cause = ErrDeliveryTimeout
		b := c.pop()
		o := c.finalOutcome(b)
		c.complete(b, o)
		if o.Fate != Stored { // also where it is proved: its sequences are free only once that is told
			b.ended = &o
			c.unsettled = append(c.unsettled, b)
		}
	}
	c.settleNext(now)
}
