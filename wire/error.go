package wire

import (
	"fmt"
	"strings"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// maxDetail bounds the text of an error in bytes.
const maxDetail = 2 << 10

// Error is a refusal with its subject: the reply to a request that failed, and part of
// LaneRefused and Refused. It is an error; [Code.Info] says what a refusal means. What
// was refused is in the fields, for programs; the text in Detail is for people. Inside of
// other messages its length, a u16, stands in front of it.
//
//	code u16, retry after u32 (ms), topic str, topic id 16, partition i32,
//	producer id u64, sequence i64, expected i64, detail str, offset i64, batch version u8
//
// Offset and Version are not there in an Error of an older peer: then they have none.
//
// What Expected means depends on the code; those that are not listed set none. The same goes for
// the field of this name in a [ProduceResult].
//
//	PRODUCER_LIMIT_REACHED        how many producers the partition may hold
//	MESSAGE_TOO_LARGE             how many bytes a batch of the topic may have
//	OUT_OF_ORDER_SEQUENCE_NUMBER  the sequence that comes next in the lane
//	INVALID_PRODUCER_EPOCH        the epoch that the producer id has now
//	DATA_LOSS                     the sequence up to which the client has acknowledgements; the
//	                              last one that the server has is in Sequence
//	PRODUCER_CLONED               the last sequence that the client ever sent; the last one that
//	                              the server has is in Sequence
//	OFFSET_OUT_OF_RANGE           the first offset that can be read
//	CORRUPT_BATCH, of a reader    the offset behind the damage, where it may read on
//	BATCH_VERSION_UNSUPPORTED,    the offset behind the batch, and behind those that follow it
//	of a reader                   and would be refused just so, where it may read on
type Error struct {
	Code       Code
	RetryAfter time.Duration // a hint, 0 when there is none; milliseconds on the wire
	Topic      string        // the first 255 bytes are sent
	TopicID    [16]byte
	Partition  int32 // -1 when the subject has none
	ProducerID batchfmt.ProducerID
	Sequence   int64  // -1 when the subject has none
	Expected   int64  // what was expected instead, see the table; -1 when there is none
	Detail     string // at most 2 KiB are sent
	// Offset is where the batch begins that a reader was refused for its version; -1 when the
	// subject is something else.
	Offset batchfmt.Offset
	// Version is that of the batch that was refused for it; 0 when the subject is something else.
	Version batchfmt.Version
}

// Errorf makes an Error without a subject; the caller fills in what there is of one.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Partition: -1, Sequence: -1, Expected: -1, Offset: -1, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Code.String())
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	} else {
		b.WriteString(": " + e.Code.Info().Text + e.batch())
	}
	if e.Topic != "" {
		fmt.Fprintf(&b, " (topic %q", e.Topic)
		if e.Partition >= 0 {
			fmt.Fprintf(&b, ", partition %d", e.Partition)
		}
		b.WriteByte(')')
	}
	return b.String()
}

// batch names the batch of the subject for a text that does not; a Detail does.
func (e *Error) batch() string {
	switch {
	case e.Version == 0:
		return ""
	case e.Offset < 0:
		return fmt.Sprintf(": version %d", e.Version)
	}
	return fmt.Sprintf(": version %d at offset %d", e.Version, e.Offset)
}

// Kind is KindError.
func (*Error) Kind() Kind { return KindError }

func (e *Error) appendPayload(b []byte) []byte {
	b = appendU16(b, uint16(e.Code))
	b = appendMillis(b, e.RetryAfter)
	b = appendText(b, e.Topic, maxName) // may be what the peer asked for, which has no limit
	b = append(b, e.TopicID[:]...)
	b = appendI32(b, e.Partition)
	b = appendU64(b, uint64(e.ProducerID))
	b = appendI64(b, e.Sequence)
	b = appendI64(b, e.Expected)
	b = appendText(b, e.Detail, maxDetail)
	b = appendI64(b, int64(e.Offset))
	return append(b, byte(e.Version))
}

func (e *Error) decode(c *cursor) {
	e.Code = c.code("code")
	e.RetryAfter = c.millis("retry after")
	e.Topic = c.str("topic", maxName)
	e.TopicID = c.id("topic id")
	e.Partition = c.i32("partition")
	e.ProducerID = batchfmt.ProducerID(c.u64("producer id"))
	e.Sequence = c.i64("sequence")
	e.Expected = c.i64("expected")
	e.Detail = c.str("detail", maxDetail)
	e.Offset, e.Version = -1, 0
	if c.more() {
		e.Offset = batchfmt.Offset(c.i64("offset"))
	}
	if c.more() {
		e.Version = c.version("batch version")
	}
}

// appendItem and decodeItem are for an Error inside of another message.
func (e *Error) appendItem(b []byte) []byte {
	start, b := openItem(b)
	return closeItem(e.appendPayload(b), start)
}

func (e *Error) decodeItem(c *cursor) {
	item := c.item("error")
	e.decode(c)
	c.leave("error", item)
}
