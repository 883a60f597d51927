package wire

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// ALPN is the protocol name in the TLS handshake. It holds the number that changes when
// peers could not even exchange a Hello any more.
const ALPN = "quoin/1"

// The protocol versions that this package speaks.
const (
	MinProtocol uint16 = 1
	MaxProtocol uint16 = 1
)

const (
	maxName     = 255 // bytes of names of topics, producers, SDKs and servers
	maxVersions = 255 // batch versions that a peer may list

	// maxAskedName bounds the names in requests. It is wider than maxName: a bad name
	// goes through to the one place that knows what a name may be and gets its named
	// error, instead of ending the stream.
	maxAskedName = 4 << 10
)

// Hello is the first frame of a connection, on its first stream. A bit of Features says what
// its sender can do, and is never used again for something else. A peer ignores those that it
// does not know, and does on the wire what a bit stands for only where both have set it.
//
//	min protocol u16, max protocol u16, batch versions {count u32, u8...},
//	features u64, sdk name str, sdk version str, session id 16
type Hello struct {
	MinProtocol, MaxProtocol uint16
	BatchVersions            []batchfmt.Version // that this peer can read
	Features                 uint64             // bits of what this peer can do, see [FeatureCopies]
	SDKName, SDKVersion      string
	Session                  [16]byte // to resume, a secret between the two; zero for a new one
}

// Kind is KindHello.
func (*Hello) Kind() Kind { return KindHello }

func (m *Hello) appendPayload(b []byte) []byte {
	b = appendU16(b, m.MinProtocol)
	b = appendU16(b, m.MaxProtocol)
	b = appendVersions(b, m.BatchVersions)
	b = appendU64(b, m.Features)
	b = appendText(b, m.SDKName, maxName)
	b = appendText(b, m.SDKVersion, maxName)
	return append(b, m.Session[:]...)
}

func (m *Hello) decode(c *cursor) {
	m.MinProtocol = c.u16("min protocol")
	m.MaxProtocol = c.u16("max protocol")
	m.BatchVersions = readVersions(c)
	m.Features = c.u64("features")
	m.SDKName = c.str("sdk name", maxName)
	m.SDKVersion = c.str("sdk version", maxName)
	m.Session = c.token("session id")
}

// HelloOK answers a Hello that the server accepts.
//
//	protocol u16, batch versions {count u32, u8...}, features u64, server name str,
//	server version str, cluster id 16, incarnation u64, session id 16,
//	max batch bytes u32, max in flight u16, max lanes u32
type HelloOK struct {
	Protocol      uint16
	BatchVersions []batchfmt.Version // that the server accepts from producers
	Features      uint64             // the server's, not the common ones: what both peers set may be used
	ServerName    string
	ServerVersion string
	ClusterID     [16]byte // made once for the data directory
	Incarnation   uint64   // +1 at every start of the server
	Session       [16]byte // of this connection, to resume it later
	MaxBatchBytes uint32   // of a batch on this connection; a topic may allow less
	MaxInFlight   uint16   // batches of a lane without a result
	MaxLanes      uint32   // of the connection
}

// Kind is KindHelloOK.
func (*HelloOK) Kind() Kind { return KindHelloOK }

func (m *HelloOK) appendPayload(b []byte) []byte {
	b = appendU16(b, m.Protocol)
	b = appendVersions(b, m.BatchVersions)
	b = appendU64(b, m.Features)
	b = appendText(b, m.ServerName, maxName)
	b = appendText(b, m.ServerVersion, maxName)
	b = append(b, m.ClusterID[:]...)
	b = appendU64(b, m.Incarnation)
	b = append(b, m.Session[:]...)
	b = appendU32(b, m.MaxBatchBytes)
	b = appendU16(b, m.MaxInFlight)
	return appendU32(b, m.MaxLanes)
}

func (m *HelloOK) decode(c *cursor) {
	m.Protocol = c.u16("protocol")
	m.BatchVersions = readVersions(c)
	m.Features = c.u64("features")
	m.ServerName = c.str("server name", maxName)
	m.ServerVersion = c.str("server version", maxName)
	m.ClusterID = c.id("cluster id")
	m.Incarnation = c.u64("incarnation")
	m.Session = c.token("session id")
	m.MaxBatchBytes = c.u32("max batch bytes")
	m.MaxInFlight = c.u16("max in flight")
	m.MaxLanes = c.u32("max lanes")
}

// Refused answers a Hello that the server does not accept; it says which side is older.
//
//	length u16, error, min protocol u16, max protocol u16
type Refused struct {
	Err                      Error
	MinProtocol, MaxProtocol uint16 // that the server speaks
}

// Kind is KindRefused.
func (*Refused) Kind() Kind { return KindRefused }

func (m *Refused) Error() string { return m.Err.Error() }

// Unwrap gives the *Error.
func (m *Refused) Unwrap() error { return &m.Err }

func (m *Refused) appendPayload(b []byte) []byte {
	b = m.Err.appendItem(b)
	b = appendU16(b, m.MinProtocol)
	return appendU16(b, m.MaxProtocol)
}

func (m *Refused) decode(c *cursor) {
	m.Err.decodeItem(c)
	m.MinProtocol = c.u16("min protocol")
	m.MaxProtocol = c.u16("max protocol")
}

// Negotiate chooses the protocol version for a client that says h. The refusal is nil
// when there is one in common. First match wins.
//
//	the range is upside down                            refuse: protocol error
//	client's newest is older than the server's oldest   refuse: upgrade the client
//	client's oldest is newer than the server's newest   refuse: upgrade the server
//	no batch version is listed                          refuse: it could read nothing
//	otherwise                                           the newest that both speak
func Negotiate(h *Hello) (uint16, *Refused) {
	refuse := func(code Code, format string, args ...any) (uint16, *Refused) {
		return 0, &Refused{Err: *Errorf(code, format, args...), MinProtocol: MinProtocol, MaxProtocol: MaxProtocol}
	}
	switch {
	case h.MinProtocol > h.MaxProtocol:
		return refuse(CodeProtocol, "the protocol range %d to %d is upside down", h.MinProtocol, h.MaxProtocol)
	case h.MaxProtocol < MinProtocol:
		return refuse(CodeUnsupportedVersion, "the client speaks protocol %s, the server %s: upgrade the client",
			versionRange(h.MinProtocol, h.MaxProtocol), versionRange(MinProtocol, MaxProtocol))
	case h.MinProtocol > MaxProtocol:
		return refuse(CodeUnsupportedVersion, "the client speaks protocol %s, the server %s: upgrade the server",
			versionRange(h.MinProtocol, h.MaxProtocol), versionRange(MinProtocol, MaxProtocol))
	case len(h.BatchVersions) == 0:
		return refuse(CodeUnsupportedVersion, "the client lists no batch version that it can read")
	}
	return min(h.MaxProtocol, MaxProtocol), nil
}

func versionRange(lo, hi uint16) string {
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

func appendVersions(b []byte, vs []batchfmt.Version) []byte {
	b = appendU32(b, uint32(len(vs)))
	for _, v := range vs {
		b = append(b, byte(v))
	}
	return b
}

func readVersions(c *cursor) []batchfmt.Version {
	n := c.take32("batch versions")
	if n > maxVersions {
		c.fail("batch versions", "lists %d, at most %d are allowed", n, maxVersions)
	}
	var vs []batchfmt.Version
	for _, v := range c.take("batch versions", int(n)) {
		vs = append(vs, batchfmt.Version(v))
	}
	if c.sees != nil {
		c.saw("batch versions", vs)
	}
	return vs
}
