package sdk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// A feed reads one partition. Its goroutine, run, belongs to the consumer; it fetches
// and queues, and Records verifies and decodes. The two share nothing but the queue and
// the credit, and each keeps the next offset that it expects.
type feed struct {
	consumer  *Consumer
	partition int
	stopAtEnd bool
	credit    credit
	given     atomic.Int64          // offset behind the last record given out
	waitsFor  atomic.Pointer[error] // why the last subscription ended

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
	// longSubscription is how long one must last to count as one that works, though
	// nothing came.
	longSubscription = 2 * maxResubscribe
)

// run subscribes, again and again, until the end, an error or Close.
func (f *feed) run() {
	c := f.consumer
	for attempt := 0; ; {
		conn, err := c.client.transport.WaitHome(c.ctx, uint64(f.partition)+uint64(c.topicID[0]))
		if err != nil {
			f.stop(err)
			return
		}
		begun := time.Now()
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
		f.waitsFor.Store(&err)
		if progress || time.Since(begun) >= longSubscription {
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
	return errors.Is(err, transport.ErrLost) || errors.Is(err, transport.ErrNoStream)
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
	f.consumer.fail(f, err)
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
		From: f.from, StopAtEnd: f.stopAtEnd, Credit: uint32(f.credit.begin())})
	if err != nil {
		return false, err
	}
	f.credit.attach(sub)
	defer f.credit.attach(nil)
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
	for {
		m, err := sub.Next()
		if err != nil {
			return progress, err
		}
		ended, err := f.take(m)
		if ended || err != nil {
			return progress, err
		}
		if m.Kind() == wire.KindBatches {
			progress = true
		}
	}
}

// take handles one message of a subscription.
func (f *feed) take(m wire.Message) (ended bool, err error) {
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
		return f.batches(m)
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
func (f *feed) batches(m *wire.Batches) (ended bool, err error) {
	if !f.begun {
		return false, unexpected("consume", m)
	}
	if !f.credit.received(len(m.Batches)) {
		return false, fmt.Errorf("sdk: consume %q partition %d: the server pushed more than it was allowed to", f.consumer.topic, f.partition)
	}
	from := f.from
	for rest := m.Batches; len(rest) > 0; {
		b, err := batchfmt.Parse(rest)
		if err != nil {
			// Records says it in its place, behind the records in front of it.
			f.consumer.push(&chunk{feed: f, batches: m.Batches})
			return false, f.corrupt(from, err)
		}
		rest = rest[b.Size():]
		from = max(from, b.NextOffset())
	}
	f.from = from
	f.consumer.push(&chunk{feed: f, batches: m.Batches})
	return f.stopAtEnd && f.from >= f.end, nil
}

func (f *feed) corrupt(at batchfmt.Offset, err error) error {
	if format, ok := errors.AsType[*batchfmt.FormatError](err); ok && format.Newer {
		err = fmt.Errorf("%w: %w: upgrade the reader", ErrBatchVersion, err)
	}
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
	if wanted <= 0 { // behind the end of a reader that stops there, with more in the frame
		f.next = max(f.next, batch.NextOffset())
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
	f.counted(batch, len(records))
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
