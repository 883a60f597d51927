package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
)

// A Batch is what a batch says, in a form that does not change with the code.
type Batch struct {
	Version    uint8     `json:"version"`
	Refused    string    `json:"refused,omitempty"` // the field for which no reader takes it
	Size       int       `json:"size"`
	BaseOffset int64     `json:"base_offset"`
	AppendTime int64     `json:"append_time"`
	Term       uint32    `json:"term"`
	Durable    int64     `json:"durable"`
	Digest     string    `json:"digest"`
	Codec      string    `json:"codec,omitempty"`
	Producer   *Producer `json:"producer,omitempty"`
	Control    *Control  `json:"control,omitempty"`
	Records    []Record  `json:"records,omitempty"`
}

// A Producer is what a batch of version 2 says of its producer.
type Producer struct {
	ID           uint64 `json:"id"`
	Epoch        uint32 `json:"epoch"`
	BaseSequence int64  `json:"base_sequence"`
	Position     Bytes  `json:"position"`
}

// A Control is what a control batch says.
type Control struct {
	Kind     string `json:"kind"`
	MinEpoch uint32 `json:"min_epoch"`
	Floor    int64  `json:"floor"`
	Last     int64  `json:"last"`
	Position Bytes  `json:"position"`
}

// A Record is one message with its offset.
type Record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // Unix milliseconds
	Key       Bytes    `json:"key"`
	Value     Bytes    `json:"value"`
	Headers   []Header `json:"headers,omitempty"`
}

// A Header is one entry of a record's list.
type Header struct {
	Key   Bytes `json:"key"`
	Value Bytes `json:"value"`
}

// Bytes are null, or a text in which bytes that cannot be read stand as Go writes them in a
// string; long ones are their length and their checksum.
type Bytes []byte

const longBytes = 200

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	text := strings.TrimSuffix(strconv.QuoteToASCII(string(b))[1:], `"`)
	if len(b) > longBytes {
		sum := sha256.Sum256(b)
		text = fmt.Sprintf("%d bytes, SHA-256 %s", len(b), hex.EncodeToString(sum[:]))
	}
	return json.Marshal(text)
}

// MeaningOf reads a batch with the code of today. Bytes without a front are an error.
func MeaningOf(raw []byte) (Batch, error) {
	front, err := batchfmt.ParseFront(raw)
	if err != nil {
		return Batch{}, err
	}
	m := Batch{
		Version: uint8(front.Version), Size: front.Size, BaseOffset: int64(front.BaseOffset), AppendTime: front.AppendTime,
		Term: uint32(front.Term), Durable: int64(front.Durable), Digest: fmt.Sprintf("%016x", uint64(front.Digest)),
	}
	b, err := batchfmt.Parse(raw)
	if err == nil {
		err = m.body(b)
	}
	if err != nil {
		var fault *batchfmt.FormatError
		if !errors.As(err, &fault) {
			return Batch{}, err
		}
		m.Refused = fault.Field
	}
	return m, nil
}

func (m *Batch) body(b batchfmt.Batch) error {
	if err := b.Verify(); err != nil {
		return err
	}
	m.Codec = b.Codec().String()
	if b.Version() == batchfmt.Version2 {
		m.Producer = &Producer{uint64(b.ProducerID()), uint32(b.Epoch()), int64(b.BaseSequence()), b.Position()}
	}
	if b.IsControl() {
		c, err := b.Control()
		m.Control = &Control{c.Kind.String(), uint32(c.MinEpoch), int64(c.Floor), int64(c.Last), c.Position}
		return err
	}
	var r batchfmt.Reader
	if err := r.Reset(b); err != nil {
		return err
	}
	for r.Next() {
		m.Records = append(m.Records, recordOf(b, r.Record()))
	}
	return r.Err()
}

func recordOf(b batchfmt.Batch, r *batchfmt.Record) Record {
	rec := Record{
		Offset: int64(b.BaseOffset()) + int64(r.OffsetDelta), Timestamp: r.Timestamp,
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value),
	}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, Header{bytes.Clone(h.Key), bytes.Clone(h.Value)})
	}
	return rec
}

// Agree says whether today says all that was frozen, both in JSON. Objects of today may have
// more fields: a later version may know more, and nothing else.
func Agree(frozen, today []byte) error {
	was, err := number(frozen)
	if err != nil {
		return err
	}
	is, err := number(today)
	if err != nil {
		return err
	}
	return agree("", was, is)
}

// number decodes JSON without losing digits of large numbers.
func number(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func agree(at string, was, is any) error {
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			return fmt.Errorf("%s was an object and is %v", at, is)
		}
		for key, v := range was {
			if err := agree(at+"."+key, v, now[key]); err != nil {
				return err
			}
		}
	case []any:
		now, ok := is.([]any)
		if !ok || len(now) != len(was) {
			return fmt.Errorf("%s had %d items and is %v", at, len(was), is)
		}
		for i, v := range was {
			if err := agree(fmt.Sprintf("%s[%d]", at, i), v, now[i]); err != nil {
				return err
			}
		}
	default:
		if was != is {
			return fmt.Errorf("%s was %v and is %v", at, was, is)
		}
	}
	return nil
}
