package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// A Start is where a consumer begins to read. The zero value is [Earliest].
type Start struct {
	kind   startKind
	offset int64
}

type startKind uint8

const (
	startEarliest startKind = iota
	startLatest
	startAt
)

// Earliest begins at the oldest record that is kept; Latest behind the newest one as it
// is when the consumer is built.
var (
	Earliest = Start{kind: startEarliest}
	Latest   = Start{kind: startLatest}
)

// At begins at an offset, in every partition that the consumer reads.
func At(offset int64) Start { return Start{kind: startAt, offset: offset} }

func (s Start) from() batchfmt.Offset {
	switch s.kind {
	case startLatest:
		return wire.FromLatest
	case startAt:
		return batchfmt.Offset(s.offset)
	}
	return wire.FromEarliest
}

// Defaults and bounds of a consumer's settings; doc.go has the table.
const (
	defaultCredit = 4 << 20
	minCredit     = 64 << 10
	maxCredit     = wire.MaxCredit
)

// A ConsumerBuilder collects the settings of a consumer. Build checks them.
type ConsumerBuilder struct {
	client     *Client
	topic      string
	start      Start
	partitions []int // nil for all
	stopAtEnd  bool
	credit     int
}

// Consumer begins a consumer of one topic.
func (c *Client) Consumer(topic string) *ConsumerBuilder {
	return &ConsumerBuilder{client: c, topic: topic, credit: defaultCredit}
}

// From is where to begin. Default: [Earliest].
func (b *ConsumerBuilder) From(s Start) *ConsumerBuilder {
	b.start = s
	return b
}

// Partitions reads these partitions, at least one. Default: all that the topic has; those
// that are added to it later are read from their start, unless StopAtEnd is set. The consumers
// of a client read at most 900 at a time.
func (b *ConsumerBuilder) Partitions(numbers ...int) *ConsumerBuilder {
	b.partitions = append(make([]int, 0, len(numbers)), numbers...) // never nil
	return b
}

// StopAtEnd ends the records of each partition where its end is when Build runs. By
// default a consumer waits for more.
func (b *ConsumerBuilder) StopAtEnd() *ConsumerBuilder {
	b.stopAtEnd = true
	return b
}

// Prefetch is how many bytes of batches a partition may have on their way or waiting.
// Default 4 MiB; 64 KiB to 256 MiB. More keeps a long link busy and takes that memory.
func (b *ConsumerBuilder) Prefetch(bytes int) *ConsumerBuilder {
	b.credit = bytes
	return b
}

func (b *ConsumerBuilder) check() error {
	var faults []error
	if b.start.kind == startAt && b.start.offset < 0 {
		faults = append(faults, fmt.Errorf("sdk: From(At(%d)) is negative", b.start.offset))
	}
	if b.credit < minCredit || b.credit > maxCredit {
		faults = append(faults, fmt.Errorf("sdk: Prefetch(%d) is not %d to %d bytes", b.credit, minCredit, maxCredit))
	}
	if b.partitions != nil && len(b.partitions) == 0 {
		faults = append(faults, errors.New("sdk: Partitions: none is named"))
	}
	seen := make(map[int]bool)
	for _, n := range b.partitions {
		if n < 0 || seen[n] {
			faults = append(faults, fmt.Errorf("sdk: Partitions: %d is negative or there twice", n))
		}
		seen[n] = true
	}
	return errors.Join(faults...)
}

// Build checks the settings, all at once, and begins to read: it returns when every
// partition has its place to start from, or with the first error, such as
// [ErrTooManyPartitions] or [ErrOffsetOutOfRange]. It goes on through lost connections
// until ctx ends.
func (b *ConsumerBuilder) Build(ctx context.Context) (*Consumer, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	seen := b.client.news.count()
	info, err := b.client.topicInfo(ctx, b.topic)
	if err != nil {
		return nil, err
	}
	partitions := b.partitions
	if partitions == nil {
		for i := range info.Partitions {
			partitions = append(partitions, i)
		}
	}
	for _, n := range partitions {
		if n >= len(info.Partitions) {
			return nil, fmt.Errorf("%w: %d, topic %q has %d", ErrUnknownPartition, n, b.topic, len(info.Partitions))
		}
	}
	if err := b.client.startReading(len(partitions)); err != nil {
		return nil, fmt.Errorf("sdk: consume %q: %w", b.topic, err)
	}
	c := newConsumer(b, info.ID, partitions)
	if err := b.client.register(c); err != nil {
		c.Close()
		return nil, err
	}
	b.client.news.since(seen, info.ID)
	if err := c.awaitStart(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
