package wire

import "time"

// Ping goes from the client on the control stream, so that a server that hangs is told
// from one that has nothing to say; the server answers each with a Pong that has the
// same nonce.
//
//	nonce u64
type Ping struct{ Nonce uint64 }

// Kind is KindPing.
func (*Ping) Kind() Kind                      { return KindPing }
func (m *Ping) appendPayload(b []byte) []byte { return appendU64(b, m.Nonce) }
func (m *Ping) decode(c *cursor)              { m.Nonce = c.u64("nonce") }

// Pong answers a Ping.
//
//	nonce u64
type Pong struct{ Nonce uint64 }

// Kind is KindPong.
func (*Pong) Kind() Kind                      { return KindPong }
func (m *Pong) appendPayload(b []byte) []byte { return appendU64(b, m.Nonce) }
func (m *Pong) decode(c *cursor)              { m.Nonce = c.u64("nonce") }

// Drain tells the client that the server is about to stop: what is in flight will be
// answered, and nothing new should be started on this connection.
//
//	retry after u32 (ms), reason str
type Drain struct {
	RetryAfter time.Duration // when to come back; milliseconds on the wire
	Reason     string        // for people
}

// Kind is KindDrain.
func (*Drain) Kind() Kind { return KindDrain }

func (m *Drain) appendPayload(b []byte) []byte {
	return appendText(appendMillis(b, m.RetryAfter), m.Reason, maxDetail)
}

func (m *Drain) decode(c *cursor) {
	m.RetryAfter = c.millis("retry after")
	m.Reason = c.str("reason", maxDetail)
}
