package lane

import (
	"errors"
	"slices"
	"time"

	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// startFailing sends nothing any more and waits a moment for the answers that are still
// on their way: each of them may prove that its batch is not stored.
func (c *Core) startFailing(now time.Time, cause error) {
	c.mode, c.cause, c.stopAt = failing, cause, now.Add(c.patience.length())
	if at := c.Deadline(); !at.IsZero() && at.Before(c.stopAt) {
		c.stopAt = at
	}
}

// over ends the lane when no answers are awaited any more. If that is since another instance
// holds the producer, what may have been stored before is asked for first, as long as a batch
// may take: nothing more of it can be stored.
func (c *Core) over(now time.Time) {
	c.giveUpAnswers()
	refusal, _ := errors.AsType[*wire.Error](c.cause)
	open := slices.ContainsFunc(c.queue, func(b *Batch) bool { return c.finalOutcome(b).Fate == Unknown })
	if !open || refusal == nil || refusal.Code != wire.CodeInvalidProducerEpoch {
		c.finish()
		return
	}
	c.closing, c.stopAt = true, c.queue[0].Deadline.Add(c.grace)
	c.startSettling(now, c.cause)
}

// leaveHole ends the head, which the server refused and which is proved not to be stored.
// Its sequences are free again as soon as no copy of what stands behind it can land in
// their place.
func (c *Core) leaveHole(now time.Time) {
	b := c.pop()
	c.hole = b.Base
	c.startFailing(now, b.refusal)
	c.complete(b, Outcome{Fate: NotStored, Cause: b.refusal})
}

// goOn reports whether the lane, although failing, is not over: it has a hole, and
// nothing was stored behind it.
func (c *Core) goOn() bool {
	return c.hole != noHole && !slices.ContainsFunc(c.queue, func(b *Batch) bool { return b.stored != nil })
}

// endWait ends the time in which answers are awaited. First match wins.
//
//	no hole, or something is stored behind it     the lane is over
//	all behind the hole is proved not stored      the lane goes on
//	otherwise                                     a new opening tells
//
// A new opening tells because a lane has no holes: while the refused batch is missing
// nothing behind it is stored. And when the server answers the opening, what came with
// older ones is settled, and whatever of it arrives yet is refused: OpenLane leaves only
// when nothing more is sent under the older opening, and every batch was sent under an
// opening that was answered. So no copy is left that could land when the sequences are
// used again.
func (c *Core) endWait(now time.Time) {
	switch {
	case !c.goOn():
		c.over(now)
	case !slices.ContainsFunc(c.queue, func(b *Batch) bool { return !b.proved() }):
		c.fillHole()
		c.mode, c.resumeAt = open, time.Time{}
	default:
		c.openAgain(now)
	}
}

// fillHole gives what stands behind the hole its outcome and uses the sequences again.
func (c *Core) fillHole() {
	for len(c.queue) > 0 {
		b := c.pop()
		c.complete(b, Outcome{Fate: NotStored, Cause: c.causeFor(b)})
	}
	if !planted.SequenceSpent {
		c.next, c.sent = c.hole, min(c.sent, c.hole-1)
	}
	c.hole, c.cause = noHole, nil
}

// fail ends the lane at once, when no answers can be expected any more.
func (c *Core) fail(now time.Time, cause error) {
	c.startFailing(now, cause)
	c.finish()
}

// finish gives every frozen batch its outcome, and the lane is over.
func (c *Core) finish() {
	c.giveUpAnswers()
	for len(c.queue) > 0 {
		b := c.pop()
		c.complete(b, c.finalOutcome(b))
	}
	c.mode, c.asked = stopped, nil
	c.out = append(c.out, Action{Kind: Fail, Err: c.cause})
}

// finalOutcome is the outcome of b when the lane is over.
//
//	its success arrived                            Stored
//	the server said so of the batch for good       NotStored
//	answers prove that no attempt did anything     NotStored, unless it is only out of time
//	otherwise                                      Unknown
func (c *Core) finalOutcome(b *Batch) Outcome {
	switch {
	case b.stored != nil:
		return Outcome{Fate: Stored, Result: *b.stored}
	case b.never, b.attempts == 0, b.proved() && !errors.Is(c.cause, ErrDeliveryTimeout):
		return Outcome{Fate: NotStored, Cause: c.causeFor(b)}
	}
	if planted.UnknownFails {
		return Outcome{Fate: NotStored, Cause: c.cause}
	}
	return Outcome{Fate: Unknown, Cause: c.cause}
}

// causeFor prefers the batch's own answer over that of the batch which ended the lane,
// unless its own only says that the other one was missing.
func (c *Core) causeFor(b *Batch) error {
	if b.refusal == nil || b.refusal.Code.Info().Retry {
		return c.cause
	}
	return b.refusal
}
