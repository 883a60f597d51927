package wire

import "github.com/quoin-io/quoin/batchfmt"

// CloseProducer says, for the holder of a producer id, that it will write no more. An id
// without a name is given up with it; a name stays. Closing twice is no error.
//
//	producer id u64, key 16
type CloseProducer struct {
	ProducerID batchfmt.ProducerID // never 0
	Key        Secret              // from ProducerInited, a secret
}

// Kind is KindCloseProducer.
func (*CloseProducer) Kind() Kind { return KindCloseProducer }

func (m *CloseProducer) appendPayload(b []byte) []byte {
	return append(appendU64(b, uint64(m.ProducerID)), m.Key[:]...)
}

func (m *CloseProducer) decode(c *cursor) {
	m.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	m.Key = c.secret("key")
}

// ProducerClosed answers CloseProducer. It has no fields.
type ProducerClosed struct{}

// Kind is KindProducerClosed.
func (*ProducerClosed) Kind() Kind                      { return KindProducerClosed }
func (m *ProducerClosed) appendPayload(b []byte) []byte { return b }
func (m *ProducerClosed) decode(*cursor)                {}
