package sdk

import (
	"context"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// run is the goroutine of a sender: it carries everything that happened to the core,
// does what the core asks for, and sleeps until the next thing happens.
func (s *sender) run() {
	defer close(s.done)
	defer s.callbacks.finish()
	defer s.leaveUnknown()
	defer s.requests.Wait()
	defer s.end()
	defer s.dropHandle()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		changed := s.step()
		if s.core.Stopped() != nil {
			return
		}
		if at := s.nextWake(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		var lost, draining <-chan struct{}
		if s.conn != nil {
			lost, draining = s.conn.Done(), s.conn.Draining()
			if s.core.Held() {
				draining = nil
			}
		}
		select {
		case <-s.wake:
		case <-timer.C:
		case <-changed:
		case <-lost:
		case <-draining:
		}
	}
}

// step does everything that can be done now. It returns the channel that tells of a new
// connection when one is needed and there is none.
func (s *sender) step() (changed <-chan struct{}) {
	now := time.Now()
	s.takeInbox(now)
	s.takeTold(now)
	if until, cause := s.stopCause(); cause != nil {
		s.watchConn(now)
		s.core.Close(now, cause, until)
		s.core.Tick(now)
		s.perform()
		return nil
	}
	changed = s.keepConnected(now)
	s.core.Tick(now)
	s.perform()
	s.expire(now)
	s.sendDue()
	s.sayConfirmed(now)
	return changed
}

func (s *sender) stopCause() (until time.Time, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.until, s.mu.stopping
}

// takeTold tells the core of batches that a Send gave up. What comes from here on wakes the
// goroutine anew.
func (s *sender) takeTold(now time.Time) {
	s.mu.Lock()
	told := s.mu.told
	s.mu.told, s.mu.woken = nil, false
	s.mu.Unlock()
	for _, f := range told {
		s.core.Tell(now, &f.Batch)
	}
}

func (s *sender) takeInbox(now time.Time) {
	s.taken = s.inbox.swap(s.taken)
	answered := false
	for i := range s.taken {
		e := &s.taken[i]
		switch {
		case e.settled != nil:
			s.settled(now, e.settled)
		case e.raised != nil:
			s.raised(now, e.raised)
		case e.opening != s.opening || s.handle.Load() == nil:
		case e.opened != nil:
			s.sawPosition(e.opened.LastSequence, e.opened.Position)
			s.p.lowerLimit(int64(e.opened.MaxBatchBytes))
			s.core.Opened(now, e.opened)
			s.nowOpen(e.opened)
		case e.refused != nil:
			s.refused(now, e.refused)
		case e.lost != nil:
			s.lostHandle(now, e.lost)
		case e.isResult:
			s.result(now, &e.result)
			answered = true
		}
		s.perform()
	}
	clear(s.taken)
	if answered {
		s.busy = now
		s.mu.Lock()
		s.mu.batcher.Answered()
		s.mu.Unlock()
	}
}

func (s *sender) result(now time.Time, r *wire.ProduceResult) {
	switch {
	case r.Code == wire.CodeOK:
		s.waitsFor.Store(nil)
	case r.Code.Info().Retry && !ownAffair[r.Code]:
		s.throttled(&wire.Error{Code: r.Code, Partition: int32(s.partition), Sequence: int64(r.BaseSequence),
			Expected: r.Expected, Detail: r.Detail, Offset: -1})
	}
	if r.Code == wire.CodeMessageTooLarge {
		s.p.lowerLimit(r.Expected)
	}
	s.core.Result(now, r)
}

// ownAffair are the answers that only tell where the lane stands: nobody makes it wait.
var ownAffair = map[wire.Code]bool{
	wire.CodeOutOfOrder:  true,
	wire.CodeInvalidLane: true,
	wire.CodeSuperseded:  true,
}

func (s *sender) refused(now time.Time, err *wire.Error) {
	s.dropHandle()
	if err.Code == wire.CodeInvalidProducerEpoch && s.p.mayBeOutdated(s.openedAs) {
		// Another lane of this very producer raises the epoch.
		if least := s.openedAs + 1; s.p.epoch.asking.Load() {
			// Or who did has given up waiting, see ContinueAfterLoss: the answer is needed here too.
			s.ask(func(ctx context.Context) inboxEvent {
				_, _ = s.p.raise(ctx, least) // refused for good, it is not outdated any more: the next opening tells
				return inboxEvent{}
			})
		}
		err = wire.Errorf(wire.CodeSuperseded, "%s", err.Detail)
	}
	if err.Code.Info().Retry && !ownAffair[err.Code] {
		s.throttled(err)
	}
	s.core.Refused(now, err)
}

// throttled tells the application that the server makes this partition wait.
func (s *sender) throttled(err *wire.Error) {
	cause := s.publicCause(err)
	s.waitsFor.Store(&cause)
	s.p.client.logger.Debug("produce has to wait", "topic", s.p.topic, "partition", s.partition, "error", cause)
	s.p.client.stats.throttles.Add(1)
	s.p.client.events.emit(Event{Kind: EventThrottled, Topic: s.p.topic, Partition: s.partition, Err: cause})
}

// lostHandle tells a lost stream from a lost connection: on a connection that lives the
// lane is opened again after a pause, so that a server which resets streams is not asked
// without end.
func (s *sender) lostHandle(now time.Time, err error) {
	s.dropHandle()
	select {
	case <-s.conn.Done():
		s.conn = nil
		s.core.Disconnected(now)
		signal(s.wake) // to look for the next one
	default:
		s.core.Refused(now, wire.Errorf(wire.CodeThrottled, "%v", err))
	}
}

func (s *sender) dropHandle() {
	if h := s.handle.Swap(nil); h != nil {
		h.Close()
	}
}

// watchConn leaves a connection that is over, or that drains and has no answers to give.
func (s *sender) watchConn(now time.Time) {
	if s.conn == nil {
		return
	}
	select {
	case <-s.conn.Done():
		s.leave(now)
	case <-s.conn.Draining():
		s.core.Hold()
		if !s.core.Unanswered() {
			s.leave(now)
		}
	default:
	}
}

// keepConnected moves the lane to a new connection when the one that it has is over or
// drains, but only when there is something to send: an idle lane costs the server nothing.
func (s *sender) keepConnected(now time.Time) (changed <-chan struct{}) {
	s.watchConn(now)
	if s.conn != nil || !s.hasWork() {
		return nil
	}
	conn, changed := s.p.home(uint64(s.partition) + uint64(s.p.identity.ProducerID))
	if conn == nil || conn.Err() != nil {
		return changed
	}
	s.conn = conn
	s.core.SetWindow(int(s.conn.Limits().MaxInFlight))
	s.core.Connected(now)
	return nil
}

func (s *sender) leave(now time.Time) {
	s.dropHandle()
	s.conn = nil
	s.core.Disconnected(now)
}

func (s *sender) hasWork() bool {
	if !s.core.Idle() || s.fresh {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.oldest().IsZero()
}

// perform does what the core asks for. What it does may be an event for the core, so it
// goes on until nothing is asked any more.
func (s *sender) perform() {
	for {
		s.actions = append(s.actions[:0], s.core.Actions()...)
		if len(s.actions) == 0 {
			return
		}
		if last := &s.actions[len(s.actions)-1]; last.Kind == lane.Fail {
			s.refuseFor(last.Err)
		}
		for i := range s.actions {
			a := &s.actions[i]
			switch a.Kind {
			case lane.Open:
				s.open(a)
			case lane.Send:
				s.send(a.Batch)
			case lane.Complete:
				s.complete(a.Batch.Tag.(*frozen), a.Outcome)
			case lane.Fail:
				s.fail(a.Err)
			case lane.Settle:
				s.settle(a.Batch)
			case lane.Report:
				s.report(a.Batch.Tag.(*frozen), a.Found)
			case lane.Raise:
				s.raise(a.Epoch)
			case lane.Reseal: // done already, see raised
			}
		}
		clear(s.actions)
	}
}

func (s *sender) open(a *lane.Action) {
	s.dropHandle()
	s.opening++
	s.said = -1
	id := &s.p.identity
	key := uint64(s.partition)*0x9e3779b97f4a7c15 + uint64(id.ProducerID)
	h, err := s.conn.NewLane(key>>32, opening{s, s.opening})
	if err != nil {
		s.lostHandle(time.Now(), err)
		return
	}
	s.handle.Store(h) // before it writes, so that stop finds it; and stop tells why before it looks
	if _, cause := s.stopCause(); cause != nil {
		return
	}
	s.openedAs = s.p.epoch.current()
	s.lastEpoch = max(s.lastEpoch, s.openedAs)
	partition := int32(s.partition)
	if planted.Reroute && s.waitsFor.Load() != nil {
		partition = (partition + 1) % int32(len(s.p.slots()))
	}
	if planted.MemoryOff {
		a.Acked, a.Sent = nil, nil
	}
	err = h.Open(&wire.OpenLane{ // of a plain lane only topic and partition are set
		ProducerID: id.ProducerID, Key: id.Key, Epoch: s.openedAs,
		TopicID: s.p.topicID, Partition: partition, Acked: a.Acked, Sent: a.Sent, Fresh: a.Fresh,
	}, s.writeUntil())
	if err != nil {
		s.lostHandle(time.Now(), err)
	}
}

// writeUntil is when a write is too late: somebody has waited for the delivery timeout.
func (s *sender) writeUntil() time.Time {
	if at := s.core.Deadline(); !at.IsZero() {
		return at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.oldest()
	if oldest.IsZero() {
		oldest = time.Now()
	}
	return oldest.Add(s.p.config.deliveryTimeout)
}

// send hands a batch to the connection. When that fails the core has given up the other
// sends of its list, so they find no handle.
func (s *sender) send(b *lane.Batch) {
	h := s.handle.Load()
	if h == nil {
		return
	}
	f := b.Tag.(*frozen)
	if s.p.outbox != nil {
		if err := s.ready(f); err != nil {
			s.holdBack(err)
			return
		}
	}
	if f.firstSend == 0 {
		f.firstSend = time.Now().UnixMilli()
	}
	head := wire.Produce{Durability: s.p.config.durability.onWire(), FirstSend: f.firstSend, ConfirmedThrough: batchfmt.Seq(s.confirmed.Load())}
	if s.p.plain() {
		head.ConfirmedThrough = f.Base // the result names the batch by it
	}
	err := h.Produce(*f.frame, head, s.writeUntil())
	now := time.Now()
	if err != nil {
		s.lostHandle(now, err)
		return
	}
	s.said, s.busy = max(s.said, head.ConfirmedThrough), now
	s.counted(f)
	if planted.BufferReused {
		s.recycle(f.frame)
	}
	s.core.Written(now, b)
}

// holdBack ends the opening, as the outbox cannot have what is to be sent: the lane tries again
// after a pause.
func (s *sender) holdBack(err error) {
	s.waitsFor.Store(&err)
	s.p.client.logger.Warn("batch not sent: the outbox does not have it", "topic", s.p.topic, "partition", s.partition, "error", err)
	s.dropHandle()
	s.core.Refused(time.Now(), wire.Errorf(wire.CodeThrottled, "%v", err))
}

// parkedPause is how often it is looked whether the outbox has room again.
const parkedPause = 50 * time.Millisecond

// oldest is when the oldest record was accepted that is not frozen, or zero. mu is held.
func (s *sender) oldest() time.Time {
	if s.mu.parked != nil {
		return s.mu.parked.First
	}
	return s.mu.batcher.Oldest()
}

// takeOldest takes the batch of that record, or nil. mu is held.
func (s *sender) takeOldest() *records {
	if parked := s.mu.parked; parked != nil {
		s.mu.parked = nil
		return parked
	}
	return s.mu.batcher.Take()
}

// nextWake is when step has something to do though nothing happened.
func (s *sender) nextWake() time.Time {
	next := s.core.NextTick()
	add := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.room {
		add(s.mu.batcher.LingerEnds())
	}
	if oldest := s.oldest(); !oldest.IsZero() && s.core.Idle() {
		add(oldest.Add(s.p.config.deliveryTimeout))
	}
	if s.mu.parked != nil {
		add(time.Now().Add(parkedPause))
	}
	add(s.quietDue())
	return next
}
