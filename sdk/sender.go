package sdk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/batcher"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// errMoveOn says that a record without a key belongs into another partition.
var errMoveOn = errors.New("another partition's turn")

// frameRoom is what stands in front of a sealed batch, so that it is sent in place.
const frameRoom = wire.HeaderSize + wire.ProduceHead

// keptFrame is the largest frame buffer that is used again.
const keptFrame = 1 << 20

type records = batcher.Batch[delivery]

// A sender is what a producer has for one partition: the batch that gathers, the core of
// the lane, and the one goroutine that freezes, sends and takes answers. The goroutine is
// started by newSender, stopped by stop or by the failure of the lane, and awaited by
// wait.
type sender struct {
	p         *Producer
	partition int
	wake      chan struct{}
	done      chan struct{} // closed when the goroutine ended
	callbacks *callbacks
	failed    atomic.Bool                // mu.failed is set
	confirmed atomic.Int64               // every outcome up to this sequence was given out
	quiet     atomic.Bool                // the goroutine wants to know when confirmed moves
	handle    atomic.Pointer[laneHandle] // the current opening; nil for none
	waitsFor  atomic.Pointer[error]      // the last refusal that only makes it wait; nil after a success
	opened    chan struct{}              // closed when a sender that goes on after a loss was opened
	life      context.Context            // ends with the goroutine
	end       context.CancelFunc
	requests  sync.WaitGroup // of the goroutine, which waits for them

	// Callers and the goroutine share this. Lock order: mu before the pool and buffer.
	mu struct {
		sync.Mutex
		batcher  *batcher.Batcher[delivery]
		moved    sync.Cond // records left the batcher and were frozen, or have their outcome; its lock is mu
		room     bool      // the goroutine could send now
		woken    bool      // it was woken for records, and has not looked since
		idle     bool      // nothing is frozen
		stuck    bool      // records without a key went here since this partition's turn began
		refusing error     // what new records are told; nil while they are taken
		stopping error     // why the goroutine has to end
		until    time.Time // when it has to, whatever is left
		told     []*frozen // that a Send gave up, and the core was not told yet
		parked   *records  // for which the outbox has no room; nil for none
		tickets  uint64    // records that were ever taken; each has one, in order
		accepted uint64    // but for those that were taken back
		decided  uint64    // records with an outcome
		called   uint64    // records whose callback returned too
		flushes  []flushWait
	}

	inbox inbox

	// The goroutine's own.
	core       laneCore
	own        *lane.Core     // core, unless the producer is plain; nil then
	conn       carrier        // nil for none
	positioned batchfmt.Seq   // of what the server has: the sequence whose position is known
	resumed    int            // batches of the outbox without an outcome
	adopted    chan struct{}  // closed when there are none
	fresh      bool           // it goes on where another one was, and has not been open yet
	known      bool           // the outbox knows where the lane ends
	said       batchfmt.Seq   // what of confirmed the server was told in this opening
	busy       time.Time      // when a batch was sent or answered last
	opening    uint64         // number of the current opening
	openedAs   batchfmt.Epoch // in the current opening
	lastEpoch  batchfmt.Epoch // highest that a batch was sealed with, or the lane opened; for others once done is closed
	unknown    []unsettled    // told to be unknown and not settled
	taken      []inboxEvent
	actions    []lane.Action
}

// laneCore is what decides about a lane: a [lane.Core], or a [lane.Plain] without an identity.
type laneCore interface {
	Connected(now time.Time)
	Disconnected(now time.Time)
	Hold()
	Held() bool
	SetWindow(batches int)
	Opened(now time.Time, m *wire.LaneOpened)
	Refused(now time.Time, err *wire.Error)
	Next() batchfmt.Seq
	Room(now time.Time) bool
	Enqueue(now time.Time, b *lane.Batch)
	Written(now time.Time, b *lane.Batch)
	Result(now time.Time, r *wire.ProduceResult)
	Tell(now time.Time, b *lane.Batch)
	Close(now time.Time, cause error, until time.Time)
	Tick(now time.Time)
	NextTick() time.Time
	Actions() []lane.Action
	Idle() bool
	Deadline() time.Time
	Unanswered() bool
	Stopped() error
}

