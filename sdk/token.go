package sdk

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"
	"unicode/utf8"
	"unique"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// ErrInvalidToken is what every error of [ParseToken] is.
var ErrInvalidToken = errors.New("sdk: invalid token")

// tokenPrefix says that a text is a token, and of which version.
const tokenPrefix = "qt1."

// Sizes of the bytes that a token is made of, in front of its text form.
const (
	tokenFixed   = 8 + 16 + 4 + 16 + 4 + 8 + 4 + 8 + 1
	maxTokenName = 255
	maxTokenText = len(tokenPrefix) + ((tokenFixed+maxTokenName+crc32.Size)*8+5)/6
)

var (
	tokenText   = base64.RawURLEncoding.Strict()
	tokenSum    = crc32.MakeTable(crc32.Castagnoli)
	tokenFields = binary.BigEndian
)

// A Token names a batch whose outcome is unknown. It holds all that [Client.Resolve]
// needs, from any client of the server, in this process or another one, today or in a
// year. Tokens can be compared with ==; the zero Token names nothing.
//
// A token holds the key of its producer: who has it can settle the batch, and thereby
// stop what the producer sends to that partition until it has raised its epoch. [Token.String]
// gives the token as a whole, to be stored or handed on like a password. Printing it with
// package fmt, logging it with slog, and encoding it in JSON show what it names and not
// the key.
type Token struct {
	topic      string
	topicID    [16]byte
	partition  int32
	producerID uint64
	epoch      uint32
	first      int64
	records    int32
	digest     batchfmt.Digest
	// A handle can be compared, and shows package fmt no more than an address: it cannot
	// call the methods of a token in somebody's unexported field, and looks inside.
	key unique.Handle[string]
}

// IsZero reports whether t names nothing.
func (t Token) IsZero() bool { return t == Token{} }

// Topic is the name that the topic had.
func (t Token) Topic() string { return t.topic }

// TopicID is the id of the topic, which another topic of that name does not have.
func (t Token) TopicID() [16]byte { return t.topicID }

// Partition is the number of the partition.
func (t Token) Partition() int { return int(t.partition) }

// ProducerID is the id of the producer.
func (t Token) ProducerID() uint64 { return t.producerID }

// Epoch is the producer epoch that the batch is sealed with.
func (t Token) Epoch() uint32 { return t.epoch }

// First is the sequence of the batch's first record.
func (t Token) First() int64 { return t.first }

// Last is the sequence of the batch's last record.
func (t Token) Last() int64 { return t.first + int64(t.records) - 1 }

// String is the token as one word of letters, digits, and the signs "-", "_" and ".", at
// most 450 bytes long. It contains a secret. The zero Token gives "".
//
//	"qt1." and, in base64url without padding: producer id u64, key 16, epoch u32,
//	topic id 16, partition u32, first sequence u64, records u32, digest u64,
//	length of the name u8, name of the topic, CRC-32C u32 of "qt1." and all before it
func (t Token) String() string {
	if t.IsZero() {
		return ""
	}
	b := make([]byte, 0, len(tokenPrefix)+tokenFixed+len(t.topic)+crc32.Size)
	b = append(b, tokenPrefix...)
	b = tokenFields.AppendUint64(b, t.producerID)
	b = append(b, t.key.Value()...)
	b = tokenFields.AppendUint32(b, t.epoch)
	b = append(b, t.topicID[:]...)
	b = tokenFields.AppendUint32(b, uint32(t.partition))
	b = tokenFields.AppendUint64(b, uint64(t.first))
	b = tokenFields.AppendUint32(b, uint32(t.records))
	b = tokenFields.AppendUint64(b, uint64(t.digest))
	b = append(append(b, byte(len(t.topic))), t.topic...)
	b = tokenFields.AppendUint32(b, crc32.Checksum(b, tokenSum))
	return tokenPrefix + tokenText.EncodeToString(b[len(tokenPrefix):])
}

