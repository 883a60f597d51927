package batchfmt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// noon is a timestamp for records of tests.
const noon = 1_750_000_000_000

var codecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecZstd}

// mustSeal seals records or ends the test.
func mustSeal(t testing.TB, s Seal, records ...Record) []byte {
	t.Helper()
	var b Builder
	for i := range records {
		if err := b.Add(&records[i]); err != nil {
			t.Fatalf("Add record %d: %v", i, err)
		}
	}
	out, err := b.Seal(nil, s)
	if err != nil {
		t.Fatalf("Seal: %v", err)
	}
	return out
}

func mustParse(t testing.TB, b []byte) Batch {
	t.Helper()
	batch, err := Parse(b)
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, Dump(b))
	}
	return batch
}

// readAll copies the records of b out of a reader.
func readAll(b Batch) ([]Record, error) {
	var r Reader
	if err := r.Reset(b); err != nil {
		return nil, err
	}
	var all []Record
	for r.Next() {
		rec := *r.Record()
		rec.Headers = slices.Clone(rec.Headers)
		all = append(all, rec)
	}
	return all, r.Err()
}

func sameRecord(a, b *Record) bool {
	return a.OffsetDelta == b.OffsetDelta && a.Timestamp == b.Timestamp && a.Attributes == b.Attributes &&
		sameNullable(a.Key, b.Key) && sameNullable(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y Header) bool {
			return bytes.Equal(x.Key, y.Key) && sameNullable(x.Value, y.Value)
		})
}

func sameNullable(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func wantRecords(t testing.TB, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		if !sameRecord(&got[i], &want[i]) {
			t.Errorf("record %d is\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

// wantFormatError ends the test unless err is a *FormatError at the named field.
func wantFormatError(t testing.TB, err error, field string) *FormatError {
	t.Helper()
	var fe *FormatError
	if !errors.As(err, &fe) {
		t.Fatalf("error is %T %v, want a *FormatError of %q", err, err, field)
	}
	if fe.Field != field {
		t.Fatalf("error is %q, want one of field %q", fe, field)
	}
	if fe.Short() {
		t.Fatalf("error %q claims that bytes lack", fe)
	}
	return fe
}

// sealed sets size and checksum of bytes that a test put together by hand.
func sealed(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[offSize:], uint32(len(b)))
	binary.LittleEndian.PutUint64(b[offChecksum:], xxhash.Sum64(b[offAttributes:]))
	return b
}

// aroundSection builds a version-1 batch around any bytes, right or wrong, without a
// check. The fixed timestamps are noon.
func aroundSection(c Codec, count, length int, section []byte) Batch {
	b := make([]byte, HeaderSize1, HeaderSize1+len(section))
	copy(b, magic[:])
	b[offVersion] = byte(Version1)
	binary.LittleEndian.PutUint16(b[offAttributes:], uint16(c))
	binary.LittleEndian.PutUint16(b[offHeaderLength:], HeaderSize1)
	binary.LittleEndian.PutUint32(b[offRecordCount:], uint32(count))
	binary.LittleEndian.PutUint64(b[offBaseTimestamp:], noon)
	binary.LittleEndian.PutUint64(b[offMaxTimestamp:], noon)
	binary.LittleEndian.PutUint32(b[offRecordsLength:], uint32(length))
	return Batch{sealed(append(b, section...))}
}

func simpleRecords(n, valueBytes int) []Record {
	all := make([]Record, n)
	for i := range all {
		all[i] = Record{OffsetDelta: i, Timestamp: noon + int64(i/10), Value: logLine(i, valueBytes)}
	}
	return all
}

// logLine is text that compresses about as well as logs do.
func logLine(i, n int) []byte {
	words := [...]string{"request ", "accepted ", "user=", "latency_ms=", "path=/v1/orders/", "status=200 ", "retry ", "region=eu-west "}
	line := make([]byte, 0, n+32)
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	for len(line) < n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		line = append(line, words[x%uint64(len(words))]...)
		line = append(strconv.AppendUint(line, x>>50, 10), ' ')
	}
	return line[:n]
}
