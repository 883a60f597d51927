package sdk

import (
	"errors"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/wire"
)

// run is the goroutine of a sender: it carries everything that happened to the core,
// does what the core asks for, and sleeps until the next thing happens.
func (s *sender) run() {
	defer close(s.done)
	defer s.callbacks.finish()
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
	if cause := s.stopCause(); cause != nil {
		s.core.Stop(now, cause)
		s.perform()
		return nil
	}
	changed = s.keepConnected(now)
	s.core.Tick(now)
	s.perform()
	s.expire(now)
	s.sendDue()
	return changed
}

func (s *sender) stopCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stopping
}

func (s *sender) takeInbox(now time.Time) {
	s.taken = s.inbox.swap(s.taken)
	answered := false
	for i := range s.taken {
		e := &s.taken[i]
		switch {
		case e.opening != s.opening || s.handle.Load() == nil:
		case e.opened != nil:
			s.core.Opened(now, e.opened)
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
			Expected: r.Expected, Detail: r.Detail})
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

// keepConnected moves the lane to a new connection when the one that it has is over or
// drains, but only when there is something to send: an idle lane costs the server nothing.
func (s *sender) keepConnected(now time.Time) (changed <-chan struct{}) {
	if s.conn != nil {
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
	if s.conn != nil || !s.hasWork() {
		return nil
	}
	conn, changed := s.p.client.transport.Current()
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
	if !s.core.Idle() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.mu.batcher.Empty()
}

// perform does what the core asks for. What it does may be an event for the core, so it
// goes on until nothing is asked any more.
func (s *sender) perform() {
	for {
		s.actions = append(s.actions[:0], s.core.Actions()...)
		if len(s.actions) == 0 {
			return
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
			}
		}
		clear(s.actions)
	}
}

func (s *sender) open(a *lane.Action) {
	s.dropHandle()
	s.opening++
	id := &s.p.identity
	key := uint64(s.partition)*0x9e3779b97f4a7c15 + uint64(id.ProducerID)
	h, err := s.conn.NewLane(key>>32, opening{s, s.opening})
	if err != nil {
		s.lostHandle(time.Now(), err)
		return
	}
	s.handle.Store(h) // before it writes, so that stop finds it; and stop tells why before it looks
	if s.stopCause() != nil {
		return
	}
	err = h.Open(&wire.OpenLane{
		ProducerID: id.ProducerID, Key: id.Key, Epoch: id.Epoch,
		TopicID: s.p.topicID, Partition: int32(s.partition), Acked: a.Acked, Sent: a.Sent,
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
	oldest := s.mu.batcher.Oldest()
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
	if f.firstSend == 0 {
		f.firstSend = time.Now().UnixMilli()
	}
	err := h.Produce(*f.frame, wire.Produce{
		Durability: wire.Synced, FirstSend: f.firstSend, ConfirmedThrough: batchfmt.Seq(s.confirmed.Load()),
	}, s.writeUntil())
	now := time.Now()
	if err != nil {
		s.lostHandle(now, err)
		return
	}
	s.core.Written(now, b)
}

// sendDue freezes and sends what is due while the lane has room for it.
func (s *sender) sendDue() {
	for {
		now := time.Now()
		room, idle := s.core.Room(now), s.core.Idle()
		s.mu.Lock()
		s.mu.room, s.mu.idle = room, idle
		if s.core.Stopped() != nil || !room || !s.mu.batcher.Due(now, idle) {
			s.mu.Unlock()
			return
		}
		batch := s.mu.batcher.Take()
		s.mu.Unlock()
		s.freeze(now, batch)
		s.perform()
	}
}

// freeze gives a batch its sequences and its bytes, for good, and sends it.
func (s *sender) freeze(now time.Time, batch *records) {
	frame := s.p.frames.Get().(*[]byte)
	f := &frozen{records: batch, frame: frame}
	f.Base, f.Count = s.core.Next(), len(batch.Tags)
	f.Deadline = batch.First.Add(s.p.config.deliveryTimeout)
	f.Tag = f
	sealed, err := s.seal((*frame)[:0], batch, f.Base)
	*frame = sealed
	if err != nil { // a limit of the format: no sequence is spent
		s.end(batch, &outcome{records: batch, err: s.notStored(err)})
		s.recycle(frame)
		return
	}
	parsed, err := batchfmt.Parse(sealed[frameRoom:])
	if err != nil {
		panic("sdk: a batch that was just sealed cannot be parsed: " + err.Error())
	}
	f.Digest = parsed.Digest()
	s.core.Enqueue(now, &f.Batch)
}

// seal builds the frame: room for its head, then the batch. A batch that compression
// made larger than the topic takes is sealed again without.
func (s *sender) seal(frame []byte, batch *records, base batchfmt.Seq) ([]byte, error) {
	var room [frameRoom]byte
	frame = append(frame, room[:]...)
	id := &s.p.identity
	seal := batchfmt.Seal{Version: batchfmt.Version2, Codec: s.p.config.compression.codec(),
		ProducerID: id.ProducerID, Epoch: id.Epoch, BaseSequence: base}
	sealed, err := batch.Builder.Seal(frame, seal)
	if seal.Codec != batchfmt.CodecNone && (err != nil || len(sealed)-frameRoom > s.p.limit) {
		seal.Codec = batchfmt.CodecNone
		sealed, err = batch.Builder.Seal(frame, seal)
	}
	return sealed, err
}

func (c Compression) codec() batchfmt.Codec {
	switch c {
	case Snappy:
		return batchfmt.CodecSnappy
	case Zstd:
		return batchfmt.CodecZstd
	}
	return batchfmt.CodecNone
}

// recycle takes the buffer of a frame back. No write uses it: writes are this
// goroutine's, and a connection keeps nothing of them.
func (s *sender) recycle(frame *[]byte) {
	if cap(*frame) <= keptFrame {
		s.p.frames.Put(frame)
	}
}

// complete gives the records of a batch their outcome.
func (s *sender) complete(f *frozen, o lane.Outcome) {
	s.recycle(f.frame)
	f.frame = nil
	out := &outcome{records: f.records}
	switch o.Fate {
	case lane.Stored:
		out.first = Ack{Topic: s.p.topic, Partition: s.partition, Offset: int64(o.Result.BaseOffset),
			Sequence: int64(f.Base), Duplicate: o.Result.Duplicate, Verified: o.Result.Verified,
			Timings: o.Result.Timings}
		if o.Result.AppendTime != 0 {
			out.first.AppendTime = time.UnixMilli(o.Result.AppendTime)
		}
	case lane.NotStored:
		out.err = s.notStored(o.Cause)
	default:
		cause := s.publicCause(o.Cause)
		out.unknown = &OutcomeUnknown{Topic: s.p.topic, Partition: s.partition, ProducerID: s.p.ID(), Epoch: s.p.Epoch(),
			Sequence: int64(f.Base), Cause: cause}
		out.err = out.unknown
		s.p.abandon(Abandoned{Topic: s.p.topic, Partition: s.partition, ProducerID: s.p.ID(), Epoch: s.p.Epoch(),
			First: int64(f.Base), Last: int64(f.Last()), Cause: cause})
	}
	s.end(f.records, out)
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
	if !errors.Is(cause, lane.ErrDeliveryTimeout) {
		return produceCause(cause, s.p.topic, s.partition, s.p.ID())
	}
	refusal := s.waitsFor.Load()
	if refusal == nil {
		return ErrDeliveryTimeout
	}
	return fmt.Errorf("%w; the last refusal: %w", ErrDeliveryTimeout, *refusal)
}

// end hands the outcome out: to a Send at once, as it may stand in a callback, and to
// callbacks through their queue. The room in the buffer is free from here on.
func (s *sender) end(batch *records, o *outcome) {
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
		oldest := s.mu.batcher.Oldest()
		if oldest.IsZero() || now.Before(oldest.Add(s.p.config.deliveryTimeout)) {
			s.mu.Unlock()
			return
		}
		batch := s.mu.batcher.Take()
		s.mu.Unlock()
		s.end(batch, &outcome{records: batch, err: s.notStored(lane.ErrDeliveryTimeout)})
	}
}

// fail ends the lane for good: what was never sent is not stored, and what comes later is
// refused with the reason.
func (s *sender) fail(cause error) {
	refusing := s.notStored(cause)
	if errors.Is(cause, ErrClosed) {
		refusing = ErrClosed
	} else {
		s.p.client.logger.Error("partition takes no more records of this producer", "topic", s.p.topic,
			"partition", s.partition, "producer", s.p.ID(), "error", refusing)
	}
	s.mu.Lock()
	if s.mu.refusing == nil {
		s.mu.refusing = refusing
	}
	s.mu.room = false
	s.failed.Store(true)
	var left []*records
	for !s.mu.batcher.Empty() {
		left = append(left, s.mu.batcher.Take())
	}
	s.mu.Unlock()
	for _, batch := range left {
		s.end(batch, &outcome{records: batch, err: s.notStored(cause)})
	}
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
	if oldest := s.mu.batcher.Oldest(); !oldest.IsZero() && s.core.Idle() {
		add(oldest.Add(s.p.config.deliveryTimeout))
	}
	return next
}
