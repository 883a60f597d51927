// Package wire is the Quoin protocol: frames, the messages in them, the negotiation
// between peers of different age, and the one table of errors.
//
// A connection has four kinds of streams, all opened by the client, with both directions,
// and named by their first frame. On each of them travel frames:
//
//	0  4  size      bytes of the payload, bounded by the kind
//	4  2  kind
//	6  2  flags     must be zero, but for flags that this package names; none is yet
//	8  .  payload   one message; fields in order, little-endian
//
// Who says what (C the client, S the server):
//
//	control, the first stream of a connection, as long as the connection
//	    C Hello            S HelloOK | Refused
//	    C Ping             S Pong
//	                       S Drain
//	                       S TopicChanged
//	request, a request and its reply
//	    C InitProducer     S ProducerInited | Error
//	    C BumpEpoch        S EpochBumped | Error
//	    C CloseProducer    S ProducerClosed | Error
//	    C Resolve          S Resolved | Error
//	    C CreateTopic      S TopicCreated | Error
//	    C AlterTopic       S TopicAltered | Error
//	    C DeleteTopic      S TopicDeleted | Error
//	    C DescribeTopics   S TopicsDescribed | Error
//	    C DescribeProducers  S ProducersDescribed | Error
//	    C ExplainProducers   S ProducersExplained | Error
//	lane, a producer's way into its partitions
//	    C OpenLane         S LaneOpened | LaneRefused
//	    C Produce          S ProduceResults, of several at once
//	    C Confirmed        nothing
//	                       S LaneRefused, when a lane loses its right later
//	subscription, a consumer of one partition
//	    C Subscribe        S Subscribed | Error
//	    C Credit           S Batches
//	                       S EndReached | Error, the last frame
//
// Where both peers can, small frames of lanes travel a second time as datagrams, for links
// that lose packets: see [Copy].
//
// # Layouts
//
// The comment of each message lists its fields in the order of the wire. A u16 is an
// unsigned number of 16 bits, an i64 a signed one of 64; "topic id 16" is 16 bytes; a str
// is a u16 length and UTF-8; bytes is a u32 length and bytes; {count u32, each ...} is a
// list. A group of fields that begins with "length" says how many bytes stand behind that
// length and belong to the group. Bits of a u8 called flags that have no name must be zero, but for
// those of a topic and of TopicChanged: they only tell, and a reader ignores what it does not know.
//
// # Peers of different age
//
// A newer peer may append fields to the end of a message; an older one ignores bytes
// behind the last field that it knows, and a newer decoder must take their absence for a
// default. The same goes for what stands inside of a message: items of lists, a topic, an
// Error carry their length for that. Only items that are a single value, such as names, and
// the point in OpenLane never change. A frame of a kind that is not known is stepped over
// if the top bit of its kind says that it is optional, else the stream is refused. Numbers
// of kinds, codes and outcomes are never used again; what names nothing that a peer knows
// is kept, and printed as a number.
//
// # Errors
//
// [FrameError] means that bytes are not what they should be; the stream is of no use
// after it. [Error] is an answer of the peer, whose [Code] says what happened, whether
// to repeat the request and who has to act. What it is about is in its fields, so that no
// program has to read its text: for a reader that is refused a batch, where that begins, its
// version, and where to read on.
//
// # What it is not
//
// The package knows readers, writers and bytes. It holds no connection, no goroutine
// and no clock, and the QUIC library does not appear in it. It does not look into
// batches, but for dumps, and does not know which frame may follow which: that is for
// the two ends. No length from outside is believed before it has met a limit, and no
// bytes make it panic.
package wire
