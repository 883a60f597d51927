package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/wire"
)

// recordOverhead is what a record counts against MaxBuffered besides its own bytes.
const recordOverhead = 64

// A Producer sends records to one topic. All its methods may be called from several
// goroutines, and from callbacks.
//
// Records that one goroutine sends to one partition are stored in that order, each once,
// whatever is lost on the way; or their outcome says what is not known.
type Producer struct {
	client   *Client
	topic    string
	topicID  [16]byte
	config   producerConfig
	identity wire.ProducerInited // its epoch is the first one; zero of a plain producer
	epoch    *epoch
	key      unique.Handle[string] // of the identity, for tokens
	limit    atomic.Int64          // bytes of a batch; see learn
	most     int                   // of that, whatever the topic takes
	home     func(key uint64) (carrier, <-chan struct{})

	senders atomic.Pointer[senderSlots] // see slots
	sticky  atomic.Int64                // partition of records without a key
	clock   *clock                      // of records that are given one by one
	buffer  buffer
	batches sync.Pool // of *batcher.Batch[delivery]
	frames  sync.Pool // of *[]byte

	mu struct {
		sync.Mutex
		closing   bool // no sender is made any more
		abandoned []Abandoned
		position  []byte    // see Position
		past      []*sender // of lanes that went on after a loss; their callbacks may not have returned
	}
	outbox    *outbox.Outbox // nil for none
	found     OutboxFound    // in it
	fenced    sync.Once      // another instance holds the name: that is told once
	failures  atomic.Int64   // records that did not end as stored
	closing   atomic.Bool
	gone      atomic.Bool   // the server is told that the producer is gone
	closed    chan struct{} // closed when Close is done
	abandoned []Abandoned   // of Close; set before closed is closed
	err       error         // likewise
}

// An Abandoned is a batch of records whose outcome is unknown. What plain producers leave
// has no identity: their First and Last are -1, and there is no token.
type Abandoned struct {
	Topic       string
	Partition   int
	Records     int
	ProducerID  uint64
	Epoch       uint32
	First, Last int64 // sequences
	Cause       error
	Token       Token // for [Client.Resolve]
}

// delivery is whom a record belongs to: a callback, a Send that waits, or nobody.
type delivery struct {
	fn   func(Ack, error)
	wait *waiter
}

// waiter is where a Send waits. It is reused after its outcome was taken, and left to
// the collector when nobody took it.
type waiter struct {
	done   chan struct{} // capacity 1
	ack    Ack
	err    error
	sender *sender                // of the partition that the record went to
	cost   int64                  // what it takes of the buffer
	ticket uint64                 // of the record, see sender
	frozen atomic.Pointer[frozen] // the batch that the record is in, once it is frozen
	record int                    // its place in there; set before frozen
}

// await returns the outcome, or what is to be said without one when ctx ends.
func (w *waiter) await(ctx context.Context) (Ack, error) {
	select {
	case <-w.done:
	case <-ctx.Done():
		if err := w.sender.giveUp(w, context.Cause(ctx)); err != nil {
			return Ack{}, err
		}
		<-w.done // both at once: the outcome counts
	}
	ack, err := w.ack, w.err
	w.reuse()
	return ack, err
}

func (w *waiter) reuse() {
	w.ack, w.err, w.sender = Ack{}, nil, nil
	w.frozen.Store(nil)
	waiters.Put(w)
}

var waiters = sync.Pool{New: func() any { return &waiter{done: make(chan struct{}, 1)} }}

// plain reports whether the producer has no identity.
func (p *Producer) plain() bool { return p.identity.ProducerID == batchfmt.NoProducer }

// Name is the name of the producer, see [ProducerBuilder.Named]; empty without one.
func (p *Producer) Name() string { return p.config.name }

// ID is the producer id; 0 of a plain producer.
func (p *Producer) ID() uint64 { return uint64(p.identity.ProducerID) }

// Epoch is the producer epoch; 0 of a plain producer. It rises when a batch was settled as not stored, and with
// [Producer.ContinueAfterLoss].
func (p *Producer) Epoch() uint32 { return uint32(p.epoch.current()) }

// Send sends a record and waits for its outcome. r and what it points to may be reused
// when Send returns.
//
// ctx bounds the wait for room in the buffer: when it ends before there is any, the error
// is a *[BufferFullError]; when it is over from the start, nothing is accepted. Once the
// record is accepted, it has its outcome within the delivery timeout. When ctx ends while
// Send waits, Send returns at once with the reason of ctx in one of two: a *[NotStored] when
// the record was not handed to the network yet, which it then never is; else an
// *[OutcomeUnknown]. Of that its batch is not sent again: the answer that is on its way
// decides, and if that is lost, the batch is settled. The result comes as an [EventSettled].
func (p *Producer) Send(ctx context.Context, r Record) (Ack, error) {
	w := waiters.Get().(*waiter)
	if err := p.accept(ctx, &r, delivery{wait: w}); err != nil {
		w.reuse()
		return Ack{}, err
	}
	return w.await(ctx)
}

// SendAsync accepts a record and returns; fn is called once with its outcome, and may be
// nil. r and what it points to may be reused when SendAsync returns. ctx bounds the wait
// for room in the buffer, see [BufferFullError], and nothing else. When SendAsync returns
// an error the record was not accepted and fn is not called.
//
// Callbacks of a partition are called in the order of its records, on a goroutine of
// their own for each partition. They may call anything, but a slow one holds up those
// behind it, and outcomes that wait for their callback are not bounded by MaxBuffered.
func (p *Producer) SendAsync(ctx context.Context, r Record, fn func(Ack, error)) error {
	return p.accept(ctx, &r, delivery{fn: fn})
}