type flushWait struct {
	target     uint64
	ticket     uint64 // the last that it waits for
	inCallback bool
	done       chan struct{}
}

// frozen is a batch with its sequences: the frame that is sent, and whose records it has.
type frozen struct {
	lane.Batch
	sender    *sender
	records   *records
	frame     *[]byte
	firstSend int64  // Unix milliseconds
	position  []byte // of the batch, if it is one of the outbox that was read; nil for none
	resumed   bool   // an earlier process froze it: nobody waits for its records, which are in the outbox alone
	unsynced  bool   // the outbox has not synced it yet
	keepErr   error  // why it is not in the outbox and cannot be sent

	// Guarded by mu of the sender.
	token Token     // what it is sealed as
	kept  outbox.ID // what it is in the outbox
	told  bool      // a Send gave it up: the application knows the token
	ended bool      // it has its outcome
}

// Bounds of the time in which a batch is settled after its delivery timeout.
const (
	graceShare = 4
	minGrace   = 50 * time.Millisecond
	maxGrace   = 5 * time.Second
)

// newSender starts a sender. One that goes on after a loss is given the one before it,
// which has ended; one that an outbox knows is given what that knows.
func newSender(p *Producer, partition int, before *sender, kept *outbox.Lane) *sender {
	s := &sender{p: p, partition: partition, wake: make(chan struct{}, 1), done: make(chan struct{}),
		opened: make(chan struct{}), adopted: make(chan struct{}), positioned: -1, lastEpoch: p.epoch.current()}
	var after <-chan struct{}
	switch {
	case p.plain():
		s.core = lane.NewPlain(p.config.mayDuplicate)
	case before != nil:
		s.own, s.fresh, after = lane.NewFresh(), true, before.callbacks.done
	case kept != nil:
		s.own = s.resume(kept)
	case p.config.named: // the holder before may have written
		s.own, s.fresh = lane.NewFresh(), true
	default:
		s.own = lane.New()
	}
	if s.own != nil {
		s.own.SetGrace(min(max(p.config.deliveryTimeout/graceShare, minGrace), maxGrace))
		s.core = s.own
	}
	if s.resumed == 0 {
		close(s.adopted)
	}
	s.callbacks = newCallbacks(after)
	s.life, s.end = context.WithCancel(context.Background())
	s.confirmed.Store(-1)
	s.mu.idle = true
	s.mu.moved.L = &s.mu
	s.mu.batcher = batcher.New[delivery](batcher.Config{
		BatchBytes: p.config.batchBytes, Adapt: !p.config.fixedBatches, Limit: int(p.limit.Load()), Head: p.config.batchHead(),
		Linger: p.config.linger, Pool: &p.batches, Cost: costOf,
	})
	go s.run()
	return s
}

// add puts a record into the batch that gathers and wakes the goroutine if need be.
func (s *sender) add(r *batchfmt.Record, cost int64, d delivery, now time.Time, sticky bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.mu.batcher.Opened()
	err := s.gather(r, cost, d, now, sticky)
	s.wakeIfDue(opened, now)
	return err
}

// addAll adds records in one go, so that they gather before the first of them is sent. It
// returns how many it took until one could not be added.
func (s *sender) addAll(all []given, now time.Time, sticky bool) (took int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.mu.batcher.Opened()
	for i := range all {
		if err = s.gather(&all[i].record, all[i].cost, delivery{wait: all[i].wait}, now, sticky); err != nil {
			break
		}
		took++
	}
	s.wakeIfDue(opened, now)
	return took, err
}

// wakeIfDue wakes the goroutine if it can do more than before. mu is held.
func (s *sender) wakeIfDue(opened uint64, now time.Time) {
	if s.mu.woken {
		return
	}
	if b := s.mu.batcher; b.Opened() != opened || s.mu.room && b.Due(now, s.mu.idle) {
		s.mu.woken = true
		signal(s.wake)
	}
}

