package wire

import "github.com/quoin-io/quoin/batchfmt"

// Places to start from that are not offsets.
const (
	FromEarliest batchfmt.Offset = -2 // the log start
	FromLatest   batchfmt.Offset = -1 // the durable end
)

// MaxCredit bounds the bytes that a subscriber can ask for ahead; a server takes more for
// this much.
const MaxCredit = 256 << 20

// Flags of Subscribe.
const subscribeStopAtEnd = 1

var subscribeFlags = []string{"stop at end"}

// Subscribe asks for the batches of a partition, pushed as they become durable.
//
//	topic id 16, partition i32, from i64, flags u8, credit u32
type Subscribe struct {
	TopicID   [16]byte
	Partition int32
	From      batchfmt.Offset // or FromEarliest, FromLatest
	StopAtEnd bool            // end where the durable end is when the subscription starts
	// Credit is how many bytes of batches the server may push; each Credit frame adds
	// to it. A batch that is larger than what is left is pushed when any is left.
	Credit uint32
}

// Kind is KindSubscribe.
func (*Subscribe) Kind() Kind { return KindSubscribe }

func (m *Subscribe) appendPayload(b []byte) []byte {
	var flags byte
	if m.StopAtEnd {
		flags |= subscribeStopAtEnd
	}
	b = append(b, m.TopicID[:]...)
	b = appendI32(b, m.Partition)
	b = appendI64(b, int64(m.From))
	b = append(b, flags)
	return appendU32(b, m.Credit)
}

func (m *Subscribe) decode(c *cursor) {
	m.TopicID = c.id("topic id")
	m.Partition = c.i32("partition")
	m.From = c.place("from")
	m.StopAtEnd = c.flags("flags", subscribeFlags)&subscribeStopAtEnd != 0
	m.Credit = c.u32("credit")
}

// Subscribed answers Subscribe.
//
//	start i64, log start i64, high watermark i64
type Subscribed struct {
	Start         batchfmt.Offset // where the subscription begins
	LogStart      batchfmt.Offset
	HighWatermark batchfmt.Offset // the durable end
}

// Kind is KindSubscribed.
func (*Subscribed) Kind() Kind { return KindSubscribed }

func (m *Subscribed) appendPayload(b []byte) []byte {
	b = appendI64(b, int64(m.Start))
	b = appendI64(b, int64(m.LogStart))
	return appendI64(b, int64(m.HighWatermark))
}

func (m *Subscribed) decode(c *cursor) {
	m.Start = batchfmt.Offset(c.i64("start"))
	m.LogStart = batchfmt.Offset(c.i64("log start"))
	m.HighWatermark = batchfmt.Offset(c.i64("high watermark"))
}

// Batches pushes whole batches, one behind the other. The first may begin before the
// offset that was asked for.
//
//	high watermark i64, batches bytes
type Batches struct {
	HighWatermark batchfmt.Offset
	Batches       []byte
}

// BatchesHead is the size of what stands before the batches in the payload.
const BatchesHead = 12

// Kind is KindBatches.
func (*Batches) Kind() Kind { return KindBatches }

func (m *Batches) appendPayload(b []byte) []byte {
	return appendBytes(appendI64(b, int64(m.HighWatermark)), m.Batches)
}

// PutBatchesFrame writes frame header and head in front of batches that stand at
// HeaderSize+BatchesHead in b and end with it, at most batchfmt.MaxBatchBytes of them.
func PutBatchesFrame(b []byte, highWatermark batchfmt.Offset) {
	length := len(b) - HeaderSize - BatchesHead
	PutHeader(b, KindBatches, BatchesHead+length)
	head := b[HeaderSize:HeaderSize:len(b)]
	appendU32(appendI64(head, int64(highWatermark)), uint32(length))
}

func (m *Batches) decode(c *cursor) {
	m.HighWatermark = batchfmt.Offset(c.i64("high watermark"))
	m.Batches = c.batches("batches")
}

// Credit allows the server to push more bytes of batches.
//
//	bytes u32
type Credit struct{ Bytes uint32 }

// Kind is KindCredit.
func (*Credit) Kind() Kind                      { return KindCredit }
func (m *Credit) appendPayload(b []byte) []byte { return appendU32(b, m.Bytes) }
func (m *Credit) decode(c *cursor)              { m.Bytes = c.u32("bytes") }

// EndReached ends a subscription that stops at the end.
//
//	next i64
type EndReached struct {
	Next batchfmt.Offset // the offset that the next record will get
}

// Kind is KindEndReached.
func (*EndReached) Kind() Kind                      { return KindEndReached }
func (m *EndReached) appendPayload(b []byte) []byte { return appendI64(b, int64(m.Next)) }
func (m *EndReached) decode(c *cursor)              { m.Next = batchfmt.Offset(c.i64("next")) }
