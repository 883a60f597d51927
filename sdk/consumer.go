package sdk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// A Consumer reads the records of a topic. Records of one partition come in the order of
// their offsets, each once; between partitions there is no order.
type Consumer struct {
	client  *Client
	topic   string
	topicID [16]byte
	credit  int
	all     bool // also partitions that come to be later

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	wg        sync.WaitGroup // the feeds' goroutines
	once      sync.Once      // what Close does once
	iterating atomic.Bool

	// What Records holds between two calls. Guarded by iterating.
	chunk   *chunk
	records []Record // of the current batch, those not yet given
	err     error    // what ended the records for good

	mu struct {
		sync.Mutex
		feeds  []*feed  // one a partition, in the order in which they were begun
		ready  []*chunk // in order of arrival; each feed's credit bounds its bytes
		ended  int      // feeds that came to their end
		failed error    // the first error of a feed that had not begun, for Build
	}
	wake chan struct{} // capacity 1: something was added to ready, or a feed ended
}

// A chunk is what arrived in one piece for one partition: whole batches, not verified yet;
// or what ended the partition for good.
type chunk struct {
	feed    *feed
	batches []byte
	pending int   // bytes to be granted again when the current batch was read
	err     error // instead of batches
}

func newConsumer(b *ConsumerBuilder, topicID [16]byte, partitions []int) *Consumer {
	c := &Consumer{client: b.client, topic: b.topic, topicID: topicID, credit: b.credit,
		all: b.partitions == nil && !b.stopAtEnd, wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, n := range partitions {
		c.mu.feeds = append(c.mu.feeds, c.newFeed(n, b.start.from(), b.stopAtEnd))
	}
	for _, f := range c.mu.feeds {
		c.wg.Go(f.run)
	}
	return c
}

func (c *Consumer) newFeed(partition int, from batchfmt.Offset, stopAtEnd bool) *feed {
	return &feed{consumer: c, partition: partition, stopAtEnd: stopAtEnd, from: from, started: make(chan struct{}),
		credit: credit{total: c.credit}}
}

// learn begins to read partitions that the topic did not have before, from their start. Too
// many of them end the consumer: it would seem to read what it does not.
func (c *Consumer) learn(info *wire.TopicInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := len(c.mu.feeds)
	added := len(info.Partitions) - have
	if !c.all || added <= 0 || c.ctx.Err() != nil { // Close waits for those that it knows
		return
	}
	if err := c.client.startReading(added); err != nil {
		c.all = false
		c.failed(nil, fmt.Errorf("sdk: consume %q: %w", c.topic, err))
		return
	}
	for n := have; n < len(info.Partitions); n++ {
		f := c.newFeed(n, wire.FromEarliest, false)
		c.mu.feeds = append(c.mu.feeds, f)
		c.wg.Go(f.run)
	}
}

func (c *Consumer) follows() (name string, id [16]byte) { return c.topic, c.topicID }

// feeds are those of all partitions that are read.
func (c *Consumer) feeds() []*feed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.feeds[:len(c.mu.feeds):len(c.mu.feeds)]
}

