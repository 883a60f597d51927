package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/lane"
	"github.com/quoin-io/quoin/sdk/internal/planted"
)

// MaxPosition bounds what [ProducerBuilder.Position] stores, in bytes.
const MaxPosition = batchfmt.MaxPositionBytes

// ErrStopped is what a producer with a position says of everything that comes behind a record
// which did not end as stored.
var ErrStopped = errors.New("sdk: the producer stopped at a record that is not stored")

// Position stores with each batch where its source stands behind it, such as an offset in a
// file, and gives the highest one back: [Producer.Position]. So whoever reads the source from
// there and sends what follows stores every record once, whatever crashes in between. Package
// source does all of that.
//
// fn is called by Send, SendAsync, SendBatch and their like, before they return and in the
// order of the records, with the last record of the call; it returns at most [MaxPosition]
// bytes, nil for none. The records of one SendBatch have one position, and come into one
// batch, which the topic must take. Records have to come from one goroutine at a time.
//
// It needs [ProducerBuilder.Named] and a single partition: [ProducerBuilder.Partition], or a
// topic that has one. Build fences the holder before, sends again what is left in the outbox if
// there is one, and returns when all of that has its outcome. A record that does not end as
// stored stops the producer, for what comes behind it would hide the gap: everything later ends
// with [ErrStopped], or with the reason for which the partition takes nothing more, and another
// Build goes on from the position that is stored. Close flushes only up to such a record. For
// the same reason a Send that gives up takes nothing back.
func (b *ProducerBuilder) Position(fn func(last *Record) []byte) *ProducerBuilder {
	b.config.position = fn
	return b
}

// Position is where the source stands behind the last record that was stored under this name
// when the producer was built; nil if nothing with a position was. See
// [ProducerBuilder.Position].
func (p *Producer) Position() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.mu.position)
}

// onePartition is the partition of a producer with a position.
func (c *producerConfig) onePartition(topic string, partitions int) (int, error) {
	switch {
	case c.partition >= 0:
		return c.partition, nil
	case partitions > 1:
		return 0, fmt.Errorf("sdk: Position needs one partition: topic %q has %d, choose one by Partition", topic, partitions)
	}
	return 0, nil
}