// TrySend is SendAsync that does not wait: without room in the buffer it returns a
// *[BufferFullError] at once, and the record was not accepted.
func (p *Producer) TrySend(r Record, fn func(Ack, error)) error {
	if p.config.position != nil {
		return p.tryItem(r, fn)
	}
	now, millis := p.clock.now()
	record, cost, err := p.prepare(&r, millis)
	if err != nil {
		return err
	}
	partition, sticky, err := p.choosePartition(&r)
	if err != nil {
		return err
	}
	switch ok, err := p.buffer.try(cost); {
	case err != nil:
		return err
	case !ok:
		p.pressure()
		return p.fullError(nil)
	}
	return p.place(partition, &record, cost, delivery{fn: fn}, now, sticky)
}

// accept puts a record into the batch of its partition, once there is room in the buffer.
func (p *Producer) accept(ctx context.Context, r *Record, d delivery) error {
	if p.config.position != nil {
		return p.acceptItem(ctx, []Record{*r}, []delivery{d})
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now, millis := p.clock.now()
	record, cost, err := p.prepare(r, millis)
	if err != nil {
		return err
	}
	partition, sticky, err := p.choosePartition(r)
	if err != nil {
		return err
	}
	if err := p.buffer.acquire(ctx, cost, p.pressure); err != nil {
		return p.bufferError(ctx, err)
	}
	return p.place(partition, &record, cost, d, now, sticky)
}

// prepare makes what is encoded of a record, millis after 1970 if it has no time of its own, and
// says what it takes of the buffer.
func (p *Producer) prepare(r *Record, millis int64) (record batchfmt.Record, cost int64, err error) {
	record.Key, record.Value, record.Timestamp = r.Key, r.Value, millis
	if !r.Timestamp.IsZero() {
		record.Timestamp = r.Timestamp.UnixMilli()
	}
	if len(r.Headers) > 0 {
		record.Headers = make([]batchfmt.Header, len(r.Headers))
		for i, h := range r.Headers {
			record.Headers[i] = batchfmt.Header{Key: []byte(h.Key), Value: h.Value}
		}
	}
	cost = int64(costOf(&record))
	if limit := p.limit.Load(); cost > limit {
		// Far too large: say so now, and not after waiting for an empty buffer.
		if size := batchfmt.RecordBytes(&record) + p.config.batchHead(); size > int(limit) {
			return record, cost, &RecordTooLargeError{Bytes: size, Limit: int(limit)}
		}
	}
	return record, cost, nil
}

// costOf is what a record takes of the buffer.
func costOf(r *batchfmt.Record) int {
	cost := len(r.Key) + len(r.Value) + recordOverhead
	for i := range r.Headers {
		cost += len(r.Headers[i].Key) + len(r.Headers[i].Value) + recordOverhead
	}
	return cost
}

// place gives a record, for which there is room, to the sender of its partition.
func (p *Producer) place(partition int, record *batchfmt.Record, cost int64, d delivery, now time.Time, sticky bool) error {
	for {
		s, err := p.sender(partition)
		if err == nil {
			err = s.add(record, cost, d, now, sticky)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errMoveOn):
			partition = p.moveOn(partition)
			continue
		}
		p.buffer.release(cost)
		return err
	}
}

// bufferError says why there was no room while ctx lived.
func (p *Producer) bufferError(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return p.fullError(err)
}

// fullError says that there is no room, and what the partitions wait for.
func (p *Producer) fullError(err error) *BufferFullError {
	full := &BufferFullError{Topic: p.topic, MaxBuffered: p.buffer.max, InUse: p.buffer.inUse(), Err: err}
	for _, slot := range p.slots() {
		if s := slot.Load(); s != nil && full.Reason == nil {
			if refusal := s.waitsFor.Load(); refusal != nil {
				full.Reason = *refusal
			}
		}
	}
	if conn, _ := p.client.transport.Current(); conn == nil && full.Reason == nil {
		full.Reason = errNotConnected
	}
	return full
}

// pressure sends what lingers when the buffer is full.
func (p *Producer) pressure() {
	for _, slot := range p.slots() {
		if s := slot.Load(); s != nil {
			s.flush()
		}
	}
}

// sender returns the sender of a partition and starts it when it is the first time.
func (p *Producer) sender(partition int) (*sender, error) {
	slot := p.slots()[partition]
	if s := slot.Load(); s != nil {
		return s, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closing {
		return nil, ErrClosed
	}
	if s := slot.Load(); s != nil {
		return s, nil
	}
	s := newSender(p, partition, nil, nil)
	slot.Store(s)
	return s, nil
}

// Flush sends what lingers and waits until every record that was given before has its
// outcome and its callback has returned; called from a callback, it waits for outcomes
// only. It does not report the outcomes: those go to callbacks and to Send.
//
// A callback that waits for another goroutine which calls Flush or Close waits for
// itself: that goroutine is not seen as the callback that started it. It ends when ctx
// does.
func (p *Producer) Flush(ctx context.Context) error { return p.flush(ctx, calledFromCallback()) }

func (p *Producer) flush(ctx context.Context, inCallback bool) error {
	var waits []<-chan struct{}
	for _, s := range p.allSenders() {
		if done := s.flushed(inCallback); done != nil {
			waits = append(waits, done)
		}
	}
	for _, done := range waits {
		if !await(ctx, done) {
			return fmt.Errorf("sdk: flush %q: %w", p.topic, context.Cause(ctx))
		}
	}
	return nil
}
