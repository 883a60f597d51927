package sdk

import (
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// A Hook is told what happens to batches, for metrics and traces: it has any of the methods
// of [HookBatchSent], [HookBatchEnded] and [HookBatchReceived]. They are called on the
// goroutines that do the work, several at a time: they must return at once, and must not call
// what waits for those, such as Flush and Close. See [WithHooks].
type Hook any

// A HookBatchSent is told when a batch was handed to the network.
type HookBatchSent interface{ BatchSent(BatchInfo) }

// A HookBatchEnded is told when a batch has its outcome, before its records have theirs. err
// is nil when it is stored.
type HookBatchEnded interface {
	BatchEnded(b BatchInfo, err error)
}

// A HookBatchReceived is told when a consumer has received a batch.
type HookBatchReceived interface{ BatchReceived(BatchInfo) }

// A BatchInfo is what hooks are told of a batch.
type BatchInfo struct {
	Topic      string
	Partition  int
	ProducerID uint64 // 0 of a plain producer
	Epoch      uint32
	First      int64 // sequence of the first record; -1 of a plain producer
	Records    int
	Bytes      int // of the batch as it travels
	Attempt    int // from 1; 0 for what was never handed to the network, and what was received
	// Age is the time since the first record was accepted; 0 of what was received, and of what
	// an outbox had.
	Age time.Duration
}

// WithHooks tells hooks what happens to the client's batches. Default: none.
func WithHooks(hooks ...Hook) DialOption {
	return func(o *dialOptions) {
		for _, h := range hooks {
			if s, ok := h.(HookBatchSent); ok {
				o.hooks.sent = append(o.hooks.sent, s)
			}
			if e, ok := h.(HookBatchEnded); ok {
				o.hooks.ended = append(o.hooks.ended, e)
			}
			if r, ok := h.(HookBatchReceived); ok {
				o.hooks.received = append(o.hooks.received, r)
			}
		}
	}
}

type hooks struct {
	sent     []HookBatchSent
	ended    []HookBatchEnded
	received []HookBatchReceived
}

// info describes a frozen batch.
func (s *sender) info(f *frozen) BatchInfo {
	b := BatchInfo{Topic: s.p.topic, Partition: s.partition, ProducerID: s.p.ID(), Epoch: uint32(f.Epoch), First: int64(f.Base),
		Records: f.Count, Attempt: f.Attempts()}
	if f.frame != nil {
		b.Bytes = len(*f.frame) - frameRoom
	}
	if s.p.plain() {
		b.First = -1
	}
	if f.records != nil && !f.resumed {
		b.Age = time.Since(f.records.First)
	}
	return b
}

// counted counts a batch that was handed to the network, and tells who wants to know.
func (s *sender) counted(f *frozen) {
	c := s.p.client
	c.stats.batchesSent.Add(1)
	c.stats.bytesSent.Add(uint64(len(*f.frame) - frameRoom))
	if f.Attempts() > 1 {
		c.stats.batchesResent.Add(1)
		event := Event{Kind: EventRetry, Topic: s.p.topic, Partition: s.partition, ProducerID: s.p.ID(), Attempt: f.Attempts(), Err: ErrConnectionLost}
		if refusal := f.Refusal(); refusal != nil {
			event.Err = s.publicCause(refusal)
		}
		c.events.emit(event)
	}
	for _, h := range c.hooks.sent {
		h.BatchSent(s.info(f))
	}
}

// counted counts a batch that was received, and tells who wants to know.
func (f *feed) counted(b batchfmt.Batch, records int) {
	c := f.consumer.client
	c.stats.recordsReceived.Add(uint64(records))
	c.stats.bytesReceived.Add(uint64(b.Size()))
	if len(c.hooks.received) == 0 {
		return
	}
	info := BatchInfo{Topic: f.consumer.topic, Partition: f.partition, ProducerID: uint64(b.ProducerID()), Epoch: uint32(b.Epoch()),
		First: int64(b.BaseSequence()), Records: records, Bytes: b.Size()}
	if info.ProducerID == 0 {
		info.First = -1
	}
	for _, h := range c.hooks.received {
		h.BatchReceived(info)
	}
}
