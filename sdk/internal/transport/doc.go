// Package transport keeps a client connected: it dials, greets, watches and reconnects,
// and it gives out the three kinds of streams that the SDK needs. It is the only package
// of the SDK that knows QUIC; no QUIC type leaves it.
//
// The nouns of the package:
//
//   - a [Manager] owns the sockets and the one goroutine that dials. It gives out the
//     current connection and says when another one took its place.
//   - a [Conn] is one connection that has said Hello. It ends once and for ever; streams
//     on it end with it.
//   - a [Lane] is one opening of a lane. Up to 64 lanes have a stream of their own,
//     beyond that several share one. A stream ends with its last lane, and takes no more
//     than 256 in its life, as the server keeps them all until then. A [LaneSink] is told
//     what comes back.
//   - a [Subscription] is one partition being pushed to this client.
//   - an [Error] says in which stage of connecting something failed.
//
// The package never decides whether something may be sent again: it says what was lost
// and leaves the rest to its callers. It keeps no message that was not sent.
package transport
