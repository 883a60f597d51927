package lane

import (
	"errors"
	"slices"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// ErrNoAnswer is the cause when a batch of a plain lane was handed over and the opening was
// lost before its answer came.
var ErrNoAnswer = errors.New("it was handed to the network, and what it went over was lost before the answer")

// A Plain is a lane without an identity. The server remembers nothing of its batches, so one
// that was handed over and has no answer may be stored, and nobody can find out: it ends as
// unknown. It takes the events of a [Core] and asks for the same, but never for Settle,
// Report, Raise or Reseal. The base of a batch is only its number.
//
// A batch that the server refused without doing anything is sent again, and may then stand
// behind batches that came after it. It is not safe for concurrent use.
type Plain struct {
	mode   mode // detached, opening, pausing, open, failing or stopped
	again  bool // a batch without an answer is sent again, though it may be stored
	queue  []*Batch
	next   batchfmt.Seq
	out    []Action
	window int
	held   bool   // see Core
	linked bool   // see Core
	reopen bool   // once no answer is awaited
	leaves *Batch // what the last Send asked for, until it has left; nil for none

	resumeAt time.Time // see Core
	openedAt time.Time // see Core
	stopAt   time.Time // see Core
	retries  int       // see Core
	cause    error     // see Core
	jitter   func(time.Duration) time.Duration
}

// NewPlain returns a lane that has sent nothing. With again it sends a second time what may
// be stored.
func NewPlain(again bool) *Plain {
	return &Plain{again: again, window: MaxInFlight, jitter: fullJitter}
}

// Actions is that of [Core].
func (p *Plain) Actions() []Action {
	out := p.out
	p.out = p.out[:0]
	return out
}

// Next is the number of the batch that is frozen next.
func (p *Plain) Next() batchfmt.Seq { return p.next }

// Room is that of [Core].
func (p *Plain) Room(now time.Time) bool {
	return p.mode == open && !p.held && !p.reopen && !now.Before(p.resumeAt) && len(p.queue) < p.window
}

// Idle is that of [Core].
func (p *Plain) Idle() bool { return len(p.queue) == 0 }

// Deadline is that of [Core].
func (p *Plain) Deadline() time.Time {
	if len(p.queue) == 0 {
		return time.Time{}
	}
	return p.queue[0].Deadline
}

// Unanswered is that of [Core].
func (p *Plain) Unanswered() bool { return p.mode == opening || p.awaits() }

func (p *Plain) awaits() bool {
	return slices.ContainsFunc(p.queue, func(b *Batch) bool { return b.unanswered })
}

// Stopped is that of [Core].
func (p *Plain) Stopped() error {
	if p.mode == stopped {
		return p.cause
	}
	return nil
}

// SetWindow is that of [Core].
func (p *Plain) SetWindow(n int) { p.window = min(max(n, 1), MaxInFlight) }

// Hold is that of [Core].
func (p *Plain) Hold() { p.held = true }

// Held is that of [Core].
func (p *Plain) Held() bool { return p.held }

// Connected is that of [Core].
func (p *Plain) Connected(now time.Time) {
	if p.mode == stopped || p.linked {
		return
	}
	p.linked, p.held = true, false
	if p.mode == detached {
		p.open(now)
	}
}

func (p *Plain) open(now time.Time) {
	p.loseAnswers()
	p.mode, p.openedAt, p.resumeAt, p.reopen = opening, now, time.Time{}, false
	p.out = append(p.out, Action{Kind: Open})
}

// Opened is that of [Core].
func (p *Plain) Opened(now time.Time, _ *wire.LaneOpened) {
	if p.mode == opening {
		p.mode = open
		p.pump(now)
	}
}

// Refused is that of [Core].
func (p *Plain) Refused(now time.Time, err *wire.Error) {
	switch p.mode {
	case detached, stopped:
		return
	case failing:
		p.finish()
		return
	}
	p.loseAnswers()
	if !err.Code.Info().Retry {
		p.cause = err
		p.finish()
		return
	}
	p.mode = pausing
	p.pause(now, err.RetryAfter)
}

// Disconnected is that of [Core].
func (p *Plain) Disconnected(time.Time) {
	p.linked = false
	switch p.mode {
	case detached, stopped:
		return
	case failing:
		p.finish()
		return
	}
	p.loseAnswers()
	p.mode, p.resumeAt = detached, time.Time{}
}

// loseAnswers ends what has no answer and will not have one.
func (p *Plain) loseAnswers() {
	p.leaves = nil
	for _, b := range p.queue {
		if !b.unanswered {
			continue
		}
		b.unanswered, b.uncertain = false, true
		if !p.again || b.told {
			b.ended = &Outcome{Fate: Unknown, Cause: ErrNoAnswer}
		}
	}
	p.completeEnded()
}

// completeEnded gives outcomes in the order of the batches.
func (p *Plain) completeEnded() {
	for len(p.queue) > 0 && p.queue[0].ended != nil {
		b := p.queue[0]
		p.queue = append(p.queue[:0], p.queue[1:]...)
		p.out = append(p.out, Action{Kind: Complete, Batch: b, Outcome: *b.ended})
	}
}

// Enqueue is that of [Core].
func (p *Plain) Enqueue(now time.Time, b *Batch) {
	if !p.Room(now) || b.Base != p.next || b.Count < 1 {
		panic("lane: batch enqueued out of turn")
	}
	p.next = b.Last() + 1
	p.queue = append(p.queue, b)
	p.pump(now)
}

// Written says that b has left. Only then the next one is asked for, so that what was lost
// before it was tried to be sent is not taken as sent.
func (p *Plain) Written(now time.Time, b *Batch) {
	b.sentAt = now
	if p.leaves == b {
		p.leaves = nil
	}
	p.pump(now)
}

// pump asks for the next batch to be sent, in order.
func (p *Plain) pump(now time.Time) {
	if p.mode != open || p.held || p.reopen || p.leaves != nil || now.Before(p.resumeAt) {
		return
	}
	for _, b := range p.queue {
		if b.unanswered || b.ended != nil {
			continue
		}
		b.attempts++
		b.unanswered, b.sentAt, p.leaves = true, now, b
		p.out = append(p.out, Action{Kind: Send, Batch: b})
		return
	}
}

// Result is that of [Core].
func (p *Plain) Result(now time.Time, r *wire.ProduceResult) {
	i := slices.IndexFunc(p.queue, func(b *Batch) bool { return b.unanswered && b.Base == r.BaseSequence })
	if i < 0 {
		return
	}
	b := p.queue[i]
	b.unanswered = false
	if r.Code != wire.CodeOK {
		p.rejected(now, b, r)
	} else if r.BaseOffset < 0 {
		p.startFailing(now, laneError(wire.CodeProtocol, b.Base, -1, "success without an offset"))
		b.ended = &Outcome{Fate: Unknown, Cause: p.cause}
	} else {
		p.retries = 0
		b.ended = &Outcome{Fate: Stored, Result: *r}
	}
	p.completeEnded()
	switch {
	case p.awaits():
	case p.mode == failing:
		p.finish()
		return
	case p.reopen && p.mode == open:
		p.mode, p.reopen = pausing, false
		p.pause(now, 0)
	}
	p.pump(now)
}

// rejected decides about an answer that is not success. First match wins.
//
//	it leaves the outcome open                 unknown, or sent again if that is allowed and may help
//	the lane is over                           not stored, and nothing more is sent
//	the application had given up a record      not stored
//	the opening is no good                     sent again, under another one
//	may be retried                             sent again after a pause
//	otherwise                                  not stored
//
// What is not stored after an earlier attempt that had no answer is unknown.
func (p *Plain) rejected(now time.Time, b *Batch, r *wire.ProduceResult) {
	b.refusal = refusalOf(r)
	info := r.Code.Info()
	switch {
	case info.Outcome != wire.NothingHappened:
		b.uncertain = true
		if !p.again || b.told || !info.Retry {
			b.ended = &Outcome{Fate: Unknown, Cause: b.refusal}
			return
		}
		p.pause(now, r.RetryAfter)
	case laneOver[r.Code]:
		b.ended = p.without(b, b.refusal)
		p.startFailing(now, b.refusal)
	case b.told:
		b.ended = p.without(b, ErrGivenUp)
	case r.Code == wire.CodeInvalidLane, r.Code == wire.CodeSuperseded:
		p.reopen = true
	case info.Retry:
		p.pause(now, r.RetryAfter)
	default:
		b.ended = p.without(b, b.refusal)
	}
}

// without is the outcome of a batch that no answer says to be stored.
func (p *Plain) without(b *Batch, cause error) *Outcome {
	if b.unanswered || b.uncertain {
		return &Outcome{Fate: Unknown, Cause: cause}
	}
	return &Outcome{Fate: NotStored, Cause: cause}
}

// Tell says that the application was told of a record of b that its outcome is unknown: b is
// not sent again.
func (p *Plain) Tell(_ time.Time, b *Batch) {
	if !slices.Contains(p.queue, b) {
		return
	}
	b.told = true
	if b.attempts > 0 && !b.unanswered && b.ended == nil {
		b.ended = p.without(b, ErrGivenUp)
		p.completeEnded()
	}
}

// Close ends the lane from this side: nothing more is sent, and answers are awaited until
// then.
func (p *Plain) Close(now time.Time, cause error, until time.Time) {
	switch {
	case p.mode == stopped:
		return
	case p.mode == failing:
		if until.Before(p.stopAt) {
			p.stopAt = until
		}
	default:
		p.mode, p.cause, p.stopAt = failing, cause, until
		if !p.awaits() {
			p.finish()
		}
	}
}

func (p *Plain) startFailing(now time.Time, cause error) {
	if p.mode == failing {
		return
	}
	p.mode, p.cause, p.stopAt = failing, cause, now.Add(minPatience)
}

// finish gives every batch its outcome, and the lane is over.
func (p *Plain) finish() {
	for _, b := range p.queue {
		if b.ended == nil {
			b.ended = p.without(b, p.cause)
		}
	}
	p.completeEnded()
	p.mode, p.leaves = stopped, nil
	p.out = append(p.out, Action{Kind: Fail, Err: p.cause})
}

func (p *Plain) pause(now time.Time, hint time.Duration) {
	d := min(firstBackoff<<min(p.retries, 10), maxBackoff)
	p.retries++
	p.resumeAt = now.Add(max(p.jitter(d), min(hint, maxBackoff)))
}

// Tick is that of [Core]. An answer is awaited until the deadline of its batch: to open the
// lane anew would only lose it.
func (p *Plain) Tick(now time.Time) {
	if p.mode == stopped {
		return
	}
	if p.mode == failing && !now.Before(p.stopAt) {
		p.finish()
		return
	}
	for _, b := range p.queue {
		if b.ended == nil && !now.Before(b.Deadline) {
			b.ended, b.unanswered = p.without(b, ErrDeliveryTimeout), false // its answer would come too late
		}
	}
	p.completeEnded()
	switch {
	case p.mode == failing && !p.awaits():
		p.finish()
	case p.mode == open && p.reopen && !p.awaits(): // the answers did not come in time
		p.mode, p.reopen = pausing, false
		p.pause(now, 0)
	case p.mode == opening && !now.Before(p.openedAt.Add(minPatience)):
		p.openAgain(now)
	case p.mode == pausing && !now.Before(p.resumeAt):
		p.openAgain(now)
	case p.mode == open && !now.Before(p.resumeAt):
		p.resumeAt = time.Time{}
		p.pump(now)
	}
}

// openAgain is that of [Core].
func (p *Plain) openAgain(now time.Time) {
	if p.held {
		p.mode = pausing
		return
	}
	p.open(now)
}

// NextTick is that of [Core].
func (p *Plain) NextTick() time.Time {
	var next time.Time
	add := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	switch p.mode {
	case stopped:
		return time.Time{}
	case failing:
		add(p.stopAt)
	case opening:
		add(p.openedAt.Add(minPatience))
	case pausing, open:
		if !p.held {
			add(p.resumeAt)
		}
	}
	for _, b := range p.queue {
		if b.ended == nil {
			add(b.Deadline)
		}
	}
	return next
}
