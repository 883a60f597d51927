package lane

import (
	"math/rand/v2"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// MaxInFlight is how many batches of a lane may be without an answer: a server remembers
// the last five of each lane, so it recognises every one of them when it comes again.
const MaxInFlight = 5

// Pauses between attempts. They only cost time: sending again is always safe.
const (
	firstBackoff = 10 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// mode is where the lane stands with its server.
type mode uint8

const (
	detached   mode = iota // no connection
	opening                // OpenLane is on its way
	pausing                // connected, but OpenLane waits for resumeAt
	recovering             // open; one batch at a time until one succeeds
	open                   // open; as many as the window allows
	failing                // nothing is sent any more, answers are awaited
	settling               // nothing is sent; the server is asked what became of the oldest batch
	raising                // nothing is sent; a higher epoch is asked for
	stopped                // over
)

// noHole is what Core.hole is nearly always.
const noHole batchfmt.Seq = -1

// A Core is one lane. It is not safe for concurrent use. The zero value is not ready:
// see [New].
type Core struct {
	mode   mode
	queue  []*Batch // frozen, in order, without an outcome
	next   batchfmt.Seq
	sent   batchfmt.Seq // highest ever handed over; -1 for none
	acked  *wire.LanePoint
	window int
	held   bool // the connection drains: what is out may finish, nothing new is sent
	linked bool // there is a connection
	fresh  bool // nothing is known of the lane before it is opened
	taken  bool // over from an earlier process, see NewResumed

	resumeAt time.Time // nothing is sent before; zero for no pause
	openedAt time.Time // when OpenLane left
	stopAt   time.Time // when failing or closing ends, whether the answers came or not
	retries  int       // pauses since the last success
	patience patience
	turn     uint64       // attempts so far: their order is that of their answers
	cause    error        // why the lane is failing or stopped, or has a hole
	hole     batchfmt.Seq // of a refused batch whose sequences are not free yet; noHole for none

	grace     time.Duration  // how long a batch is settled after its deadline
	closing   bool           // the lane ends when what it has is settled
	unsettled []*Batch       // told to be unknown and not settled yet, oldest first
	asked     *Batch         // the batch that Settle was asked for, until the answer; nil for none
	fenced    bool           // nothing that is sealed so far can be stored: it needs a higher epoch
	epoch     batchfmt.Epoch // highest that a batch was sealed with
	minEpoch  batchfmt.Epoch // lowest that the server takes

	jitter func(time.Duration) time.Duration
	out    []Action
}

// New returns a lane that has never sent anything.
func New() *Core {
	return &Core{sent: -1, hole: noHole, window: MaxInFlight, jitter: fullJitter}
}

// NewFresh returns a lane of which nothing is remembered: it goes on behind what the
// server has. There is no room before it was opened.
func NewFresh() *Core {
	c := New()
	c.fresh = true
	return c
}

// A Resume is what is known of a lane from before: another process had it, and it is gone.
type Resume struct {
	Next  batchfmt.Seq    // of the first batch that is frozen now, if the server does not hold more
	Acked *wire.LanePoint // the last record that was known to be stored; nil for none
	Epoch batchfmt.Epoch  // highest that a batch was sealed with
	Fresh bool            // Next may be too low: the lane goes on behind what the server has
	// Batches are frozen, in the order of their sequences, and have no outcome; any of them may
	// have been handed over.
	Batches []*Batch
	// Told are those of them that must not be sent again, but only settled.
	Told func(*Batch) bool
}

// NewResumed returns a lane that goes on where another one was left.
func NewResumed(r Resume) *Core {
	c := New()
	c.next, c.sent, c.acked, c.epoch, c.fresh = r.Next, r.Next-1, r.Acked, r.Epoch, r.Fresh
	c.taken = true
	for _, b := range r.Batches {
		b.attempts, b.uncertain, b.told = 1, true, r.Told(b)
		c.queue = append(c.queue, b)
	}
	return c
}

// fullJitter spreads a pause over [d/2, d]: many lanes are refused at the same moment
// and must not come back at the same moment.
func fullJitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

// Actions returns what is to be done since the last call, in order. The slice is valid
// until the next event.
func (c *Core) Actions() []Action {
	out := c.out
	c.out = c.out[:0]
	return out
}

// Pending is what Actions will return. Of it, Reseal may be done at once.
func (c *Core) Pending() []Action { return c.out }

// Next is the base sequence of the batch that is frozen next.
func (c *Core) Next() batchfmt.Seq { return c.next }

// Room reports whether a batch may be frozen and enqueued now. A batch is frozen only
// when it can be sent at once, so that a batch that was never sent has no sequence.
func (c *Core) Room(now time.Time) bool {
	if c.held || now.Before(c.resumeAt) {
		return false
	}
	switch c.mode {
	case open:
		return len(c.queue) < c.window
	case recovering:
		return len(c.queue) == 0
	}
	return false
}

// Idle reports whether no frozen batch is without an outcome.
func (c *Core) Idle() bool { return len(c.queue) == 0 }

// Deadline is when the oldest frozen batch must have its outcome, or zero without one.
func (c *Core) Deadline() time.Time {
	if len(c.queue) == 0 {
		return time.Time{}
	}
	return c.queue[0].Deadline
}

// Unanswered reports whether an answer is on its way.
func (c *Core) Unanswered() bool {
	for _, b := range c.queue {
		if b.unanswered {
			return true
		}
	}
	return c.mode == opening
}

// Stopped returns why the lane is over, or nil.
func (c *Core) Stopped() error {
	if c.mode == stopped {
		return c.cause
	}
	return nil
}

// SetWindow sets how many batches may be in flight: what the server agreed to, but never
// more than MaxInFlight nor less than one.
func (c *Core) SetWindow(n int) { c.window = min(max(n, 1), MaxInFlight) }

// Hold says that the connection drains: nothing new is sent on it.
func (c *Core) Hold() { c.held = true }

// Held reports whether Hold was called for the present connection.
func (c *Core) Held() bool { return c.held }

// Connected says that there is a connection. The lane asks to be opened on it.
func (c *Core) Connected(now time.Time) {
	if c.mode == stopped || c.linked {
		return
	}
	c.linked, c.held = true, false
	if c.mode == detached {
		c.open(now)
	}
}

// open asks for an opening. What has no answer yet is uncertain from here on.
func (c *Core) open(now time.Time) {
	c.giveUpAnswers()
	if c.owesSettle() {
		c.startSettling(now, ErrGivenUp)
		return
	}
	c.mode, c.openedAt, c.resumeAt = opening, now, time.Time{}
	a := Action{Kind: Open, Fresh: c.fresh}
	if c.acked != nil {
		point := *c.acked
		a.Acked = &point
	}
	if c.sent >= 0 {
		sent := c.sent
		a.Sent = &sent
	}
	c.out = append(c.out, a)
}

func (c *Core) giveUpAnswers() {
	for _, b := range c.queue {
		if b.unanswered {
			b.unanswered, b.uncertain = false, true
		}
	}
}

// Opened is the answer to OpenLane. The server has checked our memory of the lane
// against its own; we check its against ours, as either may be the one that is wrong.
func (c *Core) Opened(now time.Time, m *wire.LaneOpened) {
	if c.mode != opening {
		return
	}
	if c.fresh {
		c.adopt(m)
	}
	switch {
	case m.LastSequence > c.sent:
		c.fail(now, laneError(wire.CodeProducerCloned, m.LastSequence, int64(c.sent), "the server holds sequences that were never sent from here"))
		return
	case c.acked != nil && m.LastSequence < c.acked.Sequence:
		c.fail(now, laneError(wire.CodeDataLoss, c.acked.Sequence, int64(m.LastSequence)+1, "the server lacks what it acknowledged"))
		return
	case c.hole != noHole && m.LastSequence >= c.hole:
		c.fail(now, laneError(wire.CodeProducerCloned, m.LastSequence, int64(c.hole), "the server holds the sequences of a batch that it refused"))
		return
	case c.hole != noHole:
		c.fillHole()
	case c.taken && len(c.queue) > 0 && c.queue[0].Base > m.LastSequence+1:
		// It stood behind a batch that a fence has passed, and would have been sealed anew next.
		c.queue[0].apart = true
		c.startSettling(now, ErrGivenUp)
		return
	}
	c.mode = open
	if len(c.queue) > 0 {
		c.mode = recovering
	}
	c.pump(now)
}

// adopt begins where the server says that the lane ends.
func (c *Core) adopt(m *wire.LaneOpened) {
	c.fresh = false
	c.next, c.sent = m.LastSequence+1, m.LastSequence
	if m.LastOffset >= 0 && m.LastDigest != 0 {
		c.acked = &wire.LanePoint{Sequence: m.LastSequence, Offset: m.LastOffset, Digest: m.LastDigest}
	}
}

func laneError(code wire.Code, seq batchfmt.Seq, expected int64, detail string) *wire.Error {
	e := wire.Errorf(code, "%s", detail)
	e.Sequence, e.Expected = int64(seq), expected
	return e
}

// Refused is the other answer to OpenLane; it may also come later, to end an opening.
func (c *Core) Refused(now time.Time, err *wire.Error) {
	switch c.mode {
	case detached, stopped:
		return
	case settling, raising:
		c.giveUpAnswers()
		return
	case failing:
		if !c.goOn() {
			c.over(now)
			return
		}
	}
	c.giveUpAnswers()
	switch {
	case err.Code == wire.CodeInvalidProducerEpoch:
		c.cause = err
		c.over(now)
		return
	case !err.Code.Info().Retry:
		c.fail(now, err)
		return
	}
	c.mode = pausing
	c.pause(now, err.RetryAfter)
}

// Disconnected says that the opening is lost: the stream or the whole connection.
func (c *Core) Disconnected(now time.Time) {
	c.linked = false
	switch {
	case c.mode == detached, c.mode == stopped:
		return
	case c.mode == settling, c.mode == raising:
		c.giveUpAnswers()
		return
	case c.mode == failing && !c.goOn():
		c.over(now)
		return
	}
	c.giveUpAnswers()
	c.mode, c.resumeAt = detached, time.Time{}
}

// Enqueue takes a frozen batch and sends it. The caller asks [Core.Room] first and has
// sealed the batch with the sequence that [Core.Next] said.
func (c *Core) Enqueue(now time.Time, b *Batch) {
	if !c.Room(now) || b.Base != c.next || b.Count < 1 {
		panic("lane: batch enqueued out of turn")
	}
	c.next, c.epoch = b.Last()+1, max(c.epoch, b.Epoch)
	c.queue = append(c.queue, b)
	c.pump(now)
}

// Written says that the last attempt of b has left; the time for its answer starts here.
func (c *Core) Written(now time.Time, b *Batch) { b.sentAt = now }

// pump sends what may be sent: in order, each batch at most once at a time, one alone
// while it is not known whether the way is free. A batch that the application was told to
// be unknown is not sent again, and holds up what stands behind it until it is settled.
func (c *Core) pump(now time.Time) {
	limit := c.window
	switch {
	case c.held || now.Before(c.resumeAt):
		return
	case c.mode == recovering:
		limit = 1
	case c.mode != open:
		return
	}
	if c.owesSettle() {
		c.startSettling(now, ErrGivenUp)
		return
	}
	flying := 0
	for _, b := range c.queue {
		if b.unanswered {
			flying++
		}
	}
	for i, b := range c.queue {
		switch {
		case flying >= limit:
			return
		case b.unanswered, b.stored != nil, b.dropped != nil:
			continue
		case b.told && b.attempts > 0 && !planted.ResendUnknown:
			return
		}
		b.attempts++
		c.turn++
		b.turn, b.overtaken = c.turn, time.Time{}
		b.unanswered, b.asHead, b.probe, b.sentAt = true, i == 0, c.mode == recovering, now
		c.sent = max(c.sent, b.Last())
		c.out = append(c.out, Action{Kind: Send, Batch: b})
		flying++
	}
}

// Result is the answer for one batch of the current opening. Answers that nobody waits
// for are ignored.
func (c *Core) Result(now time.Time, r *wire.ProduceResult) {
	i := c.find(r.BaseSequence)
	if i < 0 || !c.queue[i].unanswered {
		return
	}
	b := c.queue[i]
	b.unanswered = false
	if r.Code == wire.CodeOK {
		c.succeeded(now, i, r)
	} else {
		c.rejected(now, i, r)
	}
	switch {
	case c.mode == failing && !c.Unanswered():
		c.endWait(now)
	case c.mode == settling:
		c.settleNext(now)
	}
	c.pump(now)
}

func (c *Core) find(base batchfmt.Seq) int {
	for i, b := range c.queue {
		if b.Base == base && b.dropped == nil {
			return i
		}
	}
	return -1
}

func (c *Core) succeeded(now time.Time, i int, r *wire.ProduceResult) {
	b := c.queue[i]
	if r.BaseOffset < 0 && !r.Duplicate {
		b.uncertain = true
		c.fail(now, laneError(wire.CodeProtocol, b.Base, -1, "success without an offset"))
		return
	}
	result := *r
	b.stored = &result
	c.retries = 0
	if b.attempts == 1 && !r.Duplicate {
		c.patience.answered(now.Sub(b.sentAt))
	}
	if b.probe && c.mode == recovering {
		c.mode = open
	}
	c.overtake(now, b)
	if planted.AckCompletesEarlier {
		for _, before := range c.queue[:i] {
			before.stored = &result
		}
		c.completeStored()
	}
	if i == 0 && c.hole == noHole {
		c.completeStored()
	}
}

// overtake notes what b has overtaken: the batches before it that were sent before it too and
// have no answer yet.
func (c *Core) overtake(now time.Time, b *Batch) {
	for _, before := range c.queue {
		if before == b {
			return
		}
		if before.unanswered && before.turn < b.turn && before.overtaken.IsZero() {
			before.overtaken = now
		}
	}
}

// completeStored gives their outcome to the batches at the head that have success, and to
// those that were dropped.
func (c *Core) completeStored() {
	for len(c.queue) > 0 && (c.queue[0].stored != nil || c.queue[0].dropped != nil) {
		b := c.pop()
		if b.dropped != nil {
			c.complete(b, Outcome{Fate: NotStored, Cause: b.dropped})
			continue
		}
		// Where a batch was that cannot be read any more is not known exactly.
		if r := b.stored; r.BaseOffset >= 0 && r.Code != wire.CodeBatchUnreadable {
			c.acked = &wire.LanePoint{Sequence: b.Last(), Offset: r.BaseOffset + batchfmt.Offset(b.Count) - 1, Digest: b.Digest}
		}
		c.complete(b, Outcome{Fate: Stored, Result: *b.stored})
	}
}

func (c *Core) pop() *Batch {
	b := c.queue[0]
	c.queue = append(c.queue[:0], c.queue[1:]...)
	return b
}

func (c *Core) complete(b *Batch, o Outcome) {
	c.out = append(c.out, Action{Kind: Complete, Batch: b, Outcome: o})
}

func (c *Core) rejected(now time.Time, i int, r *wire.ProduceResult) {
	b := c.queue[i]
	b.refusal = refusalOf(r)
	switch {
	case storedThere(r):
		result := *r
		result.Duplicate = true
		if r.Code == wire.CodeBatchUnreadable {
			c.succeeded(now, i, &result)
			return
		}
		b.stored = &result
	case r.NotStored:
		b.never = true
	case r.Code.Info().Outcome != wire.NothingHappened:
		b.uncertain = true
	case planted.StickyOff:
		b.uncertain = false
	}
	switch c.mode {
	case failing, settling, raising:
		return
	}
	if i > 0 {
		// It will be asked again when it is the head. Until then nothing new is sent, as
		// it could only be out of order.
		c.mode = recovering
		return
	}
	if r.Code == wire.CodeInvalidProducerEpoch && r.NotStored {
		// A fence has passed, and if it is not for an instance that came after this one, it
		// is for a batch of this very lane that somebody settled. Who holds the producer can
		// raise its epoch.
		c.minEpoch = max(c.minEpoch, batchfmt.Epoch(max(r.Expected, 0)))
		c.cause = b.refusal
		c.fencedOff(now, b.Base-1)
		c.startRaising()
		return
	}
	c.completeStored() // what the answer itself says is stored
	switch decideHead(r.Code, b.asHead, b.uncertain) {
	case resendNow:
		c.mode = recovering
	case resend:
		c.mode = recovering
		c.pause(now, r.RetryAfter)
	case reopen:
		c.giveUpAnswers()
		c.mode = pausing
		c.pause(now, r.RetryAfter)
	case refuse:
		c.leaveHole(now)
	case stop:
		c.startFailing(now, b.refusal)
	}
}

func refusalOf(r *wire.ProduceResult) *wire.Error {
	return &wire.Error{Code: r.Code, RetryAfter: r.RetryAfter, Partition: -1,
		Sequence: int64(r.BaseSequence), Expected: r.Expected, Detail: r.Detail, Offset: -1}
}

// pause keeps the lane from sending, for as long as the server asked or longer each time.
func (c *Core) pause(now time.Time, hint time.Duration) {
	d := min(firstBackoff<<min(c.retries, 10), maxBackoff)
	c.retries++
	c.resumeAt = now.Add(max(c.jitter(d), min(hint, maxBackoff)))
}
