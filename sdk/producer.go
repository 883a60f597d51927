package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
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
	identity wire.ProducerInited
	limit    int // bytes of a batch

	senders senderSlots
	sticky  atomic.Int64 // partition of records without a key
	buffer  buffer
	batches sync.Pool // of *batcher.Batch[delivery]
	frames  sync.Pool // of *[]byte

	mu struct {
		sync.Mutex
		closing   bool // no sender is made any more
		abandoned []Abandoned
	}
	closing   atomic.Bool
	closed    chan struct{} // closed when Close is done
	abandoned []Abandoned   // of Close; set before closed is closed
	err       error         // likewise
}

// An Abandoned is a range of records whose outcome is unknown for good.
type Abandoned struct {
	Topic       string
	Partition   int
	ProducerID  uint64
	Epoch       uint32
	First, Last int64 // sequences
	Cause       error
}

// delivery is whom a record belongs to: a callback, a Send that waits, or nobody.
type delivery struct {
	fn   func(Ack, error)
	wait *waiter
}

// waiter is where a Send waits. It is reused after its outcome was taken, and left to
// the collector when nobody took it.
type waiter struct {
	done chan struct{} // capacity 1
	ack  Ack
	err  error
}

func (w *waiter) take() (Ack, error) {
	ack, err := w.ack, w.err
	w.ack, w.err = Ack{}, nil
	waiters.Put(w)
	return ack, err
}

var waiters = sync.Pool{New: func() any { return &waiter{done: make(chan struct{}, 1)} }}

// ID is the producer id.
func (p *Producer) ID() uint64 { return uint64(p.identity.ProducerID) }

// Epoch is the producer epoch.
func (p *Producer) Epoch() uint32 { return uint32(p.identity.Epoch) }

// Send sends a record and waits for its outcome. r and what it points to may be reused
// when Send returns.
//
// ctx bounds the wait for room in the buffer: when it ends before there is any, the error
// is a *[BufferFullError]; when it is over from the start, nothing is accepted. Once the
// record is accepted it lives until its outcome or the delivery timeout: when ctx ends
// while Send waits, the record goes on and Send returns an *[OutcomeUnknown] that wraps
// the reason of ctx.
func (p *Producer) Send(ctx context.Context, r Record) (Ack, error) {
	w := waiters.Get().(*waiter)
	partition, err := p.accept(ctx, &r, delivery{wait: w})
	if err != nil {
		waiters.Put(w)
		return Ack{}, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		select {
		case <-w.done: // both at once: the outcome counts
			return w.take()
		default:
		}
		return Ack{}, &OutcomeUnknown{Topic: p.topic, Partition: partition, ProducerID: p.ID(), Epoch: p.Epoch(),
			Sequence: -1, Cause: context.Cause(ctx)}
	}
	return w.take()
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
	_, err := p.accept(ctx, &r, delivery{fn: fn})
	return err
}

// accept puts a record into the batch of its partition.
func (p *Producer) accept(ctx context.Context, r *Record, d delivery) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	now := time.Now()
	record := batchfmt.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.UnixMilli()}
	if r.Timestamp.IsZero() {
		record.Timestamp = now.UnixMilli()
	}
	cost := int64(len(r.Key) + len(r.Value) + recordOverhead)
	if len(r.Headers) > 0 {
		record.Headers = make([]batchfmt.Header, len(r.Headers))
		for i, h := range r.Headers {
			record.Headers[i] = batchfmt.Header{Key: []byte(h.Key), Value: h.Value}
			cost += int64(len(h.Key) + len(h.Value) + recordOverhead)
		}
	}
	if cost > int64(p.limit) {
		// Far too large: say so now, and not after waiting for an empty buffer.
		if size := batchfmt.RecordBytes(&record) + batchfmt.HeaderSize2; size > p.limit {
			return 0, &RecordTooLargeError{Bytes: size, Limit: p.limit}
		}
	}
	partition, sticky, err := p.choosePartition(r)
	if err != nil {
		return 0, err
	}
	if err := p.buffer.acquire(ctx, cost, p.pressure); err != nil {
		return partition, p.bufferError(ctx, err)
	}
	for {
		s, err := p.sender(partition)
		if err == nil {
			err = s.add(&record, cost, d, now, sticky)
		}
		switch {
		case err == nil:
			return partition, nil
		case errors.Is(err, errMoveOn):
			partition = p.moveOn(partition)
			continue
		}
		p.buffer.release(cost)
		return partition, err
	}
}

