package wire

import "github.com/quoin-io/quoin/batchfmt"

// ExplainProducers asks why a partition answered its producers as it did.
//
//	topic id 16, partition i32, producer id u64, limit u32
type ExplainProducers struct {
	TopicID    [16]byte
	Partition  int32
	ProducerID batchfmt.ProducerID // only this one; 0 for all
	Limit      uint32              // the newest so many; 0, or more than MaxDecisions, for that many
}

// Kind is KindExplainProducers.
func (*ExplainProducers) Kind() Kind { return KindExplainProducers }

func (m *ExplainProducers) appendPayload(b []byte) []byte {
	b = append(b, m.TopicID[:]...)
	b = appendI32(b, m.Partition)
	b = appendU64(b, uint64(m.ProducerID))
	return appendU32(b, m.Limit)
}

func (m *ExplainProducers) decode(c *cursor) {
	m.TopicID = c.id("topic id")
	m.Partition = c.i32("partition")
	m.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	m.Limit = c.u32("limit")
}

// MaxDecisions is how many decisions a server puts into one ProducersExplained: even with
// the longest texts they stay below the limit of the frame. Readers take what the frame's
// limit lets through.
const MaxDecisions = 256

// Decision is what a partition made of one batch.
//
//	length u16, time i64, producer id u64, epoch u32, base i64, last i64, row i16,
//	kind str, text str, offset i64
type Decision struct {
	Time       int64 // Unix milliseconds
	ProducerID batchfmt.ProducerID
	Epoch      batchfmt.Epoch  // that the batch is sealed with
	Base, Last batchfmt.Seq    // of the batch
	Row        int16           // of the table of decisions; negative when none of its rows was met
	Kind       string          // such as "accept" or "duplicate"; the first 255 bytes are sent
	Text       string          // the reason in words; at most 2 KiB are sent
	Offset     batchfmt.Offset // of the batch, or of what stands in its way; -1 when that is not known
}

const decisionBytes = 2 + 8 + 8 + 4 + 8 + 8 + 2 + 2 + 2 + 8

func (d *Decision) append(b []byte) []byte {
	start, b := openItem(b)
	b = appendI64(b, d.Time)
	b = appendU64(b, uint64(d.ProducerID))
	b = appendU32(b, uint32(d.Epoch))
	b = appendI64(b, int64(d.Base))
	b = appendI64(b, int64(d.Last))
	b = appendI16(b, d.Row)
	b = appendText(b, d.Kind, maxName)
	b = appendText(b, d.Text, maxDetail)
	return closeItem(appendI64(b, int64(d.Offset)), start)
}

func readDecision(c *cursor) Decision {
	return Decision{
		Time:       c.moment("time"),
		ProducerID: batchfmt.ProducerID(c.u64("producer id")),
		Epoch:      batchfmt.Epoch(c.u32("epoch")),
		Base:       batchfmt.Seq(c.i64("base")),
		Last:       batchfmt.Seq(c.i64("last")),
		Row:        c.i16("row"),
		Kind:       c.str("kind", maxName),
		Text:       c.str("text", maxDetail),
		Offset:     batchfmt.Offset(c.i64("offset")),
	}
}

// ProducersExplained answers ExplainProducers with the newest decisions that the partition
// remembers, the newest last.
//
//	decisions {count u32, decision...}
type ProducersExplained struct{ Decisions []Decision }

// Kind is KindProducersExplained.
func (*ProducersExplained) Kind() Kind { return KindProducersExplained }

func (m *ProducersExplained) appendPayload(b []byte) []byte {
	b = appendU32(b, uint32(len(m.Decisions)))
	for i := range m.Decisions {
		b = m.Decisions[i].append(b)
	}
	return b
}

func (m *ProducersExplained) decode(c *cursor) {
	n := c.list("decisions", decisionBytes)
	m.Decisions = room(m.Decisions, n)
	c.items(n, "decision", func() { m.Decisions = append(m.Decisions, readDecision(c)) })
}