// gather puts a record into the batch that gathers. mu is held.
func (s *sender) gather(r *batchfmt.Record, cost int64, d delivery, now time.Time, sticky bool) error {
	b := s.mu.batcher
	switch {
	case s.mu.refusing != nil && sticky && s.failed.Load() && s.p.anyLaneWorks():
		return errMoveOn
	case s.mu.refusing != nil:
		return s.mu.refusing
	case sticky && s.mu.stuck && !b.Gathering():
		s.mu.stuck = false
		return errMoveOn
	}
	if err := b.Add(r, int(cost), d, now); err != nil {
		return tooLarge(err)
	}
	s.mu.accepted++
	s.mu.tickets++
	if w := d.wait; w != nil {
		w.sender, w.cost, w.ticket = s, cost, s.mu.tickets
	}
	s.mu.stuck = s.mu.stuck || sticky
	return nil
}

// anyLaneWorks reports whether records without a key can go anywhere.
func (p *Producer) anyLaneWorks() bool {
	for i := range p.slots() {
		if !p.laneFailed(i) {
			return true
		}
	}
	return false
}

func (s *sender) flush() {
	s.mu.Lock()
	s.mu.batcher.Flush()
	s.mu.Unlock()
	signal(s.wake)
}

// flushed flushes and returns a channel that is closed when every record so far has its
// outcome and, unless inCallback, its callback returned; nil when that is so already.
func (s *sender) flushed(inCallback bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := flushWait{target: s.mu.accepted, ticket: s.mu.tickets, inCallback: inCallback, done: make(chan struct{})}
	if s.reached(w) || planted.FlushEarly && s.mu.batcher.Empty() {
		return nil
	}
	s.mu.flushes = append(s.mu.flushes, w)
	s.mu.batcher.Flush()
	signal(s.wake)
	return w.done
}

func (s *sender) reached(w flushWait) bool {
	if w.inCallback {
		return s.mu.decided >= w.target
	}
	return s.mu.called >= w.target
}

// wakeFlushes closes the channels of flushes that are done. mu is held.
func (s *sender) wakeFlushes() {
	left := s.mu.flushes[:0]
	for _, w := range s.mu.flushes {
		if s.reached(w) {
			close(w.done)
			continue
		}
		left = append(left, w)
	}
	s.mu.flushes = left
}

// refuse takes no more records.
func (s *sender) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refusing == nil {
		s.mu.refusing = ErrClosed
	}
}

// stop ends the goroutine, once what it has is settled, or at until; with interrupt also
// when it waits in a write. A second call can only make it sooner.
func (s *sender) stop(cause error, until time.Time, interrupt bool) {
	s.mu.Lock()
	if s.mu.stopping == nil {
		s.mu.stopping, s.mu.until = cause, until
	}
	if until.Before(s.mu.until) {
		s.mu.until = until
	}
	s.mu.Unlock()
	if h := s.handle.Load(); h != nil && interrupt {
		h.Interrupt()
	}
	signal(s.wake)
}

// wait waits for the goroutine, and for the callbacks unless it is called from one. It
// reports false when expired comes first; nil never expires.
func (s *sender) wait(inCallback bool, expired <-chan struct{}) bool {
	waits := []<-chan struct{}{s.done, s.callbacks.done}
	if inCallback {
		waits = waits[:1]
	}
	for _, done := range waits {
		select {
		case <-done:
			continue
		default:
		}
		select {
		case <-done:
		case <-expired:
			return false
		}
	}
	return true
}

