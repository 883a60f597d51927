package wire

import "github.com/quoin-io/quoin/batchfmt"

// Confirmed says on a lane's stream what Produce says with each batch: up to where every
// outcome was given to the application. It is for lanes that have nothing to send, so that
// a quiet lane is known to be one. It has no answer, and a peer that does not know it steps
// over it.
//
//	lane u32, through i64
type Confirmed struct {
	Lane    uint32
	Through batchfmt.Seq // -1 for none
}

// Kind is KindConfirmed.
func (*Confirmed) Kind() Kind { return KindConfirmed }

func (m *Confirmed) appendPayload(b []byte) []byte {
	return appendI64(appendU32(b, m.Lane), int64(m.Through))
}

func (m *Confirmed) decode(c *cursor) {
	m.Lane = c.u32("lane")
	m.Through = batchfmt.Seq(c.i64("through"))
}