// bufferError says why there was no room while ctx lived.
func (p *Producer) bufferError(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ErrClosed) {
		return err
	}
	full := &BufferFullError{Topic: p.topic, MaxBuffered: p.buffer.max, InUse: p.buffer.inUse(), Err: err}
	for i := range p.senders {
		if s := p.senders[i].Load(); s != nil && full.Reason == nil {
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
	for i := range p.senders {
		if s := p.senders[i].Load(); s != nil {
			s.flush()
		}
	}
}

// sender returns the sender of a partition and starts it when it is the first time.
func (p *Producer) sender(partition int) (*sender, error) {
	if s := p.senders[partition].Load(); s != nil {
		return s, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closing {
		return nil, ErrClosed
	}
	if s := p.senders[partition].Load(); s != nil {
		return s, nil
	}
	s := newSender(p, partition)
	p.senders[partition].Store(s)
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
	for i := range p.senders {
		if s := p.senders[i].Load(); s != nil {
			if done := s.flushed(inCallback); done != nil {
				waits = append(waits, done)
			}
		}
	}
	for _, done := range waits {
		if !await(ctx, done) {
			return fmt.Errorf("sdk: flush %q: %w", p.topic, context.Cause(ctx))
		}
	}
	return nil
}

// closeGrace is how long Close waits, after ctx ended, for its goroutines to end.
const closeGrace = 80 * time.Millisecond

// Close takes no more records, flushes until ctx ends, and then ends what is left: a
// record that was never handed to the network was not stored, and its callback is told
// so; one that was is unknown. Close returns within 100 ms of the end of ctx.
//
// The list holds every range of records whose outcome is unknown, over the whole life of
// the producer; the error is not nil when there is one, or when ctx ended before all was
// flushed. A second Close waits for the first, as long as its own ctx lives, and returns
// the same. Called from a callback, Close does not wait for callbacks, and a second Close
// returns [ErrClosed].
func (p *Producer) Close(ctx context.Context) ([]Abandoned, error) {
	return p.close(ctx, calledFromCallback())
}

func (p *Producer) closeWith(ctx context.Context, inCallback bool) error {
	_, err := p.close(ctx, inCallback)
	return err
}

func (p *Producer) close(ctx context.Context, inCallback bool) ([]Abandoned, error) {
	if p.closing.CompareAndSwap(false, true) {
		p.err = p.finish(ctx, inCallback)
		p.mu.Lock()
		p.abandoned = p.mu.abandoned
		p.mu.Unlock()
		if p.err == nil && len(p.abandoned) > 0 {
			p.err = fmt.Errorf("sdk: close %q: the outcome of %d ranges of records is unknown, the first because of: %w",
				p.topic, len(p.abandoned), p.abandoned[0].Cause)
		}
		p.client.unregister(p)
		close(p.closed)
		return p.abandoned, p.err
	}
	if inCallback {
		select {
		case <-p.closed:
		default: // the first Close may be waiting for this very callback
			return nil, ErrClosed
		}
	}
	if !await(ctx, p.closed) {
		return nil, fmt.Errorf("sdk: close %q, which another call has begun: %w", p.topic, context.Cause(ctx))
	}
	return p.abandoned, p.err
}

// finish flushes, then ends every sender, whatever it has left.
func (p *Producer) finish(ctx context.Context, inCallback bool) error {
	p.mu.Lock()
	p.mu.closing = true
	p.mu.Unlock()
	p.buffer.close()
	var senders []*sender
	for i := range p.senders {
		if s := p.senders[i].Load(); s != nil {
			s.refuse()
			senders = append(senders, s)
		}
	}
	err := p.flush(ctx, inCallback)
	cause := ErrClosed
	if err != nil {
		cause = fmt.Errorf("%w before there was an outcome: %w", ErrClosed, context.Cause(ctx))
	}
	for _, s := range senders {
		s.stop(cause, err != nil)
	}
	var expired <-chan time.Time // without an error nothing is in flight and they end at once
	if err != nil {
		timer := time.NewTimer(closeGrace)
		defer timer.Stop()
		expired = timer.C
	}
	for _, s := range senders {
		if !s.wait(inCallback, expired) {
			return fmt.Errorf("%w; a callback did not return in time", err)
		}
	}
	return err
}
