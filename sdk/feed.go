package sdk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// A feed reads one partition. Its goroutine, run, belongs to the consumer; it fetches
// and queues, and Records verifies and decodes. The two share nothing but the queue and
// the link, and each keeps the next offset that it expects.
type feed struct {
	consumer  *Consumer
	partition int
	stopAtEnd bool
	given     atomic.Int64 // offset behind the last record given out

	// run's own.
	from    batchfmt.Offset // where to subscribe next
	end     batchfmt.Offset // with stopAtEnd, once started
	begun   bool
	started chan struct{} // closed when from is an offset, or the feed failed

	// Records' own.
	next   batchfmt.Offset // expected of the next batch; set before started is closed
	reader batchfmt.Reader // for batches that are not compressed
}

// Pauses before a subscription that was refused or lost is opened again.
const (
	firstResubscribe = 10 * time.Millisecond
	maxResubscribe   = 2 * time.Second
)

// run subscribes, again and again, until the end, an error or Close.
func (f *feed) run() {
	c := f.consumer
	for attempt := 0; ; {
		conn, err := c.client.transport.Wait(c.ctx)
		if err != nil {
			f.stop(err)
			return
		}
		progress, err := f.follow(conn)
		switch {
		case c.ctx.Err() != nil:
			f.stop(ErrClosed)
			return
		case err == nil:
			c.end()
			return
		case !mayResubscribe(err):
			f.stop(f.publicError(err))
			return
		}
		if progress {
			attempt = 0
		}
		c.client.logger.Info("subscription is opened again", "topic", c.topic, "partition", f.partition,
			"offset", int64(f.from), "error", err)
		f.pause(attempt)
		attempt++
	}
}

// mayResubscribe reports whether a new subscription at the same offset may go on: after
// every loss, and after refusals that pass.
func mayResubscribe(err error) bool {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return refusal.Code.Info().Retry
	}
	return errors.Is(err, transport.ErrLost)
}

func (f *feed) pause(attempt int) {
	if attempt == 0 {
		return
	}
	timer := time.NewTimer(rand.N(min(firstResubscribe<<min(attempt, 10), maxResubscribe)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.consumer.ctx.Done():
	}
}

// stop ends the feed for good.
func (f *feed) stop(err error) {
	f.consumer.fail(err)
	f.markStarted()
}

func (f *feed) markStarted() {
	if !f.begun {
		f.begun = true
		close(f.started)
	}
}

func (f *feed) publicError(err error) error {
	err = serverError("consume", f.consumer.topic, err)
	var se *ServerError
	if errors.As(err, &se) {
		se.Partition = f.partition
	}
	return err
}

// follow subscribes on conn and queues what comes. Without an error the feed is at its
// end. progress says that batches came.
func (f *feed) follow(conn *transport.Conn) (progress bool, err error) {
	if f.begun && f.stopAtEnd && f.from >= f.end {
		return true, nil
	}
	c := f.consumer
	sub, err := conn.Subscribe(&wire.Subscribe{TopicID: c.topicID, Partition: int32(f.partition),
		From: f.from, StopAtEnd: f.stopAtEnd, Credit: uint32(c.credit)})
	if err != nil {
		return false, err
	}
	// Whatever ends the feed wakes the read below: Close, and a server that drains.
	watch := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-c.ctx.Done():
		case <-conn.Draining():
		case <-watch:
		}
		sub.Close()
	}()
	defer func() { <-done }()
	defer close(watch)
	l := newLink(sub, c.credit)
	for {
		m, err := sub.Next()
		if err != nil {
			return progress, err
		}
		ended, err := f.take(m, l)
		if ended || err != nil {
			return progress, err
		}
		if m.Kind() == wire.KindBatches {
			progress = true
		}
	}
}

// take handles one message of a subscription.
func (f *feed) take(m wire.Message, l *link) (ended bool, err error) {
	switch m := m.(type) {
	case *wire.Subscribed:
		return f.subscribed(m)
	case *wire.EndReached:
		if f.stopAtEnd && f.begun && f.from >= f.end {
			return true, nil
		}
		return false, fmt.Errorf("sdk: consume %q partition %d: the server ended at %d, before the end at %d: %w",
			f.consumer.topic, f.partition, m.Next, f.end, transport.ErrLost)
	case *wire.Batches:
		return f.batches(m, l)
	}
	return false, unexpected("consume", m)
}

func (f *feed) subscribed(m *wire.Subscribed) (ended bool, err error) {
	if f.begun {
		if m.Start > f.from {
			return false, &GapError{f.consumer.topic, f.partition, int64(f.from), int64(m.Start)}
		}
		return false, nil
	}
	f.from, f.next, f.end = m.Start, m.Start, m.HighWatermark
	f.given.Store(int64(m.Start))
	f.markStarted()
	return f.stopAtEnd && f.from >= f.end, nil
}

