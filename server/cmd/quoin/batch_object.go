package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// A dumpObject is a batch in a file, or what stands where one should be, in JSON. Its keys
// stay; error is for people.
type dumpObject struct {
	File    content           `json:"file"`
	Byte    int64             `json:"byte"`  // where it begins in the file
	Bytes   int64             `json:"bytes"` // 0 where the file or its end is missing
	Kind    string            `json:"kind"`  // "batch", "control batch", "damage" or "nothing"
	From    *int64            `json:"from"`  // the first offset that it has, or had
	Next    *int64            `json:"next"`  // the one behind the last
	Error   *string           `json:"error"` // null for what verifies
	Torn    bool              `json:"torn"`  // at the end, and nothing says that it was acknowledged
	Batch   *storedBatch      `json:"batch"` // null where the bytes are none
	Records *[]recordInObject `json:"records,omitempty"`
}

// A storedBatch is what the header of a batch says, in JSON. What only a server writes is null
// when none has; what only version 2 has, in version 1.
type storedBatch struct {
	Version       int            `json:"version"`
	HeaderBytes   int            `json:"header_bytes"`
	AppendTime    *stamp         `json:"append_time"`
	Term          *uint32        `json:"term"`
	Durable       *int64         `json:"durable"`
	Checksum      string         `json:"checksum"` // hex: JSON's numbers are too small
	Codec         string         `json:"codec"`
	ServerTime    bool           `json:"server_time"` // the timestamps of the records are the server's
	RecordCount   int            `json:"record_count"`
	RecordsBytes  int            `json:"records_bytes"` // not compressed
	BaseTimestamp *stamp         `json:"base_timestamp"`
	MaxTimestamp  *stamp         `json:"max_timestamp"`
	Producer      *uint64        `json:"producer"`
	Epoch         *uint32        `json:"epoch"`
	First         *int64         `json:"first"` // sequence
	Last          *int64         `json:"last"`
	Position      []byte         `json:"position"` // base64
	Control       *controlObject `json:"control"`
	Extensions    []byte         `json:"extensions"` // base64, all of them as they stand in the header
}

// A controlObject is what a control batch does to the lane of its producer.
type controlObject struct {
	Kind     string `json:"kind"` // "fence" or "close"
	MinEpoch uint32 `json:"min_epoch"`
	Floor    int64  `json:"floor"`
	Last     *int64 `json:"last"`
	Position []byte `json:"position"` // base64
}

// A recordInObject is a record of a batch, as consume prints it.
type recordInObject struct {
	Offset     int64          `json:"offset"`
	Timestamp  stamp          `json:"timestamp"`
	Key        content        `json:"key"`
	Value      content        `json:"value"`
	Headers    []headerObject `json:"headers"`
	Attributes uint8          `json:"attributes"`
}

func storedBatchOf(b batchfmt.Batch) *storedBatch {
	o := &storedBatch{
		Version: int(b.Version()), HeaderBytes: b.HeaderSize(), Checksum: fmt.Sprintf("%016x", uint64(b.Digest())),
		Codec: b.Codec().String(), ServerTime: b.Attributes()&batchfmt.AttrAppendTime != 0,
		RecordCount: b.RecordCount(), RecordsBytes: b.RecordsLength(), Position: b.Position(),
	}
	if b.Stamped() {
		o.AppendTime, o.Term, o.Durable = stampOf(b.AppendTime()), new(uint32(b.Term())), new(int64(b.Durable()))
	}
	if b.Version() >= batchfmt.Version2 && b.HeaderSize() > batchfmt.HeaderSize2 {
		o.Extensions = b.Bytes()[batchfmt.HeaderSize2:b.HeaderSize()]
	}
	if b.ProducerID() != batchfmt.NoProducer {
		o.Producer, o.Epoch = new(uint64(b.ProducerID())), new(uint32(b.Epoch()))
	}
	if c, err := b.Control(); err == nil {
		o.Control = &controlObject{c.Kind.String(), uint32(c.MinEpoch), int64(c.Floor), knownOrNull(int64(c.Last)), c.Position}
		return o
	}
	o.BaseTimestamp, o.MaxTimestamp = stampOf(b.BaseTimestamp()), stampOf(b.MaxTimestamp())
	if o.Producer != nil {
		o.First, o.Last = new(int64(b.BaseSequence())), new(int64(b.LastSequence()))
	}
	return o
}

func stampOf(ms int64) *stamp { return new(stamp(time.UnixMilli(ms))) }

// recordsOfBatch are the records of a batch, as far as they can be read. Their bytes alias the
// batch or the reader.
func recordsOfBatch(b batchfmt.Batch, r *batchfmt.Reader) *[]recordInObject {
	records := []recordInObject{}
	if r.Reset(b) != nil {
		return &records
	}
	for r.Next() {
		rec := r.Record()
		o := recordInObject{int64(b.BaseOffset()) + int64(rec.OffsetDelta), stamp(time.UnixMilli(rec.Timestamp)),
			rec.Key, rec.Value, []headerObject{}, rec.Attributes}
		for _, h := range rec.Headers {
			o.Headers = append(o.Headers, headerObject{h.Key, h.Value})
		}
		records = append(records, o)
	}
	return &records
}

var dumpHeader = []string{"FILE", "BYTE", "BYTES", "KIND", "FROM", "NEXT", "VERSION", "CODEC", "RECORDS", "PRODUCER", "EPOCH", "SEQUENCES", "ERROR"}

// cells are the object as a row.
func (o *dumpObject) cells() []string {
	row := []string{string(o.File), decimal(o.Byte), decimal(o.Bytes), o.Kind, decimalOf(o.From), decimalOf(o.Next),
		"", "", "", "", "", "", ""}
	if b := o.Batch; b != nil {
		row[6], row[7], row[8] = strconv.Itoa(b.Version), b.Codec, strconv.Itoa(b.RecordCount)
		row[9], row[10] = decimalOf(b.Producer), decimalOf(b.Epoch)
		if b.First != nil {
			row[11] = span(*b.First, *b.Last)
		}
	}
	if o.Error != nil {
		row[12] = *o.Error
	}
	return row
}

// decimalOf is empty when there is no number.
func decimalOf[T int64 | uint64 | uint32](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
