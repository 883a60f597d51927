package sdk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"slices"
	"sync"
	"time"
	"unique"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/batcher"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/wire"
)

// Defaults and bounds of a producer's settings; doc.go has the table.
const (
	defaultMaxBuffered     = 64 << 20
	minMaxBuffered         = 1 << 10
	maxMaxBuffered         = 64 << 30
	defaultBatchBytes      = 64 << 10
	maxBatchBytes          = batchfmt.MaxBatchBytes - batchfmt.HeaderSize2
	maxLinger              = time.Minute
	defaultDeliveryTimeout = 2 * time.Minute
	minDeliveryTimeout     = 10 * time.Millisecond
	maxDeliveryTimeout     = 7 * 24 * time.Hour
	maxNameBytes           = 255
)

type producerConfig struct {
	idempotent      bool
	named           bool
	name            string
	position        func(*Record) []byte
	hasOutbox       bool
	outbox          string // its directory
	mayDuplicate    bool
	durability      Durability
	compression     Compression
	maxBuffered     int64
	batchBytes      int
	fixedBatches    bool // batchBytes holds however many batches wait
	linger          time.Duration
	deliveryTimeout time.Duration
	partitioner     func(*Record, int) int
	partition       int // -1 when not fixed
}

// A ProducerBuilder collects the settings of a producer. Build checks them.
type ProducerBuilder struct {
	client *Client
	topic  string
	config producerConfig
}

// Producer begins a producer for one topic.
func (c *Client) Producer(topic string) *ProducerBuilder {
	return &ProducerBuilder{client: c, topic: topic, config: producerConfig{
		maxBuffered: defaultMaxBuffered, batchBytes: defaultBatchBytes,
		deliveryTimeout: defaultDeliveryTimeout, partition: -1,
	}}
}

// Idempotent numbers every record, so that whatever is sent again is stored once. Without
// it the producer is plain: a batch that was handed to the network and has no answer is not
// sent again, as it may be stored already, and ends as [OutcomeUnknown], without a token. A
// plain producer writes batches that readers from before there were idempotent ones can
// read. Prefer Idempotent: it costs 28 bytes a batch, and one request when it is built.
func (b *ProducerBuilder) Idempotent() *ProducerBuilder {
	b.config.idempotent = true
	return b
}

// Named makes the identity of the producer outlive the process: whoever builds a producer
// of this name, anywhere, holds it from then on, with the same id and a higher epoch, and
// goes on where the one before stopped. That one can write no more: its records end with
// [ErrFenced], and it is told by an [EventFenced]. It does not take the name back.
//
// A name has 1 to 255 bytes of UTF-8 without control characters, and is one over all topics
// of the server. Two programs that run at once must not have the same name. Named implies
// Idempotent.
func (b *ProducerBuilder) Named(name string) *ProducerBuilder {
	b.config.idempotent, b.config.named, b.config.name = true, true, name
	return b
}

// RetryMayDuplicate lets a plain producer send again what has no answer, for as long as
// the delivery timeout allows. What is stored twice then is not noticed by anybody. It cannot
// be combined with Idempotent, which needs no such permission.
func (b *ProducerBuilder) RetryMayDuplicate() *ProducerBuilder {
	b.config.mayDuplicate = true
	return b
}

// Durability says how safe a record must be before its outcome is told. Default: [Synced].
// [Written] takes a fraction of the time and has a loss window, see there.
func (b *ProducerBuilder) Durability(d Durability) *ProducerBuilder {
	b.config.durability = d
	return b
}

// Compression compresses batches. Default: [NoCompression].
func (b *ProducerBuilder) Compression(c Compression) *ProducerBuilder {
	b.config.compression = c
	return b
}

// MaxBuffered bounds the bytes of all records that have no outcome yet: keys, values,
// headers and 64 bytes each. When it is reached, Send and SendAsync wait. Default 64 MiB;
// 1 KiB to 64 GiB. More memory rides out longer outages.
func (b *ProducerBuilder) MaxBuffered(bytes int64) *ProducerBuilder {
	b.config.maxBuffered = bytes
	return b
}

// BatchBytes is how many bytes of records fill a batch, before compression; 1 byte to 16 MiB,
// and never more than the topic takes. Default: 64 KiB, and as much again for each full batch
// that waits already, so that a partition which cannot keep up is sent fewer and larger ones.
// Larger batches compress better; smaller ones have their outcome sooner.
func (b *ProducerBuilder) BatchBytes(n int) *ProducerBuilder {
	b.config.batchBytes, b.config.fixedBatches = n, true
	return b
}

