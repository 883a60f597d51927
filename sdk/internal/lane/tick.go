package lane

import "time"

// Tick does what is due at now: pauses that are over, patience that is at its end,
// delivery that took too long.
func (c *Core) Tick(now time.Time) {
	switch {
	case c.mode == stopped:
		return
	case c.mode == settling:
		c.tickSettling(now)
		return
	case c.mode == raising:
		c.dropDue(now)
		return
	case c.mode == failing && now.Before(c.stopAt):
		return
	case c.mode == failing && !c.goOn():
		c.over(now) // in time, with the reason that is known
		return
	case len(c.queue) > 0 && !now.Before(c.queue[0].Deadline):
		c.startSettling(now, ErrDeliveryTimeout)
		return
	case c.mode == failing:
		c.giveUpAnswers()
		c.endWait(now)
		return
	case c.owesSettle():
		c.startSettling(now, ErrGivenUp)
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
	case settling:
		return c.tellAt()
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