// ParseToken reads what [Token.String] wrote. Each token has one text. The error is an
// [ErrInvalidToken], and never repeats the text.
func ParseToken(text string) (Token, error) {
	switch {
	case len(text) > maxTokenText:
		return Token{}, badToken("it is longer than %d bytes", maxTokenText)
	case !strings.HasPrefix(text, "qt"):
		return Token{}, badToken("it does not begin with %q", tokenPrefix)
	case !strings.HasPrefix(text, tokenPrefix):
		return Token{}, badToken("it is cut short, or of a version that this one does not know")
	}
	b, err := tokenText.AppendDecode([]byte(tokenPrefix), []byte(text[len(tokenPrefix):]))
	switch {
	case err != nil || strings.ContainsAny(text, "\r\n"): // the decoder would skip line ends
		return Token{}, badToken("it holds letters that do not belong there, or is cut short")
	case len(b) < len(tokenPrefix)+tokenFixed+crc32.Size:
		return Token{}, badToken("it is too short")
	}
	body, sum := b[:len(b)-crc32.Size], b[len(b)-crc32.Size:]
	if crc32.Checksum(body, tokenSum) != tokenFields.Uint32(sum) {
		return Token{}, badToken("its checksum is wrong: it was changed or cut short")
	}
	return decodeToken(body[len(tokenPrefix):])
}

// decodeToken reads the fields, of which there are enough bytes.
func decodeToken(b []byte) (Token, error) {
	take := func(n int) []byte {
		taken := b[:n]
		b = b[n:]
		return taken
	}
	t := Token{producerID: tokenFields.Uint64(take(8)), key: unique.Make(string(take(len(wire.Secret{}))))}
	t.epoch = tokenFields.Uint32(take(4))
	t.topicID = [16]byte(take(16))
	t.partition = int32(tokenFields.Uint32(take(4)))
	t.first = int64(tokenFields.Uint64(take(8)))
	t.records = int32(tokenFields.Uint32(take(4)))
	t.digest = batchfmt.Digest(tokenFields.Uint64(take(8)))
	named := int(take(1)[0])
	t.topic = string(b)
	switch {
	case named != len(b):
		return Token{}, badToken("the name of the topic has %d bytes, not %d", len(b), named)
	case !utf8.Valid(b):
		return Token{}, badToken("the name of the topic is no text")
	case t.producerID == 0, t.partition < 0, t.records < 1, t.records > batchfmt.MaxRecordCount,
		t.first < 0, t.Last() < t.first:
		return Token{}, badToken("it names no batch")
	}
	return t, nil
}

func badToken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidToken, fmt.Sprintf(format, args...))
}

// Format implements fmt.Formatter: whatever the verb, it shows what t names, and not the
// key.
func (t Token) Format(f fmt.State, _ rune) {
	if t.IsZero() {
		fmt.Fprint(f, "token(none)")
		return
	}
	fmt.Fprintf(f, "token(topic %q, partition %d, producer %d, epoch %d, sequences %d to %d)",
		t.topic, t.partition, t.producerID, t.epoch, t.first, t.Last())
}

// GoString is what Format shows.
func (t Token) GoString() string { return fmt.Sprint(t) }

// LogValue is what slog logs: what t names, and not the key.
func (t Token) LogValue() slog.Value {
	if t.IsZero() {
		return slog.StringValue("none")
	}
	return slog.GroupValue(slog.String("topic", t.topic), slog.Int("partition", t.Partition()),
		slog.Uint64("producer", t.producerID), slog.Uint64("epoch", uint64(t.epoch)),
		slog.Int64("first", t.first), slog.Int64("last", t.Last()))
}

// MarshalText gives what Format shows, so that an encoder which finds a token by chance
// does not give its key away. To store a token use [Token.String].
func (t Token) MarshalText() ([]byte, error) { return fmt.Append(nil, t), nil }