// awaitStart waits until every feed knows where it starts.
func (c *Consumer) awaitStart(ctx context.Context) error {
	for _, f := range c.feeds() {
		if await(ctx, f.started) {
			continue
		}
		err := fmt.Errorf("sdk: consume %q: partition %d has not said where it starts: %w", c.topic, f.partition, context.Cause(ctx))
		if reason := f.waitsFor.Load(); reason != nil {
			err = fmt.Errorf("%w; the last attempt: %w", err, *reason)
		}
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.failed
}

// Records gives the records of all partitions as they come. It ends
//
//   - when the loop breaks: the next call goes on behind the last record given;
//   - when ctx ends or the consumer is closed, after the error of that;
//   - with StopAtEnd, when every partition is at its end;
//   - after an error that cannot be mended: a batch that is found corrupt here
//     (*[CorruptBatchError]) or by the server (*[ServerError], with the code
//     CORRUPT_BATCH), offsets that are missing (*[GapError]) or that retention removed
//     before they were read ([ErrOffsetOutOfRange]), a topic that was deleted
//     ([ErrUnknownTopic]), a batch of a version that came later ([ErrBatchVersion]). Every
//     record that arrived before it is given first. Then every later call gives that error
//     again, whichever partition it belongs to.
//
// Lost connections end nothing: reading goes on at the next offset. A record may be kept,
// but it keeps the memory of what arrived with it: about 256 KiB of batches, or one batch
// that is larger, or its own batch when that was compressed. Copy what is kept for long.
// Records must not be called while another call of it runs.
func (c *Consumer) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if !c.iterating.CompareAndSwap(false, true) {
			yield(nil, errors.New("sdk: another call of Records runs on this consumer"))
			return
		}
		defer c.iterating.Store(false)
		for {
			more, err := c.fill(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				return
			}
			for len(c.records) > 0 {
				if ctx.Err() != nil || c.ctx.Err() != nil {
					break // fill says why
				}
				r := &c.records[0]
				c.records = c.records[1:]
				c.chunk.feed.given.Store(r.Offset + 1)
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// fill makes sure that there are records to give, or reports false at the end.
func (c *Consumer) fill(ctx context.Context) (more bool, err error) {
	for {
		switch {
		case c.ctx.Err() != nil:
			return false, ErrClosed
		case c.err != nil:
			return false, c.err
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case len(c.records) > 0:
			return true, nil
		}
		if c.chunk != nil {
			c.err = c.nextBatch()
			continue
		}
		if c.nextChunk(ctx) {
			return false, nil
		}
	}
}

// nextBatch opens the next batch of the chunk, and grants the bytes of the one before.
func (c *Consumer) nextBatch() error {
	k := c.chunk
	if k.err != nil {
		return k.err
	}
	k.feed.credit.consumed(k.pending)
	k.pending = 0
	if len(k.batches) == 0 {
		c.chunk = nil
		return nil
	}
	batch, err := k.feed.open(k.batches)
	if err != nil {
		return err
	}
	k.batches = k.batches[batch.Size():]
	k.pending = batch.Size()
	c.records, err = k.feed.read(batch)
	return err
}

// nextChunk takes the oldest chunk that waits, or waits for one. It reports true at the end
// of all partitions.
func (c *Consumer) nextChunk(ctx context.Context) (ended bool) {
	for {
		c.mu.Lock()
		if len(c.mu.ready) > 0 {
			c.chunk = c.mu.ready[0]
			c.mu.ready[0] = nil
			c.mu.ready = c.mu.ready[1:]
			c.mu.Unlock()
			return false
		}
		ended := c.mu.ended == len(c.mu.feeds)
		c.mu.Unlock()
		if ended {
			return true
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return false // fill says why
		case <-c.ctx.Done():
			return false
		}
	}
}

func (c *Consumer) push(k *chunk) {
	c.mu.Lock()
	c.mu.ready = append(c.mu.ready, k)
	c.mu.Unlock()
	signal(c.wake)
}

// fail queues an error that a feed could not mend, behind what arrived before it.
func (c *Consumer) fail(f *feed, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed(f, err)
}

// failed is fail; mu is held.
func (c *Consumer) failed(f *feed, err error) {
	// What arrived before the error of a feed that has begun is given before it, and not
	// given up by Build.
	if c.mu.failed == nil && (f == nil || !f.begun) {
		c.mu.failed = err
	}
	c.mu.ready = append(c.mu.ready, &chunk{feed: f, err: err})
	signal(c.wake)
}

func (c *Consumer) end() {
	c.mu.Lock()
	c.mu.ended++
	c.mu.Unlock()
	signal(c.wake)
}

// Close stops reading and waits for the consumer's goroutines. A running Records ends
// with [ErrClosed]. It may be called again.
func (c *Consumer) Close() error {
	c.mu.Lock()
	c.cancel() // from here on no feed is begun
	c.mu.Unlock()
	c.wg.Wait()
	c.once.Do(func() {
		c.client.unregister(c)
		c.client.stopReading(len(c.feeds()))
	})
	return nil
}

func (c *Consumer) closeWith(context.Context, bool) error { return c.Close() }

// Position is the offset behind the last record that Records gave of a partition, or
// where it starts; -1 for a partition that the consumer does not read.
func (c *Consumer) Position(partition int) int64 {
	for _, f := range c.feeds() {
		if f.partition == partition {
			return f.given.Load()
		}
	}
	return -1
}