// Linger is how long a batch waits for more records before it is sent. Default 0: an
// idle partition sends at once, and a busy one sends with every answer what queued
// meanwhile. Up to one minute; below a millisecond it means a millisecond or so.
func (b *ProducerBuilder) Linger(d time.Duration) *ProducerBuilder {
	b.config.linger = d
	return b
}

// DeliveryTimeout is how long a record is tried to be delivered, counted from when it was
// accepted. Default 2 min; 10 ms to 7 days. A record that was not handed to the network by
// then is not stored. One that was and has no answer is settled, see [Settle], and ends as
// stored or not stored; without an answer to that either, it ends in [OutcomeUnknown]. For
// that there is a grace of a quarter of the timeout, at least 50 ms and at most 5 s: it is
// when a record has its outcome at the latest. Until what became of it is known, nothing
// more is sent to its partition, for the sake of the order.
func (b *ProducerBuilder) DeliveryTimeout(d time.Duration) *ProducerBuilder {
	b.config.deliveryTimeout = d
	return b
}

// Partitioner chooses the partition of each record. Default: see [PartitionForKey];
// records without a key go to one partition batch by batch. fn is called by Send and
// SendAsync, from any goroutine, and must return 0 to partitions-1, or -1 to leave the record
// to the producer like one without a key. See [Murmur2] for the places that Kafka's clients use.
func (b *ProducerBuilder) Partitioner(fn func(r *Record, partitions int) int) *ProducerBuilder {
	b.config.partitioner = fn
	return b
}

// Partition sends every record to this partition.
func (b *ProducerBuilder) Partition(n int) *ProducerBuilder {
	b.config.partition = n
	if n < 0 {
		b.config.partition = -2 // Build names it; -1 means that nothing was chosen
	}
	return b
}

func (c *producerConfig) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.named && (c.name == "" || len(c.name) > maxNameBytes) {
		fault("sdk: Named(%.20q...) has %d bytes, not 1 to %d", c.name, len(c.name), maxNameBytes)
	}
	if c.position != nil && !c.named {
		fault("sdk: Position needs Named: without a name nobody could go on from there")
	}
	if c.hasOutbox && (!c.named || c.outbox == "") {
		fault("sdk: Outbox(%q) needs a directory, and Named: without a name nobody could go on with what is left", c.outbox)
	}
	if c.idempotent && c.mayDuplicate {
		fault("sdk: RetryMayDuplicate is for plain producers: what an Idempotent one sends again is stored once")
	}
	if c.durability > Written {
		fault("sdk: Durability(%d) is not known", c.durability)
	}
	if c.compression > Zstd {
		fault("sdk: Compression(%d) is not known", c.compression)
	}
	if c.maxBuffered < minMaxBuffered || c.maxBuffered > maxMaxBuffered {
		fault("sdk: MaxBuffered(%d) is not %d to %d bytes", c.maxBuffered, minMaxBuffered, int64(maxMaxBuffered))
	}
	if c.batchBytes < 1 || c.batchBytes > maxBatchBytes {
		fault("sdk: BatchBytes(%d) is not 1 to %d bytes", c.batchBytes, maxBatchBytes)
	}
	if c.linger < 0 || c.linger > maxLinger {
		fault("sdk: Linger(%v) is not 0 to %v", c.linger, maxLinger)
	}
	if c.deliveryTimeout < minDeliveryTimeout || c.deliveryTimeout > maxDeliveryTimeout {
		fault("sdk: DeliveryTimeout(%v) is not %v to %v", c.deliveryTimeout, minDeliveryTimeout, maxDeliveryTimeout)
	}
	if c.linger > 0 && c.linger >= c.deliveryTimeout {
		fault("sdk: Linger(%v) is not below DeliveryTimeout(%v)", c.linger, c.deliveryTimeout)
	}
	if c.partition < -1 {
		fault("sdk: Partition is negative")
	}
	if c.partition >= 0 && c.partitioner != nil {
		fault("sdk: Partition and Partitioner exclude each other")
	}
	return errors.Join(faults...)
}

