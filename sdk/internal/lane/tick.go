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
		if !now.Before(c.openedAt.Add(c.patience.length())) {
			c.patience.exhausted()
			c.openAgain(now)
		}
		return
	case c.mode == detached:
		return
	}
	if !now.Before(c.resumeAt) {
		c.resumeAt = time.Time{}
	}
	if at, gap := c.answerDue(); !at.IsZero() && !now.Before(at) {
		if !gap {
			c.patience.exhausted()
		}
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

// answerDue is when the next answer that has not come is taken as lost, and whether that is
// since it was overtaken.
func (c *Core) answerDue() (due time.Time, gap bool) {
	patience := c.patience.length()
	for _, b := range c.queue {
		if !b.unanswered {
			continue
		}
		if at := b.sentAt.Add(patience); due.IsZero() || at.Before(due) {
			due, gap = at, false
		}
		if at := b.overtaken.Add(gapPatience); !b.overtaken.IsZero() && at.Before(due) {
			due, gap = at, true
		}
	}
	return due, gap
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
		add(c.openedAt.Add(c.patience.length()))
	case pausing:
		if !c.held {
			add(c.resumeAt)
		}
	case recovering, open:
		if !c.held {
			add(c.resumeAt)
		}
		due, _ := c.answerDue()
		add(due)
	}
	if len(c.queue) > 0 {
		add(c.queue[0].Deadline)
	}
	return next
}
