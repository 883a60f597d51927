package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/quoin-io/quoin/batchfmt"
)

// HeaderSize is the size of a frame's header in bytes.
const HeaderSize = 8

// Kind says which message a frame holds.
type Kind uint16

// KindOptional marks kinds that a peer may step over when it does not know them.
const KindOptional Kind = 1 << 15

// The kinds of frames. A number is never used again for something else.
const (
	KindHello              Kind = 1
	KindHelloOK            Kind = 2
	KindRefused            Kind = 3
	KindError              Kind = 4
	KindPing               Kind = 5
	KindPong               Kind = 6
	KindDrain              Kind = 7
	KindInitProducer       Kind = 16
	KindProducerInited     Kind = 17
	KindOpenLane           Kind = 18
	KindLaneOpened         Kind = 19
	KindLaneRefused        Kind = 20
	KindProduce            Kind = 21
	KindProduceResults     Kind = 22
	KindBumpEpoch          Kind = 23
	KindEpochBumped        Kind = 24
	KindCloseProducer      Kind = 25
	KindProducerClosed     Kind = 26
	KindResolve            Kind = 27
	KindResolved           Kind = 28
	KindSubscribe          Kind = 32
	KindSubscribed         Kind = 33
	KindBatches            Kind = 34
	KindCredit             Kind = 35
	KindEndReached         Kind = 36
	KindCreateTopic        Kind = 48
	KindTopicCreated       Kind = 49
	KindDeleteTopic        Kind = 50
	KindTopicDeleted       Kind = 51
	KindDescribeTopics     Kind = 52
	KindTopicsDescribed    Kind = 53
	KindDescribeProducers  Kind = 54
	KindProducersDescribed Kind = 55
	KindExplainProducers   Kind = 56
	KindProducersExplained Kind = 57
	KindAlterTopic         Kind = 58
	KindTopicAltered       Kind = 59
	KindTopicChanged       Kind = KindOptional | 8
	KindConfirmed          Kind = KindOptional | 29
)

// produceOverhead bounds what a Produce or Batches frame holds besides batches.
const produceOverhead = 64

// kinds holds, for every kind, its name, how large its payload may be, and how to make
// the message that decodes it.
var kinds = map[Kind]struct {
	name  string
	limit int
	make  func() Message
}{
	KindHello:              {"Hello", 4 << 10, func() Message { return new(Hello) }},
	KindHelloOK:            {"HelloOK", 4 << 10, func() Message { return new(HelloOK) }},
	KindRefused:            {"Refused", 4 << 10, func() Message { return new(Refused) }},
	KindError:              {"Error", 4 << 10, func() Message { return new(Error) }},
	KindPing:               {"Ping", 256, func() Message { return new(Ping) }},
	KindPong:               {"Pong", 256, func() Message { return new(Pong) }},
	KindDrain:              {"Drain", 4 << 10, func() Message { return new(Drain) }},
	KindInitProducer:       {"InitProducer", 16 << 10, func() Message { return new(InitProducer) }},
	KindProducerInited:     {"ProducerInited", 4 << 10, func() Message { return new(ProducerInited) }},
	KindOpenLane:           {"OpenLane", 4 << 10, func() Message { return new(OpenLane) }},
	KindLaneOpened:         {"LaneOpened", 4 << 10, func() Message { return new(LaneOpened) }},
	KindLaneRefused:        {"LaneRefused", 4 << 10, func() Message { return new(LaneRefused) }},
	KindProduce:            {"Produce", batchfmt.MaxBatchBytes + produceOverhead, func() Message { return new(Produce) }},
	KindProduceResults:     {"ProduceResults", 1 << 20, func() Message { return new(ProduceResults) }},
	KindBumpEpoch:          {"BumpEpoch", 4 << 10, func() Message { return new(BumpEpoch) }},
	KindEpochBumped:        {"EpochBumped", 4 << 10, func() Message { return new(EpochBumped) }},
	KindCloseProducer:      {"CloseProducer", 4 << 10, func() Message { return new(CloseProducer) }},
	KindProducerClosed:     {"ProducerClosed", 4 << 10, func() Message { return new(ProducerClosed) }},
	KindResolve:            {"Resolve", 4 << 10, func() Message { return new(Resolve) }},
	KindResolved:           {"Resolved", 4 << 10, func() Message { return new(Resolved) }},
	KindSubscribe:          {"Subscribe", 4 << 10, func() Message { return new(Subscribe) }},
	KindSubscribed:         {"Subscribed", 4 << 10, func() Message { return new(Subscribed) }},
	KindBatches:            {"Batches", batchfmt.MaxBatchBytes + produceOverhead, func() Message { return new(Batches) }},
	KindCredit:             {"Credit", 256, func() Message { return new(Credit) }},
	KindEndReached:         {"EndReached", 256, func() Message { return new(EndReached) }},
	KindCreateTopic:        {"CreateTopic", 4 << 10, func() Message { return new(CreateTopic) }},
	KindTopicCreated:       {"TopicCreated", 1 << 20, func() Message { return new(TopicCreated) }},
	KindDeleteTopic:        {"DeleteTopic", 4 << 10, func() Message { return new(DeleteTopic) }},
	KindTopicDeleted:       {"TopicDeleted", 4 << 10, func() Message { return new(TopicDeleted) }},
	KindDescribeTopics:     {"DescribeTopics", 64 << 10, func() Message { return new(DescribeTopics) }},
	KindTopicsDescribed:    {"TopicsDescribed", 4 << 20, func() Message { return new(TopicsDescribed) }},
	KindDescribeProducers:  {"DescribeProducers", 4 << 10, func() Message { return new(DescribeProducers) }},
	KindProducersDescribed: {"ProducersDescribed", 1 << 20, func() Message { return new(ProducersDescribed) }},
	KindExplainProducers:   {"ExplainProducers", 4 << 10, func() Message { return new(ExplainProducers) }},
	KindProducersExplained: {"ProducersExplained", 1 << 20, func() Message { return new(ProducersExplained) }},
	KindAlterTopic:         {"AlterTopic", 8 << 10, func() Message { return new(AlterTopic) }},
	KindTopicAltered:       {"TopicAltered", 1 << 20, func() Message { return new(TopicAltered) }},
	KindTopicChanged:       {"TopicChanged", 4 << 10, func() Message { return new(TopicChanged) }},
	KindConfirmed:          {"Confirmed", 256, func() Message { return new(Confirmed) }},
}

