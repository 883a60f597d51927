package lane

import (
	"time"
)

// startFailing sends nothing any more and waits a moment for the answers that are still
// on their way: each of them may prove that its batch is not stored.
func (c *Core) startFailing(now time.Time, cause error) {
	c.mode, c.cause, c.stopAt = failing, cause, now.Add(stopPatience)
	c.gapAt = time.Time{}
}

// fail ends the lane at once, when no answers can be expected any more.
func (c *Core) fail(now time.Time, cause error) {
	c.goOn = false
	c.startFailing(now, cause)
	c.giveUpAnswers()
	c.finish(now)
}

// Stop ends the lane from this side. What was handed over and is not proved ends unknown.
func (c *Core) Stop(now time.Time, cause error) {
	if c.mode != stopped {
		c.fail(now, cause)
	}
}

// finish gives every frozen batch its outcome. After a refusal, and when every batch
// behind it is proved not to be stored, no copy of any of them is anywhere: their
// sequences are free again and the lane goes on. Otherwise it is over.
func (c *Core) finish(now time.Time) {
	c.giveUpAnswers()
	free := c.next
	sure := true
	for len(c.queue) > 0 {
		b := c.pop()
		o := c.finalOutcome(b)
		switch o.Fate {
		case NotStored:
			free = min(free, b.Base)
		case Stored:
			sure = sure && free > b.Base // nothing can be stored behind a hole
		default:
			sure = false
		}
		c.complete(b, o)
	}
	if c.goOn && sure {
		c.next, c.sent = free, min(c.sent, free-1)
		c.mode, c.cause, c.goOn, c.resumeAt = open, nil, false, time.Time{}
		return
	}
	c.mode = stopped
	c.out = append(c.out, Action{Kind: Fail, Err: c.cause})
}

// finalOutcome is the outcome of b when the lane fails.
//
//	its success arrived                            Stored
//	answers prove that no attempt did anything     NotStored
//	otherwise                                      Unknown
func (c *Core) finalOutcome(b *Batch) Outcome {
	switch {
	case b.stored != nil:
		return Outcome{Fate: Stored, Result: *b.stored}
	case b.proved() && c.cause != ErrDeliveryTimeout:
		return Outcome{Fate: NotStored, Cause: c.causeFor(b)}
	}
	return Outcome{Fate: Unknown, Cause: c.cause}
}

// causeFor prefers the batch's own answer over that of the batch which ended the lane,
// unless its own only says that the other one was missing.
func (c *Core) causeFor(b *Batch) error {
	if b.refusal.Code.Info().Retry {
		return c.cause
	}
	return b.refusal
}

// Tick does what is due at now: pauses that are over, patience that is at its end,
// delivery that took too long.
func (c *Core) Tick(now time.Time) {
	switch {
	case c.mode == stopped:
		return
	case c.mode == failing:
		if !now.Before(c.stopAt) {
			c.finish(now)
		}
		return
	case len(c.queue) > 0 && !now.Before(c.queue[0].Deadline):
		c.fail(now, ErrDeliveryTimeout)
		return
	case c.mode == pausing:
		if !now.Before(c.resumeAt) {
			c.openAgain(now)
		}
		return
	case c.mode == opening:
		if !now.Before(c.openedAt.Add(openPatience)) {
			c.openAgain(now)
		}
		return
	case c.mode == detached:
		return
	}
	if !now.Before(c.resumeAt) {
		c.resumeAt = time.Time{}
	}
	if at := c.answerDue(); !at.IsZero() && !now.Before(at) {
		c.losses++
		c.openAgain(now)
		return
	}
	c.pump(now)
}

// openAgain opens the lane anew, but not on a connection that drains: there the caller
// moves the lane to another one as soon as no answer is awaited.
func (c *Core) openAgain(now time.Time) {
	if c.held {
		c.giveUpAnswers()
		c.mode = pausing
		return
	}
	c.open(now)
}

// answerDue is when an answer that has not come is taken as lost.
func (c *Core) answerDue() time.Time {
	var due time.Time
	for _, b := range c.queue {
		if !b.unanswered {
			continue
		}
		due = b.sentAt.Add(c.patience())
		break
	}
	if !due.IsZero() && !c.gapAt.IsZero() {
		if gap := c.gapAt.Add(gapPatience); gap.Before(due) {
			due = gap
		}
	}
	return due
}

// patience is how long an answer may take: eight times of what is usual here, and twice
// as long after every time that it was too short.
func (c *Core) patience() time.Duration {
	d := firstPatience
	if c.ackTime > 0 {
		d = min(max(8*c.ackTime, minPatience), maxPatience)
	}
	return min(d<<min(c.losses, 6), maxPatience)
}

// NextTick is when Tick has something to do, or zero when only an event can change
// anything.
func (c *Core) NextTick() time.Time {
	var next time.Time
	add := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	switch c.mode {
	case stopped:
		return time.Time{}
	case failing:
		return c.stopAt
	case opening:
		add(c.openedAt.Add(openPatience))
	case pausing:
		if !c.held {
			add(c.resumeAt)
		}
	case recovering, open:
		if !c.held {
			add(c.resumeAt)
		}
		add(c.answerDue())
	}
	if len(c.queue) > 0 {
		add(c.queue[0].Deadline)
	}
	return next
}
