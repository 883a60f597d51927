// Package copies sends second copies of small frames as QUIC datagrams, for clients and
// servers alike, when the link loses packets.
//
// A lost packet costs more than one and often more than two round trips: until later packets
// were acknowledged nobody knows that it is lost, and then it has to travel again, while all
// that stands behind it on its stream waits. A batch of a few hundred bytes is cheaper sent
// twice. So once a connection loses packets, what is small and what fits beside the rest is
// repeated a moment later, in another packet. The layout of a copy and what a reader does with
// it belong to package wire ([wire.Copy]).
//
// The nouns of the package:
//
//   - [Sender] is the sending half of one connection: it decides whether a frame is copied,
//     keeps the copy for a moment and sends it.
//   - the meter is the decision: copies flow from a loss on until half a minute behind the last
//     one, and only while the congestion window has room for all frames and all copies.
//   - [Receive] is the reading half: it gives the copies of a connection to a function. [Reader]
//     counts the bytes of a stream, by which copies name their frames.
//
// A copy is a favour. It may be dropped at any point without a trace: when its queue is full,
// when it does not fit a packet, when the peer is busy. The package never holds up a frame,
// never answers and never ends a connection.
package copies