// Build checks the settings, all at once, looks up the topic and gets an idempotent
// producer its id. It goes on through lost connections until ctx ends.
func (b *ProducerBuilder) Build(ctx context.Context) (*Producer, error) {
	if err := b.config.check(); err != nil {
		return nil, err
	}
	seen := b.client.news.count()
	info, err := b.client.topicInfo(ctx, b.topic)
	if err != nil {
		return nil, err
	}
	n := len(info.Partitions)
	switch {
	case n == 0:
		return nil, fmt.Errorf("sdk: topic %q has no partitions", b.topic)
	case b.config.partition >= n:
		return nil, fmt.Errorf("%w: Partition(%d), topic %q has %d", ErrUnknownPartition, b.config.partition, b.topic, n)
	}
	config := b.config
	if config.position != nil {
		if config.partition, err = config.onePartition(b.topic, n); err != nil {
			return nil, err
		}
	}
	conn, err := b.client.transport.Wait(ctx)
	if err != nil {
		return nil, serverError("build producer", b.topic, err)
	}
	hello := conn.Limits()
	version, identity := batchfmt.Version1, &wire.ProducerInited{}
	if b.config.idempotent {
		version = batchfmt.Version2
	}
	if !slices.Contains(hello.BatchVersions, version) {
		return nil, &ServerError{Op: "build producer", Code: wire.CodeVersionUnsupported, Topic: b.topic, Partition: -1,
			Sequence: -1, Expected: -1, Detail: olderSide(hello.BatchVersions, version), Offset: -1, Version: int(version)}
	}
	box, found, err := b.openOutbox(info)
	if err != nil {
		return nil, err
	}
	p, err := b.buildOn(box, func() (*Producer, error) {
		if b.config.idempotent {
			if identity, err = b.init(ctx); err != nil {
				return nil, err
			}
		}
		return newProducer(b, config, info, identity, int(hello.MaxBatchBytes)), nil
	})
	if err != nil {
		return nil, err
	}
	b.client.news.since(seen, info.ID)
	if found != nil {
		p.adopt(found)
	}
	if p.config.position == nil {
		return p, nil
	}
	if err := p.catchUp(ctx); err != nil {
		closing, cancel := context.WithCancel(ctx)
		cancel() // nobody has given it anything
		p.Close(closing)
		return nil, err
	}
	return p, nil
}

// olderSide says who is to be upgraded when the server accepts other batch versions than the
// one that a producer writes.
func olderSide(accepted []batchfmt.Version, writes batchfmt.Version) string {
	side := "upgrade the server"
	if len(accepted) > 0 && slices.Min(accepted) > writes {
		side = "upgrade the client"
	}
	return fmt.Sprintf("the producer writes batches of version %d, the server accepts %v: %s", writes, accepted, side)
}

// buildOn makes the producer with its outbox, if it has one, or closes that.
func (b *ProducerBuilder) buildOn(box *outbox.Outbox, build func() (*Producer, error)) (*Producer, error) {
	p, err := build()
	if err == nil && box != nil {
		if err = box.Bind(p.identity.ProducerID); err != nil {
			err = fmt.Errorf("sdk: outbox %s: %w", b.config.outbox, err)
		}
	}
	if err == nil {
		p.outbox = box
		err = b.client.register(p)
	}
	if err != nil && box != nil {
		err = errors.Join(err, box.Close())
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// init gets the producer id. The instance id is the same in every attempt, so that a
// lost answer does not cost an id.
func (b *ProducerBuilder) init(ctx context.Context) (*wire.ProducerInited, error) {
	request := &wire.InitProducer{Name: b.config.name}
	rand.Read(request.Instance[:])
	reply, err := b.client.do(ctx, "init producer", b.topic, request, true)
	if err != nil {
		return nil, err
	}
	inited, ok := reply.(*wire.ProducerInited)
	if !ok || inited.ProducerID == batchfmt.NoProducer {
		return nil, unexpected("init producer", reply)
	}
	return inited, nil
}

func newProducer(b *ProducerBuilder, config producerConfig, info *wire.TopicInfo, identity *wire.ProducerInited, connLimit int) *Producer {
	p := &Producer{
		client: b.client, topic: b.topic, topicID: info.ID, config: config,
		identity: *identity, epoch: newEpoch(identity.Epoch), key: unique.Make(string(identity.Key[:])), most: batchfmt.MaxBatchBytes,
		buffer: buffer{max: b.config.maxBuffered}, clock: newClock(),
		closed: make(chan struct{}),
	}
	if connLimit > 0 {
		p.most = min(p.most, connLimit)
	}
	p.home = p.networkHome
	slots := senderSlots(nil).grown(len(info.Partitions))
	p.senders.Store(&slots)
	p.limit.Store(int64(p.limitOf(info)))
	p.batches = sync.Pool{New: func() any { return new(batcher.Batch[delivery]) }}
	p.frames = sync.Pool{New: func() any { return new([]byte) }}
	p.sticky.Store(int64(randv2.IntN(len(info.Partitions))))
	return p
}
