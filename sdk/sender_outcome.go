package sdk

import (
	"errors"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/sdk/internal/planted"
	"github.com/quoin-io/quoin/wire"
)

// complete gives the records of a batch their outcome.
func (s *sender) complete(f *frozen, o lane.Outcome) {
	info := BatchInfo{}
	if len(s.p.client.hooks.ended) > 0 {
		info = s.info(f)
	}
	if f.frame != nil {
		s.recycle(f.frame)
		f.frame = nil
	}
	s.mu.Lock()
	f.ended = true
	told := f.told
	s.mu.Unlock()
	if f.resumed && o.Fate == lane.Unknown && s.p.closing.Load() {
		s.leaveResumed(f)
		return
	}
	s.note(f, &o)
	if o.Fate == lane.Unknown || o.Fate == lane.NotStored && !f.resumed { // what is resumed leads only to an earlier position
		s.stopBehind(s.publicCause(o.Cause))
	}
	if f.resumed {
		s.endResumed(f, &o)
		s.tellEnded(info, &o)
		return
	}
	if told && o.Fate != lane.Unknown && !s.p.plain() {
		s.p.settled(&f.token, s.resolutionOf(f, &o))
	}
	out := &outcome{records: f.records}
	switch o.Fate {
	case lane.Stored:
		out.first = Ack{Topic: s.p.topic, Partition: s.partition, Offset: int64(o.Result.BaseOffset),
			Sequence: int64(f.Base), Duplicate: o.Result.Duplicate, Verified: o.Result.Verified,
			Provisional: o.Result.Provisional, Timings: o.Result.Timings}
		if o.Result.AppendTime != 0 {
			out.first.AppendTime = time.UnixMilli(o.Result.AppendTime)
		}
		if s.p.plain() {
			out.first.Sequence = -1
		}
	case lane.NotStored:
		out.err = s.notStored(o.Cause)
	default:
		out.unknown = s.nowUnknown(f, s.publicCause(o.Cause))
		out.err = out.unknown
	}
	if out.err != nil {
		s.p.failures.Add(int64(f.Count))
	}
	s.tellEnded(info, &o)
	s.endRecords(f.records, out)
}

// tellEnded tells hooks of an outcome.
func (s *sender) tellEnded(info BatchInfo, o *lane.Outcome) {
	for _, h := range s.p.client.hooks.ended {
		var err error
		switch o.Fate {
		case lane.Stored:
		case lane.NotStored:
			err = s.notStored(o.Cause)
		default:
			err = &OutcomeUnknown{Topic: info.Topic, Partition: info.Partition, ProducerID: info.ProducerID, Epoch: info.Epoch,
				Sequence: info.First, Cause: s.publicCause(o.Cause)}
		}
		h.BatchEnded(info, err)
	}
}

// note writes the outcome of a batch into the outbox, before anybody is told. What is not
// stored must be known there for good: without that nobody may be told so, for the batch
// would be sent again after a crash.
func (s *sender) note(f *frozen, o *lane.Outcome) {
	box := s.p.outbox
	if box == nil {
		return
	}
	switch o.Fate {
	case lane.Stored:
		last := lastOffset(o.Result.BaseOffset, f.Count)
		s.mark(f.kept, func(id outbox.ID) error { return box.Stored(id, last) })
	case lane.NotStored:
		if !s.mark(f.kept, box.NotStored) {
			o.Fate = lane.Unknown
		}
	default:
		s.mark(f.kept, box.Unknown)
	}
}

// nowUnknown lists a batch as unknown.
func (s *sender) nowUnknown(f *frozen, cause error) *OutcomeUnknown {
	unknown := s.unknownOf(f, 0)
	unknown.Cause = cause
	a := Abandoned{Topic: unknown.Topic, Partition: unknown.Partition, Records: f.Count, ProducerID: unknown.ProducerID,
		Epoch: unknown.Epoch, First: -1, Last: -1, Cause: cause}
	if token := unknown.token; token != nil {
		s.unknown = append(s.unknown, unsettled{s.p, token, f.kept})
		a.First, a.Last, a.Token = token.first, token.Last(), *token
	}
	s.p.abandon(a)
	return unknown
}

func (p *Producer) abandon(a Abandoned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.abandoned = append(p.mu.abandoned, a)
}

func (s *sender) notStored(cause error) error {
	return &NotStored{Topic: s.p.topic, Partition: s.partition, Cause: s.publicCause(cause)}
}