// giveUp ends a Send that does not wait any more: its record is taken back, if it was not
// frozen yet. It returns what the Send returns; nil when the outcome is there.
func (s *sender) giveUp(w *waiter, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if f := w.frozen.Load(); f != nil {
			return s.giveUpFrozen(f, w.record, cause)
		}
		select {
		case <-w.done:
			w.done <- struct{}{}
			return nil
		default:
		}
		mine := func(d delivery) bool { return d.wait == w }
		switch {
		case s.p.config.position == nil && !planted.CancelLeaves && s.mu.batcher.Remove(int(w.cost), mine):
			s.takenBack(w)
			return &NotStored{Topic: s.p.topic, Partition: s.partition, Cause: cause}
		case s.p.config.position == nil && s.mu.parked != nil && s.mu.parked.Remove(int(w.cost), mine):
			if parked := s.mu.parked; len(parked.Tags) == 0 {
				s.mu.parked = nil
				parked.Reset()
				s.p.batches.Put(parked)
			}
			s.takenBack(w)
			return &NotStored{Topic: s.p.topic, Partition: s.partition, Cause: cause}
		case s.mu.batcher.Holds(mine), s.mu.parked != nil && slices.ContainsFunc(s.mu.parked.Tags, mine): // its position, or timestamps that are ages apart, keep it there
			return &OutcomeUnknown{Topic: s.p.topic, Partition: s.partition, ProducerID: s.p.ID(), Epoch: s.p.Epoch(), Sequence: -1, Cause: cause}
		}
		s.mu.moved.Wait() // the goroutine has it in hand, and frees it in a moment
	}
}

// giveUpFrozen tells that nobody knows the outcome. mu is held; it is not while the outbox
// writes down that the batch is not to be sent again.
func (s *sender) giveUpFrozen(f *frozen, record int, cause error) error {
	unknown := s.tell(f, record)
	switch {
	case unknown == nil:
		return nil
	case planted.CancelFails:
		return &NotStored{Topic: s.p.topic, Partition: s.partition, Cause: cause}
	}
	unknown.Cause = cause
	if s.p.outbox != nil {
		kept := f.kept
		s.mu.Unlock()
		s.mark(kept, s.p.outbox.Unknown)
		s.mu.Lock()
	}
	return unknown
}

// takenBack counts a record that left the batcher without an outcome. mu is held.
func (s *sender) takenBack(w *waiter) {
	s.p.buffer.release(w.cost)
	s.uncount(w)
	s.wakeFlushes()
	w.reuse()
}

// uncount has nobody wait for a record that was taken back. mu is held.
func (s *sender) uncount(w *waiter) {
	s.mu.accepted--
	for i := range s.mu.flushes {
		if f := &s.mu.flushes[i]; w.ticket <= f.ticket {
			f.target--
		}
	}
}

// tell notes that a Send gives up a record of f, and returns what it tells; nil when the
// outcome is there. mu is held.
func (s *sender) tell(f *frozen, record int) *OutcomeUnknown {
	if f.ended {
		return nil
	}
	if !f.told {
		f.told = true
		s.mu.told = append(s.mu.told, f)
		signal(s.wake)
	}
	return s.unknownOf(f, record)
}

// unknownOf is the error for a record of f.
func (s *sender) unknownOf(f *frozen, record int) *OutcomeUnknown {
	if s.p.plain() {
		return &OutcomeUnknown{Topic: s.p.topic, Partition: s.partition, Sequence: -1, Record: record}
	}
	token := f.token
	return &OutcomeUnknown{Topic: token.topic, Partition: token.Partition(), ProducerID: token.producerID, Epoch: token.epoch,
		Sequence: token.first + int64(record), Record: record, token: &token}
}

// confirm notes that every outcome up to a sequence was given out.
func (s *sender) confirm(through batchfmt.Seq) {
	s.confirmed.Store(int64(through))
	if s.quiet.Swap(false) {
		signal(s.wake)
	}
}

// called notes that the callbacks of a batch returned, and takes its memory back.
func (s *sender) called(o *outcome) {
	n := len(o.records.Tags)
	if o.err == nil && o.first.Sequence >= 0 {
		s.confirm(batchfmt.Seq(o.first.Sequence + int64(n) - 1))
	}
	o.records.Reset()
	s.p.batches.Put(o.records)
	s.mu.Lock()
	s.mu.called += uint64(n)
	s.wakeFlushes()
	s.mu.Unlock()
}
