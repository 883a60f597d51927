package wire

import "github.com/quoin-io/quoin/batchfmt"

// InitProducer asks for a producer id. The same instance asking again gets the same
// answer, so a lost reply does no harm.
//
//	instance id 16, name str, transactional id str
type InitProducer struct {
	Instance        [16]byte // random, made by the producer; not all zero; whoever knows it is given the key
	Name            string   // empty for an id without a name
	TransactionalID string   // refused when it is not empty: there are no transactions
}

// Kind is KindInitProducer.
func (*InitProducer) Kind() Kind { return KindInitProducer }

func (m *InitProducer) appendPayload(b []byte) []byte {
	b = append(b, m.Instance[:]...)
	b = appendStr(b, m.Name)
	return appendStr(b, m.TransactionalID)
}

func (m *InitProducer) decode(c *cursor) {
	m.Instance = c.token("instance id")
	m.Name = c.str("name", maxAskedName)
	m.TransactionalID = c.str("transactional id", maxAskedName)
}

// ProducerInited answers InitProducer. The id and the epoch are durable.
//
//	producer id u64, epoch u32, key 16
type ProducerInited struct {
	ProducerID batchfmt.ProducerID
	Epoch      batchfmt.Epoch
	Key        Secret // a secret: shows later that the bearer holds the id
}

// Kind is KindProducerInited.
func (*ProducerInited) Kind() Kind { return KindProducerInited }

func (m *ProducerInited) appendPayload(b []byte) []byte {
	b = appendU64(b, uint64(m.ProducerID))
	b = appendU32(b, uint32(m.Epoch))
	return append(b, m.Key[:]...)
}

func (m *ProducerInited) decode(c *cursor) {
	m.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	m.Epoch = batchfmt.Epoch(c.u32("epoch"))
	m.Key = c.secret("key")
}
