// Package transport keeps a client connected: it dials, greets, watches and reconnects,
// and it gives out the three kinds of streams that the SDK needs. It is the only package
// of the SDK that knows QUIC; no QUIC type leaves it.
//
// The nouns of the package:
//
//   - a [Manager] owns the sockets and keeps one connection to a server or several. It
//     gives out the one that work belongs on, see [Manager.Home], and says when that
//     changes.
//   - a link keeps one of these connections: its goroutine waits for the end of it and
//     dials again. What it has to offer is in its place, which work finds by a key.
//   - a race finds the connection: the addresses of all hosts are tried one beside the
//     other, each a little after the one before, and the first that says Hello wins.
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