// Optional reports whether a peer that does not know the kind may step over it.
func (k Kind) Optional() bool { return k&KindOptional != 0 }

func (k Kind) String() string {
	if row, ok := kinds[k]; ok {
		return row.name
	}
	return fmt.Sprintf("kind(%#04x)", uint16(k))
}

// maxOptionalPayload bounds the payload of an optional frame of an unknown kind: it is
// read and thrown away.
const maxOptionalPayload = 64 << 10

// A Header stands in front of every payload.
type Header struct {
	Size  int // bytes of the payload
	Kind  Kind
	Flags uint16
}

// ErrFrame is what every *FrameError is, for errors.Is.
var ErrFrame = errors.New("bad frame")

// A FrameError says why bytes are not a frame, or not the message that the frame names.
// The stream that it came from cannot be read on.
type FrameError struct {
	Kind   Kind
	Field  string // of the header or the message
	Reason string
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("frame %v: %s: %s", e.Kind, e.Field, e.Reason)
}

// Is makes errors.Is(err, ErrFrame) true.
func (e *FrameError) Is(target error) bool { return target == ErrFrame }

// ParseHeader reads a frame header and checks it against the limits of its kind. b must
// hold HeaderSize bytes. With the error, a *FrameError, come the kind and the flags, but
// no size.
func ParseHeader(b []byte) (Header, error) {
	size := binary.LittleEndian.Uint32(b)
	h := Header{Kind: Kind(binary.LittleEndian.Uint16(b[4:])), Flags: binary.LittleEndian.Uint16(b[6:])}
	limit := maxOptionalPayload
	if row, ok := kinds[h.Kind]; ok {
		limit = row.limit
	} else if !h.Kind.Optional() {
		return h, &FrameError{h.Kind, "kind", "is not known, a newer peer may have sent it"}
	}
	if size > uint32(limit) {
		return h, &FrameError{h.Kind, "size", fmt.Sprintf("%d is over the limit, %d", size, limit)}
	}
	if h.Flags != 0 {
		return h, &FrameError{h.Kind, "flags", fmt.Sprintf("%#04x is not known", h.Flags)}
	}
	h.Size = int(size)
	return h, nil
}

// PutHeader writes a frame header into the first HeaderSize bytes of b.
func PutHeader(b []byte, k Kind, size int) {
	binary.LittleEndian.PutUint32(b, uint32(size))
	binary.LittleEndian.PutUint16(b[4:], uint16(k))
	binary.LittleEndian.PutUint16(b[6:], 0)
}

