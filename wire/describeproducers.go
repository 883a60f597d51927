package wire

import (
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// DescribeProducers asks what a partition knows of its producers, a page at a time.
//
//	topic id 16, partition i32, producer id u64, after u64, limit u32
type DescribeProducers struct {
	TopicID    [16]byte
	Partition  int32
	ProducerID batchfmt.ProducerID // only this one; 0 for all
	After      batchfmt.ProducerID // only ids above it
	Limit      uint32              // of lanes in the answer; 0, or more than MaxLanesPerPage, for that many
}

// Kind is KindDescribeProducers.
func (*DescribeProducers) Kind() Kind { return KindDescribeProducers }

func (m *DescribeProducers) appendPayload(b []byte) []byte {
	b = append(b, m.TopicID[:]...)
	b = appendI32(b, m.Partition)
	b = appendU64(b, uint64(m.ProducerID))
	b = appendU64(b, uint64(m.After))
	return appendU32(b, m.Limit)
}

func (m *DescribeProducers) decode(c *cursor) {
	m.TopicID = c.id("topic id")
	m.Partition = c.i32("partition")
	m.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	m.After = batchfmt.ProducerID(c.u64("after"))
	m.Limit = c.u32("limit")
}

// MaxLanesPerPage is how many lanes a server puts into one ProducersDescribed: even the
// largest, with a window of five, stay below the limit of the frame. Readers take what the
// frame's limit lets through.
const MaxLanesPerPage = 1000

// Flags of a LaneInfo.
const (
	laneInfoOpen = 1 << iota
	laneInfoClosed
	laneInfoSuspect
	laneInfoRetired
)

var laneInfoFlags = []string{"open", "closed", "suspect", "retired"}

// LaneInfo is what a partition knows of one producer.
//
//	length u32, producer id u64, name str, epoch u32, last i64, floor i64,
//	last offset i64, confirmed i64,
//	window {count u32, each: length u16, base i64, last i64, offset i64, digest u64},
//	in flight u32, idle u64 (ms), opening u64, flags u8, position bytes
type LaneInfo struct {
	ProducerID batchfmt.ProducerID
	Name       string          // of a producer with a name, the first 255 bytes are sent; else empty
	Epoch      batchfmt.Epoch  // the lowest that the lane takes
	Last       batchfmt.Seq    // last sequence appended; -1 when the lane holds nothing
	Floor      batchfmt.Seq    // first sequence of the present numbering
	LastOffset batchfmt.Offset // of the record with the last sequence; -1 when that is not known
	Confirmed  batchfmt.Seq    // up to here every outcome was given to the application; -1 for none
	Window     []WindowEntry   // the newest batches, oldest first; five at most so far
	InFlight   uint32          // batches that are appended and not durable yet
	Idle       time.Duration   // since the lane was last used, while the server ran; milliseconds on the wire
	Opening    uint64          // of the lane, the newest
	Open       bool            // a stream has the lane open
	Closed     bool            // the producer said that it writes no more
	Suspect    bool            // damage to the log may have hidden batches of the lane
	Retired    bool            // not in memory: the row comes from the table of retired lanes
	Position   []byte          // that the last batch with one carried; none and an empty one are both nil
}

// WindowEntry is a batch that a lane remembers.
type WindowEntry struct {
	Base, Last batchfmt.Seq
	Offset     batchfmt.Offset // of its first record
	Digest     batchfmt.Digest
}

const (
	windowEntryBytes = 2 + 8 + 8 + 8 + 8
	laneInfoBytes    = 4 + 8 + 2 + 4 + 8 + 8 + 8 + 8 + 4 + 4 + 8 + 8 + 1 + 4
)

func (l *LaneInfo) append(b []byte) []byte {
	start, b := openLargeItem(b)
	b = appendU64(b, uint64(l.ProducerID))
	b = appendText(b, l.Name, maxName)
	b = appendU32(b, uint32(l.Epoch))
	b = appendI64(b, int64(l.Last))
	b = appendI64(b, int64(l.Floor))
	b = appendI64(b, int64(l.LastOffset))
	b = appendI64(b, int64(l.Confirmed))
	b = appendU32(b, uint32(len(l.Window)))
	for i := range l.Window {
		b = l.Window[i].append(b)
	}
	b = appendU32(b, l.InFlight)
	b = appendLongMillis(b, l.Idle)
	b = appendU64(b, l.Opening)
	b = append(b, l.flags())
	return closeLargeItem(appendBytes(b, l.Position), start)
}

func (l *LaneInfo) flags() (flags byte) {
	if l.Open {
		flags |= laneInfoOpen
	}
	if l.Closed {
		flags |= laneInfoClosed
	}
	if l.Suspect {
		flags |= laneInfoSuspect
	}
	if l.Retired {
		flags |= laneInfoRetired
	}
	return flags
}

func (e *WindowEntry) append(b []byte) []byte {
	start, b := openItem(b)
	b = appendI64(b, int64(e.Base))
	b = appendI64(b, int64(e.Last))
	b = appendI64(b, int64(e.Offset))
	return closeItem(appendU64(b, uint64(e.Digest)), start)
}

func readLaneInfo(c *cursor) LaneInfo {
	item := c.largeItem("lane")
	l := LaneInfo{
		ProducerID: batchfmt.ProducerID(c.u64("producer id")),
		Name:       c.str("name", maxName),
		Epoch:      batchfmt.Epoch(c.u32("epoch")),
		Last:       batchfmt.Seq(c.i64("last")),
		Floor:      batchfmt.Seq(c.i64("floor")),
		LastOffset: batchfmt.Offset(c.i64("last offset")),
		Confirmed:  batchfmt.Seq(c.i64("confirmed")),
	}
	n := c.list("window", windowEntryBytes)
	l.Window = room(l.Window, n)
	c.items(n, "batch", func() {
		l.Window = append(l.Window, WindowEntry{
			Base:   batchfmt.Seq(c.i64("base")),
			Last:   batchfmt.Seq(c.i64("last")),
			Offset: batchfmt.Offset(c.i64("offset")),
			Digest: c.digest("digest"),
		})
	})
	l.InFlight = c.u32("in flight")
	l.Idle = c.longMillis("idle")
	l.Opening = c.u64("opening")
	flags := c.flags("flags", laneInfoFlags)
	l.Open = flags&laneInfoOpen != 0
	l.Closed = flags&laneInfoClosed != 0
	l.Suspect = flags&laneInfoSuspect != 0
	l.Retired = flags&laneInfoRetired != 0
	l.Position = c.bytes("position", batchfmt.MaxPositionBytes)
	c.leave("lane", item)
	return l
}

// Flags of ProducersDescribed.
const producersMore = 1

var producersFlags = []string{"more"}

// ProducersDescribed answers DescribeProducers, sorted by producer id.
//
//	lanes {count u32, lane info...}, total u32, retired u64, forgotten u64, flags u8
type ProducersDescribed struct {
	Lanes     []LaneInfo
	Total     uint32              // lanes in memory
	Retired   uint64              // rows in the table of retired lanes
	Forgotten batchfmt.ProducerID // ids up to it may be forgotten; 0 when none is
	More      bool                // there are lanes behind the last one: ask again, After its id
}

// Kind is KindProducersDescribed.
func (*ProducersDescribed) Kind() Kind { return KindProducersDescribed }

func (m *ProducersDescribed) appendPayload(b []byte) []byte {
	b = appendU32(b, uint32(len(m.Lanes)))
	for i := range m.Lanes {
		b = m.Lanes[i].append(b)
	}
	var flags byte
	if m.More {
		flags |= producersMore
	}
	b = appendU32(b, m.Total)
	b = appendU64(b, m.Retired)
	b = appendU64(b, uint64(m.Forgotten))
	return append(b, flags)
}

func (m *ProducersDescribed) decode(c *cursor) {
	n := c.list("lanes", laneInfoBytes)
	m.Lanes = room(m.Lanes, n)
	c.each(n, func() { m.Lanes = append(m.Lanes, readLaneInfo(c)) })
	m.Total = c.u32("total")
	m.Retired = c.u64("retired")
	m.Forgotten = batchfmt.ProducerID(c.u64("forgotten"))
	m.More = c.flags("flags", producersFlags)&producersMore != 0
}
