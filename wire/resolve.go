package wire

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// Flags of Resolve.
const resolveSettle = 1

var resolveFlags = []string{"settle"}

// Resolve asks what became of a batch whose outcome was left open. Without Settle it only
// looks, and what is not stored may still be. With Settle a batch that is not stored never
// will be: the server puts a fence into the log first, which stops all batches of the lane
// that are sealed with this epoch.
//
//	producer id u64, key 16, epoch u32, topic id 16, partition i32, base i64, last i64,
//	digest u64, flags u8
type Resolve struct {
	ProducerID batchfmt.ProducerID // never 0
	Key        Secret              // from ProducerInited, a secret; all zero will do to look
	Epoch      batchfmt.Epoch      // that the batch is sealed with
	TopicID    [16]byte
	Partition  int32
	Base, Last batchfmt.Seq // of the batch; 0 <= Base <= Last
	Digest     batchfmt.Digest
	Settle     bool
}

// Kind is KindResolve.
func (*Resolve) Kind() Kind { return KindResolve }

func (m *Resolve) appendPayload(b []byte) []byte {
	var flags byte
	if m.Settle {
		flags |= resolveSettle
	}
	b = appendU64(b, uint64(m.ProducerID))
	b = append(b, m.Key[:]...)
	b = appendU32(b, uint32(m.Epoch))
	b = append(b, m.TopicID[:]...)
	b = appendI32(b, m.Partition)
	b = appendI64(b, int64(m.Base))
	b = appendI64(b, int64(m.Last))
	b = appendU64(b, uint64(m.Digest))
	return append(b, flags)
}

func (m *Resolve) decode(c *cursor) {
	m.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	m.Key = c.secret("key")
	m.Epoch = batchfmt.Epoch(c.u32("epoch"))
	m.TopicID = c.id("topic id")
	m.Partition = c.i32("partition")
	m.Base = batchfmt.Seq(c.i64("base"))
	m.Last = batchfmt.Seq(c.i64("last"))
	m.Digest = c.digest("digest")
	m.Settle = c.flags("flags", resolveFlags)&resolveSettle != 0
}

// ResolveOutcome is what became of a batch. Numbers that this version does not know can
// come from a newer server; they prove nothing, as ResolveUnknowable does.
type ResolveOutcome uint8

const (
	ResolveStored     ResolveOutcome = 1 // it is stored
	ResolveInFlight   ResolveOutcome = 2 // it is appended and not durable yet: ask again
	ResolveNotYet     ResolveOutcome = 3 // it is not stored so far; a copy may still come in
	ResolveNever      ResolveOutcome = 4 // it is not stored and never will be
	ResolveTopicGone  ResolveOutcome = 5 // the topic is deleted, and all that it held
	ResolveUnknowable ResolveOutcome = 6 // nobody can tell any more
)

var resolveOutcomes = [...]string{
	ResolveStored:     "stored",
	ResolveInFlight:   "in flight",
	ResolveNotYet:     "not stored yet",
	ResolveNever:      "not stored",
	ResolveTopicGone:  "topic gone",
	ResolveUnknowable: "unknowable",
}

func (o ResolveOutcome) String() string {
	if o == 0 || int(o) >= len(resolveOutcomes) {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return resolveOutcomes[o]
}

// Flags of Resolved.
const (
	resolvedVerified = 1 << iota
	resolvedUnreadable
)

var resolvedFlags = []string{"verified", "unreadable"}

// Resolved answers Resolve.
//
//	outcome u8, flags u8, offset i64, last sequence i64, epoch u32, detail str
type Resolved struct {
	Outcome      ResolveOutcome
	Verified     bool            // with ResolveStored: the stored batch was compared, not inferred from its sequences
	Unreadable   bool            // with ResolveStored: it cannot be read any more
	Offset       batchfmt.Offset // of the batch's first record; -1 when it is not known
	LastSequence batchfmt.Seq    // of the lane, of one that was forgotten what is proved at least; -1 for nothing
	Epoch        batchfmt.Epoch  // the lowest that the lane takes now
	Detail       string          // the reason, for people; at most 2 KiB are sent
}

// Kind is KindResolved.
func (*Resolved) Kind() Kind { return KindResolved }

func (m *Resolved) appendPayload(b []byte) []byte {
	var flags byte
	if m.Verified {
		flags |= resolvedVerified
	}
	if m.Unreadable {
		flags |= resolvedUnreadable
	}
	b = append(b, byte(m.Outcome), flags)
	b = appendI64(b, int64(m.Offset))
	b = appendI64(b, int64(m.LastSequence))
	b = appendU32(b, uint32(m.Epoch))
	return appendText(b, m.Detail, maxDetail)
}

func (m *Resolved) decode(c *cursor) {
	m.Outcome = c.resolveOutcome("outcome")
	flags := c.flags("flags", resolvedFlags)
	m.Verified = flags&resolvedVerified != 0
	m.Unreadable = flags&resolvedUnreadable != 0
	m.Offset = batchfmt.Offset(c.i64("offset"))
	m.LastSequence = batchfmt.Seq(c.i64("last sequence"))
	m.Epoch = batchfmt.Epoch(c.u32("epoch"))
	m.Detail = c.str("detail", maxDetail)
}