// Append appends the frame of m to dst, so that it can go out in one Write. It refuses
// nothing: see [Write] for the size; for batches see [PutProduceFrame], which copies none.
func Append(dst []byte, m Message) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = m.appendPayload(dst)
	PutHeader(dst[start:], m.Kind(), len(dst)-start-HeaderSize)
	return dst
}

// Write writes the frame of m to w in one Write. A frame that the peer would refuse for
// its size is not written; the error is a *FrameError then.
func Write(w io.Writer, m Message) error {
	frame := Append(nil, m)
	if size, limit := len(frame)-HeaderSize, kinds[m.Kind()].limit; size > limit {
		return &FrameError{m.Kind(), "size", fmt.Sprintf("%d is over the limit, %d", size, limit)}
	}
	_, err := w.Write(frame)
	return err
}

// ReadHeader reads the header of the next frame, stepping over optional frames of kinds
// that are not known. A caller that knows which kinds may come now looks at the kind
// before it reads on: the largest limits belong to kinds of one kind of stream. io.EOF means that the peer finished between two frames;
// io.ErrUnexpectedEOF that it stopped inside of one.
func ReadHeader(r io.Reader) (Header, error) {
	var buf [HeaderSize]byte
	for {
		if _, err := io.ReadFull(r, buf[:]); err != nil {
			return Header{}, err
		}
		h, err := ParseHeader(buf[:])
		if err != nil {
			return h, err
		}
		if _, known := kinds[h.Kind]; known {
			return h, nil
		}
		if _, err := io.CopyN(io.Discard, r, int64(h.Size)); err != nil {
			return h, noEOF(err)
		}
	}
}

// eagerPayload is how many bytes a header alone can make us take.
const eagerPayload = 256 << 10

// ReadPayload reads the payload that h announces, into buf if it is large enough. Else
// it takes memory as the bytes come, never more than the larger of 256 KiB and four
// times what has come, so that a header costs its sender more than a few bytes. Its
// errors are those of r, with io.ErrUnexpectedEOF for a payload that is cut off.
func ReadPayload(r io.Reader, h Header, buf []byte) ([]byte, error) {
	if cap(buf) < h.Size {
		buf = make([]byte, min(h.Size, max(cap(buf), eagerPayload)))
	}
	have := 0
	for {
		end := min(h.Size, cap(buf))
		n, err := io.ReadFull(r, buf[have:end])
		have += n
		if err != nil || have == h.Size {
			return buf[:have], noEOF(err)
		}
		grown := make([]byte, min(h.Size, 4*have))
		copy(grown, buf[:have])
		buf = grown
	}
}

// Read reads one frame and decodes its message. Byte slices in the message alias memory
// that belongs to the message alone.
func Read(r io.Reader) (Message, error) {
	h, err := ReadHeader(r)
	if err != nil {
		return nil, err
	}
	payload, err := ReadPayload(r, h, nil)
	if err != nil {
		return nil, err
	}
	return Decode(h.Kind, payload)
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A Message is what a frame holds. The types of this package are all there are. A new
// one is a type with these methods in a file of its own or its reply's, a kind, a row in
// kinds, and a sample in the tests, which says so when one of them is missing.
type Message interface {
	Kind() Kind
	appendPayload(dst []byte) []byte
	decode(c *cursor)
}

// Decode decodes the payload of a frame of kind k. Byte slices in the message alias
// payload. Bytes behind the last field are fields of a newer peer and are ignored. The
// error is a *FrameError, and the message nil then.
func Decode(k Kind, payload []byte) (Message, error) {
	row, ok := kinds[k]
	if !ok {
		return nil, &FrameError{k, "kind", "is not known"}
	}
	m := row.make()
	if err := DecodeInto(m, payload); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeInto is Decode for a message that the caller reuses: every field is set anew,
// lists reuse their memory. After an error the fields mean nothing. For Produce,
// ProduceResults, Batches and Credit it takes no memory, but for lists that grow and
// texts that are not empty.
func DecodeInto(m Message, payload []byte) error {
	c := cursor{kind: m.Kind(), rest: payload}
	// The compiler keeps a cursor on the stack only where it knows which decoder gets
	// it, so the kinds that come by the thousand are named.
	switch m := m.(type) {
	case *Produce:
		m.decode(&c)
	case *ProduceResults:
		m.decode(&c)
	case *Batches:
		m.decode(&c)
	case *Credit:
		m.decode(&c)
	default:
		return decodeAny(m, c)
	}
	return c.err
}

func decodeAny(m Message, c cursor) error {
	m.decode(&c)
	return c.err
}
