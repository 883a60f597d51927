package batchfmt

import (
	"bytes"
	"math"
	"testing"
)

// The goldens of this file are at the limits of the format, and in the corners where two
// features meet.
var limitGoldens = []golden{
	{name: "v1-gzip-smallest", about: "gzip makes the smallest record larger, and the batch is a batch", read: true,
		build: plainGolden(Seal{Codec: CodecGzip}, Record{})},
	{name: "v1-snappy-smallest", about: "snappy around the smallest record", read: true,
		build: plainGolden(Seal{Codec: CodecSnappy}, Record{})},
	{name: "v1-zstd-smallest", about: "zstd around the smallest record", read: true,
		build: plainGolden(Seal{Codec: CodecZstd}, Record{})},
	{name: "v1-gzip-long", about: "gzip: a value of 1 MiB in a batch that is a thousand times smaller", read: true,
		build: plainGolden(Seal{Codec: CodecGzip}, longRecord)},
	{name: "v1-zstd-long", about: "zstd: a value of 1 MiB in the smallest of batches", read: true,
		build: plainGolden(Seal{Codec: CodecZstd}, longRecord)},
	{name: "v1-zstd-many", about: "three hundred of the smallest records", read: true,
		build: plainGolden(Seal{Codec: CodecZstd}, make([]Record, 300)...)},
	{name: "v1-headers-most", about: "as many headers as a record may have, each the smallest: an empty name and a null value",
		build: plainGolden(Seal{}, Record{Timestamp: noon, Headers: make([]Header, MaxHeaders)})},
	{name: "v1-header-long", about: "a header with lengths of more than one varint byte",
		build: plainGolden(Seal{}, Record{Timestamp: noon, Headers: []Header{{Key: logLine(1, 300), Value: logLine(2, 900)}}})},
	{name: "v1-stamp-largest", about: "the largest numbers that a server can write; the base offset leaves room for the largest batch",
		build: largestStamp(Seal{}, goldenRecords[0])},
	{name: "v1-append-time-zstd", about: "zstd, and the timestamps are the server's", read: true,
		build: stampedGolden(Seal{AppendTime: true, Codec: CodecZstd}, simpleRecords(5, 60)...)},
	{name: "v1-converted", about: "what a reader of version 1 is sent for v2-position with a stamp: the same records at the same offsets",
		build: convertedGolden},
	{name: "v2-smallest", about: "a producer-aware batch with the smallest record; nothing of its kind is smaller",
		build: plainGolden(Seal{ProducerID: 1}, Record{})},
	{name: "v2-largest-numbers", about: "the largest producer id, epoch and base sequence",
		build: plainGolden(Seal{ProducerID: math.MaxUint64, Epoch: math.MaxUint32, BaseSequence: math.MaxInt64 - MaxRecordCount}, goldenRecords[0])},
	{name: "v2-stamp-largest", about: "the largest numbers that a server can write, in version 2",
		build: largestStamp(producer, goldenRecords[0])},
	{name: "v2-null-and-empty", about: "null and empty differ in version 2, too",
		build: stampedGolden(producer, Record{Timestamp: noon}, Record{Timestamp: noon, Key: []byte{}, Value: []byte{}})},
	{name: "v2-headers", about: "headers in version 2: order kept, a name repeated, null and empty values",
		build: stampedGolden(producer, Record{Timestamp: noon, Headers: []Header{
			{Key: []byte("b"), Value: []byte("1")}, {Key: []byte("a")}, {Key: []byte("b"), Value: []byte{}}}})},
	{name: "v2-append-time", about: "the timestamps are the server's, in version 2",
		build: stampedGolden(producer.with(func(s *Seal) { s.AppendTime = true }), goldenRecords...)},
	{name: "v2-gzip", about: "gzip in version 2", read: true,
		build: stampedGolden(producer.with(func(s *Seal) { s.Codec = CodecGzip }), simpleRecords(5, 60)...)},
	{name: "v2-snappy", about: "snappy in version 2, one raw block", read: true,
		build: stampedGolden(producer.with(func(s *Seal) { s.Codec = CodecSnappy }), simpleRecords(5, 60)...)},
	{name: "v2-extensions-most", about: "extensions as long as they may be, in one that nobody knows",
		build: plainGolden(producer.with(func(s *Seal) {
			s.Extensions = []Extension{{Type: 2, Data: logLine(3, MaxExtensionBytes-extHeaderBytes)}}
		}), goldenRecords[0])},
	{name: "v2-control-longest", about: "control with the longest position",
		build: controlGolden(Control{Kind: ControlFence, MinEpoch: math.MaxUint32, Floor: math.MaxInt64, Last: math.MaxInt64,
			Position: bytes.Repeat([]byte{0xff}, MaxPositionBytes)})},
	{name: "v2-control-position-empty", about: "control with an empty position, which is a position",
		build: controlGolden(Control{Kind: ControlClose, Last: 5, Position: []byte{}})},
}

// longRecord compresses to nothing.
var longRecord = Record{Timestamp: noon, Value: make([]byte, 1<<20)}

func largestStamp(s Seal, records ...Record) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		b := mustSeal(t, s, records...)
		mustParse(t, b).Stamp(Stamp{
			BaseOffset: math.MaxInt64 - MaxRecordCount, AppendTime: math.MaxInt64, Term: math.MaxUint32, Durable: math.MaxInt64,
		})
		return b
	}
}

func convertedGolden(t testing.TB) []byte {
	s := producer.with(func(s *Seal) { s.Position = []byte("file=7 byte=4096") })
	b, err := AppendVersion1(nil, mustParse(t, stampedGolden(s, goldenRecords...)(t)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