// catchUp opens the lane of a producer with a position, and waits until everything that the
// outbox had has its outcome.
func (p *Producer) catchUp(ctx context.Context) error {
	s, err := p.sender(p.config.partition)
	if err != nil {
		return err
	}
	for _, done := range []<-chan struct{}{s.opened, s.adopted} {
		select {
		case <-done:
		case <-s.done:
			return s.refusal()
		case <-ctx.Done():
			return fmt.Errorf("sdk: build producer of %q: its partition is not open yet: %w", p.topic, context.Cause(ctx))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.refusing
}

// sawPosition notes the position of what the server has, and up to which sequence that is.
func (s *sender) sawPosition(through batchfmt.Seq, position []byte) {
	if s.p.config.position == nil || through < s.positioned || planted.PositionLost {
		return
	}
	s.positioned = through
	if position == nil {
		return
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.mu.position = bytes.Clone(position)
}

// stopBehind ends a sender with a position at what was not stored.
func (s *sender) stopBehind(cause error) {
	if s.p.config.position == nil {
		return
	}
	s.mu.Lock()
	if s.mu.refusing == nil { // Close refuses what is new, and still sends what it has
		s.mu.refusing = fmt.Errorf("%w: %w", ErrStopped, cause)
	}
	first := s.mu.stopping == nil
	s.mu.Unlock()
	if first {
		s.stop(ErrStopped, time.Now().Add(s.p.config.deliveryTimeout), false)
	}
}

// positionRoom is what a position takes of a batch at most: its length in front, and up to a
// multiple of 8.
const positionRoom = (4 + MaxPosition + 7) &^ 7

// batchHead is how many bytes of a batch are not for records.
func (c *producerConfig) batchHead() int {
	if c.position != nil {
		return batchfmt.HeaderSize2 + positionRoom
	}
	return batchfmt.HeaderSize2
}

// item is what one call gives a producer with a position.
type item struct {
	records  []given
	tags     []delivery
	bytes    int   // of the records, as a batch counts them
	cost     int64 // of the buffer
	position []byte
}

// maxItemTime bounds timestamps, in milliseconds from 1970, so that any of them are close
// enough for one batch.
const maxItemTime = 1 << 61

func (p *Producer) item(records []Record, now time.Time) (*item, error) {
	it := &item{}
	for i := range records {
		record, cost, err := p.prepare(&records[i], now.UnixMilli())
		if err != nil {
			return nil, err
		}
		if err := batchfmt.CheckRecord(&record); err != nil {
			return nil, tooLarge(err)
		}
		if t := record.Timestamp; t < -maxItemTime || t > maxItemTime {
			return nil, fmt.Errorf("sdk: the timestamp of record %d, %d ms, is not within %d ms of 1970", i, t, int64(maxItemTime))
		}
		it.records = append(it.records, given{record: record, cost: cost, index: i})
		it.bytes += batchfmt.RecordBytes(&record)
		it.cost += cost
	}
	if size, limit := it.bytes+p.config.batchHead(), int(p.limit.Load()); size > limit {
		return nil, &RecordTooLargeError{Bytes: size, Limit: limit}
	}
	last := records[len(records)-1]
	it.position = p.config.position(&last)
	if len(it.position) > MaxPosition {
		return nil, fmt.Errorf("sdk: the position has %d bytes, at most %d are stored", len(it.position), MaxPosition)
	}
	return it, nil
}

// acceptItem puts the records of one call into one batch.
func (p *Producer) acceptItem(ctx context.Context, records []Record, tags []delivery) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	it, err := p.item(records, now)
	if err != nil {
		return err
	}
	it.tags = tags
	if err := p.buffer.acquire(ctx, it.cost, p.pressure); err != nil {
		return p.bufferError(ctx, err)
	}
	return p.placeItem(it, now)
}

func (p *Producer) placeItem(it *item, now time.Time) error {
	s, err := p.sender(p.config.partition)
	if err == nil {
		err = s.addItem(it, now)
	}
	if err != nil {
		p.buffer.release(it.cost)
	}
	return err
}

func (s *sender) addItem(it *item, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refusing != nil {
		return s.mu.refusing
	}
	b := s.mu.batcher
	opened := b.Opened()
	done, err := b.Gather(it.bytes, len(it.records))
	if err != nil {
		return tooLarge(err)
	}
	for i := range it.records {
		if err = s.gather(&it.records[i].record, it.records[i].cost, it.tags[i], now, false); err != nil {
			break
		}
	}
	done()
	if err == nil && it.position != nil {
		b.SetPosition(it.position)
	}
	s.wakeIfDue(opened, now)
	return err
}

// positionOf is that of a batch of the outbox that was just stored.
func (f *frozen) positionOf() []byte {
	if f.records != nil {
		return f.records.Position
	}
	return f.position
}

// resumedStored notes the position of a batch of the outbox that was just stored.
func (s *sender) resumedStored(f *frozen, o *lane.Outcome) {
	if o.Fate == lane.Stored {
		s.sawPosition(f.Last(), f.positionOf())
	}
}

// tryItem is TrySend of a producer with a position.
func (p *Producer) tryItem(r Record, fn func(Ack, error)) error {
	now := time.Now()
	it, err := p.item([]Record{r}, now)
	if err != nil {
		return err
	}
	it.tags = []delivery{{fn: fn}}
	switch ok, err := p.buffer.try(it.cost); {
	case err != nil:
		return err
	case !ok:
		p.pressure()
		return p.fullError(nil)
	}
	return p.placeItem(it, now)
}
