package wire

import "github.com/quoin-io/quoin/batchfmt"

// BumpEpoch raises the epoch of a producer id by one, for its holder. The same request
// asked again gets the same answer, so a lost reply does no harm; a holder makes one such
// request at a time.
//
//	producer id u64, key 16, request id 16
type BumpEpoch struct {
	ProducerID batchfmt.ProducerID // never 0
	Key        Secret              // from ProducerInited, a secret
	Request    [16]byte            // random, made anew for each raise; not all zero
}

// Kind is KindBumpEpoch.
func (*BumpEpoch) Kind() Kind { return KindBumpEpoch }

func (m *BumpEpoch) appendPayload(b []byte) []byte {
	b = appendU64(b, uint64(m.ProducerID))
	b = append(b, m.Key[:]...)
	return append(b, m.Request[:]...)
}

func (m *BumpEpoch) decode(c *cursor) {
	m.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	m.Key = c.secret("key")
	m.Request = c.id("request id")
}

// EpochBumped answers BumpEpoch. The epoch is durable.
//
//	epoch u32
type EpochBumped struct{ Epoch batchfmt.Epoch }

// Kind is KindEpochBumped.
func (*EpochBumped) Kind() Kind                      { return KindEpochBumped }
func (m *EpochBumped) appendPayload(b []byte) []byte { return appendU32(b, uint32(m.Epoch)) }
func (m *EpochBumped) decode(c *cursor)              { m.Epoch = batchfmt.Epoch(c.u32("epoch")) }