// publicCause is the reason of a lane as the application sees it. A delivery timeout
// comes with what the partition waited for, when the server said it.
func (s *sender) publicCause(cause error) error {
	switch {
	case errors.Is(cause, lane.ErrGivenUp):
		return errGivenUp
	case errors.Is(cause, lane.ErrNoAnswer):
		return errNoAnswer
	case !errors.Is(cause, lane.ErrDeliveryTimeout):
		return produceCause(cause, s.p.topic, s.partition, s.p.ID())
	}
	refusal := s.waitsFor.Load()
	if refusal == nil {
		return ErrDeliveryTimeout
	}
	return fmt.Errorf("%w; the last refusal: %w", ErrDeliveryTimeout, *refusal)
}

// endRecords hands the outcome out: to a Send at once, as it may stand in a callback, and to
// callbacks through their queue. The room in the buffer is free from here on.
func (s *sender) endRecords(batch *records, o *outcome) {
	s.p.client.stats.ended(o)
	s.p.buffer.release(int64(batch.Bytes))
	hasCallbacks := false
	for i := range batch.Tags {
		tag := &batch.Tags[i]
		if w := tag.wait; w != nil {
			tag.wait = nil
			w.ack, w.err = o.of(i)
			w.done <- struct{}{}
		}
		hasCallbacks = hasCallbacks || tag.fn != nil
	}
	s.mu.Lock()
	s.mu.decided += uint64(len(batch.Tags))
	s.mu.moved.Broadcast()
	s.wakeFlushes()
	s.mu.Unlock()
	if !s.callbacks.put(o, hasCallbacks, s) {
		s.called(o)
	}
}

// expire ends records that waited for the whole delivery timeout and were never sent.
// What was sent is older and has its outcome first; the core sees to it that this is in
// time.
func (s *sender) expire(now time.Time) {
	for s.core.Stopped() == nil && s.core.Idle() {
		s.mu.Lock()
		oldest := s.oldest()
		if oldest.IsZero() || now.Before(oldest.Add(s.p.config.deliveryTimeout)) {
			s.mu.Unlock()
			return
		}
		batch := s.takeOldest()
		s.mu.Unlock()
		s.endUnsent(batch, lane.ErrDeliveryTimeout)
	}
}

// endUnsent ends records that never got a sequence, with why they are refused if they are.
// Everything before them has its outcome.
func (s *sender) endUnsent(batch *records, cause error) {
	if batch.Refused != nil {
		cause = unsendable(batch.Refused)
	}
	s.p.failures.Add(int64(len(batch.Tags)))
	s.stopBehind(s.publicCause(cause))
	s.endRecords(batch, &outcome{records: batch, err: s.notStored(cause)})
}

// refuseFor refuses what comes from now on, before anybody is told of an outcome: a callback
// that hears of a loss may call ContinueAfterLoss.
func (s *sender) refuseFor(cause error) {
	refusing := s.notStored(cause)
	if errors.Is(cause, ErrClosed) || s.p.gone.Load() {
		refusing = ErrClosed
	}
	if planted.ClaimWar && errors.Is(refusing, ErrFenced) {
		_, _ = s.p.client.transport.Do(s.life, &wire.InitProducer{Name: s.p.config.name, Instance: [16]byte(s.p.identity.Key)}, true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refusing == nil {
		s.mu.refusing = refusing
	}
	s.failed.Store(true)
}

// fail ends the lane for good: what was never sent is not stored, and what comes later is
// refused with the reason.
func (s *sender) fail(cause error) {
	s.refuseFor(cause)
	refusing := s.notStored(cause)
	if errors.Is(refusing, ErrFenced) && !s.p.gone.Load() {
		s.p.fenced.Do(func() {
			s.p.client.stats.fences.Add(1)
			s.p.client.events.emit(Event{Kind: EventFenced, Topic: s.p.topic, Partition: s.partition, ProducerID: s.p.ID(), Err: refusing})
		})
	}
	if !errors.Is(cause, ErrClosed) && !s.p.gone.Load() {
		s.p.client.logger.Error("partition takes no more records of this producer", "topic", s.p.topic,
			"partition", s.partition, "producer", s.p.ID(), "error", refusing)
	}
	s.mu.Lock()
	s.mu.room = false
	var left []*records
	for !s.oldest().IsZero() {
		left = append(left, s.takeOldest())
	}
	s.mu.Unlock()
	for _, batch := range left {
		s.endUnsent(batch, cause)
	}
}