// batches queues a frame of batches. It looks at their fronts only, to know where to go
// on after a loss; Records verifies them.
func (f *feed) batches(m *wire.Batches, l *link) (ended bool, err error) {
	if !f.begun {
		return false, unexpected("consume", m)
	}
	if !l.received(len(m.Batches)) {
		return false, fmt.Errorf("sdk: consume %q partition %d: the server pushed more than it was allowed to", f.consumer.topic, f.partition)
	}
	from := f.from
	for rest := m.Batches; len(rest) > 0; {
		b, err := batchfmt.Parse(rest)
		if err != nil {
			// Records says it in its place, behind the records in front of it.
			f.consumer.push(&chunk{feed: f, link: l, batches: m.Batches})
			return false, f.corrupt(from, err)
		}
		rest = rest[b.Size():]
		from = max(from, b.NextOffset())
	}
	f.from = from
	f.consumer.push(&chunk{feed: f, link: l, batches: m.Batches})
	return f.stopAtEnd && f.from >= f.end, nil
}

func (f *feed) corrupt(at batchfmt.Offset, err error) error {
	return &CorruptBatchError{f.consumer.topic, f.partition, int64(at), err}
}

// open verifies the batch at the start of b: both checksums, and that it is the one that
// follows.
func (f *feed) open(b []byte) (batchfmt.Batch, error) {
	batch, err := batchfmt.Parse(b)
	if err == nil {
		err = batch.VerifyFront()
	}
	if err == nil {
		err = batch.Verify()
	}
	if err == nil && batch.IsControl() {
		err = errors.New("it is one of the server's own")
	}
	if err != nil {
		return batch, f.corrupt(f.next, err)
	}
	if batch.BaseOffset() > f.next {
		return batch, &GapError{f.consumer.topic, f.partition, int64(f.next), int64(batch.BaseOffset())}
	}
	return batch, nil
}

// read decodes a batch into records that may be kept: their bytes alias the batch, or a
// buffer of its own when it is compressed.
func (f *feed) read(batch batchfmt.Batch) ([]Record, error) {
	reader := &f.reader
	if batch.Codec() != batchfmt.CodecNone {
		reader = new(batchfmt.Reader)
	}
	if err := reader.Reset(batch); err != nil {
		return nil, f.corrupt(f.next, err)
	}
	base, end := batch.BaseOffset(), f.limit()
	wanted := min(batch.NextOffset(), end) - max(base, f.next)
	if wanted <= 0 {
		return nil, nil
	}
	records := make([]Record, 0, wanted)
	for i := batchfmt.Offset(0); reader.Next(); i++ {
		if offset := base + i; offset >= f.next && offset < end {
			records = append(records, f.record(batch, reader.Record(), i))
		}
	}
	if err := reader.Err(); err != nil {
		return nil, f.corrupt(f.next, err)
	}
	f.next = batch.NextOffset()
	return records, nil
}

// limit is the offset at which records are not wanted any more. run wrote end before it
// queued anything.
func (f *feed) limit() batchfmt.Offset {
	if f.stopAtEnd {
		return f.end
	}
	return 1<<63 - 1
}

func (f *feed) record(batch batchfmt.Batch, r *batchfmt.Record, i batchfmt.Offset) Record {
	out := Record{Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp),
		Topic: f.consumer.topic, Partition: f.partition, Offset: int64(batch.BaseOffset() + i)}
	if len(r.Headers) > 0 {
		out.Headers = make([]Header, len(r.Headers))
		for h := range r.Headers {
			out.Headers[h] = Header{Key: string(r.Headers[h].Key), Value: r.Headers[h].Value}
		}
	}
	if batch.ProducerID() != batchfmt.NoProducer {
		out.Producer = ProducerRef{uint64(batch.ProducerID()), uint32(batch.Epoch()), int64(batch.BaseSequence()) + int64(i)}
	}
	return out
}

// A link accounts for the credit of one subscription: the feed's goroutine receives,
// Records consumes.
type link struct {
	sub  *transport.Subscription
	step int // grants are gathered up to this, as each is a packet
	mu   sync.Mutex
	left int // what the server may still push
	owed int // consumed and not granted yet
}

func newLink(sub *transport.Subscription, credit int) *link {
	return &link{sub: sub, step: credit / 4, left: credit}
}

// received reports whether the server had credit for n bytes: the last frame may be
// larger than what was left.
func (l *link) received(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left <= 0 {
		return false
	}
	l.left -= n
	return true
}

// consumed grants what was read out. A grant that fails belongs to a subscription that
// is over; its successor has credit of its own.
func (l *link) consumed(n int) {
	l.mu.Lock()
	l.owed += n
	grant := 0
	if l.owed >= l.step {
		grant, l.owed = l.owed, 0
		l.left += grant
	}
	l.mu.Unlock()
	if grant > 0 {
		_ = l.sub.Grant(grant)
	}
}
