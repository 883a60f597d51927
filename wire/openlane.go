package wire

import "github.com/quoin-io/quoin/batchfmt"

// LanePoint is a place in a lane that was acknowledged.
type LanePoint struct {
	Sequence batchfmt.Seq
	Offset   batchfmt.Offset // of the record with that sequence
	Digest   batchfmt.Digest // of the batch that holds it
}

// Flags of OpenLane.
const (
	laneHasAcked = 1 << iota
	laneHasSent
	laneFresh
)

var laneFlags = []string{"acked", "sent", "fresh"}

// OpenLane opens a lane, the way of one producer into one partition, on the stream that
// it comes on. It may come at any time; the client gives the lane a number that is new
// on this stream. The server finishes or cancels what an older opening of the lane has
// in flight before it answers.
//
//	lane u32, producer id u64, key 16, epoch u32, topic id 16, partition i32, flags u8,
//	acked {sequence i64, offset i64, digest u64}, sent i64
type OpenLane struct {
	Lane       uint32              // stands for the lane in all frames that follow on this stream
	ProducerID batchfmt.ProducerID // 0 opens a plain lane: batches of version 1, of which nothing is remembered
	Key        Secret              // from ProducerInited, a secret; not read in a plain lane, nor is what follows but topic and partition
	Epoch      batchfmt.Epoch
	TopicID    [16]byte
	Partition  int32
	Acked      *LanePoint    // the last record that was acknowledged; nil for none
	Sent       *batchfmt.Seq // the highest sequence ever handed to a network; nil for none
	Fresh      bool          // the holder remembers nothing of this lane
}

// Kind is KindOpenLane.
func (*OpenLane) Kind() Kind { return KindOpenLane }

func (m *OpenLane) appendPayload(b []byte) []byte {
	var flags byte
	var acked LanePoint
	var sent batchfmt.Seq
	if m.Acked != nil {
		flags, acked = flags|laneHasAcked, *m.Acked
	}
	if m.Sent != nil {
		flags, sent = flags|laneHasSent, *m.Sent
	}
	if m.Fresh {
		flags |= laneFresh
	}
	b = appendU32(b, m.Lane)
	b = appendU64(b, uint64(m.ProducerID))
	b = append(b, m.Key[:]...)
	b = appendU32(b, uint32(m.Epoch))
	b = append(b, m.TopicID[:]...)
	b = appendI32(b, m.Partition)
	b = append(b, flags)
	b = appendI64(b, int64(acked.Sequence))
	b = appendI64(b, int64(acked.Offset))
	b = appendU64(b, uint64(acked.Digest))
	return appendI64(b, int64(sent))
}

func (m *OpenLane) decode(c *cursor) {
	m.Lane = c.u32("lane")
	m.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	m.Key = c.secret("key")
	m.Epoch = batchfmt.Epoch(c.u32("epoch"))
	m.TopicID = c.id("topic id")
	m.Partition = c.i32("partition")
	flags := c.flags("flags", laneFlags)
	acked := LanePoint{batchfmt.Seq(c.i64("acked sequence")), batchfmt.Offset(c.i64("acked offset")), c.digest("acked digest")}
	sent := batchfmt.Seq(c.i64("sent"))
	m.Acked, m.Sent = nil, nil
	if flags&laneHasAcked != 0 {
		m.Acked = &acked
	}
	if flags&laneHasSent != 0 {
		m.Sent = &sent
	}
	m.Fresh = flags&laneFresh != 0
}

// LaneOpened answers OpenLane: where the lane stands in the log, with everything that
// older openings had in flight settled.
//
//	lane u32, last sequence i64, last offset i64, last digest u64, log start i64,
//	max batch bytes u32, position bytes
type LaneOpened struct {
	Lane          uint32
	LastSequence  batchfmt.Seq    // -1 when the lane holds nothing
	LastOffset    batchfmt.Offset // of that record; -1 when the lane holds nothing
	LastDigest    batchfmt.Digest // of the batch that holds it
	LogStart      batchfmt.Offset
	MaxBatchBytes uint32 // of the topic
	Position      []byte // that the last batch with one carried; none and an empty one are both nil
}

// Kind is KindLaneOpened.
func (*LaneOpened) Kind() Kind { return KindLaneOpened }

func (m *LaneOpened) appendPayload(b []byte) []byte {
	b = appendU32(b, m.Lane)
	b = appendI64(b, int64(m.LastSequence))
	b = appendI64(b, int64(m.LastOffset))
	b = appendU64(b, uint64(m.LastDigest))
	b = appendI64(b, int64(m.LogStart))
	b = appendU32(b, m.MaxBatchBytes)
	return appendBytes(b, m.Position)
}

func (m *LaneOpened) decode(c *cursor) {
	m.Lane = c.u32("lane")
	m.LastSequence = batchfmt.Seq(c.i64("last sequence"))
	m.LastOffset = batchfmt.Offset(c.i64("last offset"))
	m.LastDigest = c.digest("last digest")
	m.LogStart = batchfmt.Offset(c.i64("log start"))
	m.MaxBatchBytes = c.u32("max batch bytes")
	m.Position = c.bytes("position", batchfmt.MaxPositionBytes)
}

// LaneRefused answers OpenLane when the lane cannot be opened, and ends an open lane
// that lost its right; the stream and its other lanes go on.
//
//	lane u32, length u16, error
type LaneRefused struct {
	Lane uint32
	Err  Error
}

// Kind is KindLaneRefused.
func (*LaneRefused) Kind() Kind { return KindLaneRefused }

func (m *LaneRefused) appendPayload(b []byte) []byte {
	return m.Err.appendItem(appendU32(b, m.Lane))
}

func (m *LaneRefused) decode(c *cursor) {
	m.Lane = c.u32("lane")
	m.Err.decodeItem(c)
}
