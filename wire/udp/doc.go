// Package udp opens the UDP sockets that carry QUIC, for clients and servers alike.
//
// A QUIC packet is small (about 1.4 kB), so a busy connection spends much of its time
// fetching packets from the kernel one by one. Linux can instead hand over a run of
// packets of one sender as a single large datagram, with a note of where to cut it:
// generic receive offload, GRO. The sockets of this package ask for that and do the
// cutting, so that whoever reads sees ordinary datagrams, for about a third of the
// reading cost. Where the kernel refuses, on other systems, and when it is switched off
// ([Options], or QUOIN_UDP_GRO=off in the environment), the socket is a plain
// [net.UDPConn].
//
// The nouns of the package:
//
//   - [Conn] is the socket: a [net.PacketConn] with the few methods more that a QUIC
//     library looks for, among them batched reads when GRO is on.
//   - a group is what the kernel hands over in one piece; a segment is one datagram of it.
//   - [Buffers] are the kernel's receive and send buffers of a socket.
//
// The package knows nothing of QUIC: it never looks into a datagram, never answers one
// and starts no goroutine. It writes exactly as a plain socket does; whether several
// packets go out in one call is decided by the QUIC library.
package udp
