package batchfmt

import "math"

// A Header is one entry of a record's header list. The list is ordered and names may
// repeat.
type Header struct {
	Key   []byte // never null: nil is written as the empty name
	Value []byte // nil is null; empty is something else
}

// A Record is one message, as a [Builder] takes it and a [Reader] gives it.
//
// A record travels as these fields; every number but the attributes is a zig-zag
// varint, so the section is byte for byte that of Kafka's record batch v2:
//
//	length           of everything behind it
//	attributes       one byte, no bit has a meaning yet
//	timestamp delta  to the batch's base timestamp
//	offset delta     to the batch's base offset
//	key length       -1 is null
//	key
//	value length     -1 is null
//	value
//	header count     then, for each: key length, key, value length (-1 is null), value
type Record struct {
	// OffsetDelta is the place of the record in its batch, from 0. A Builder ignores it.
	OffsetDelta int
	// Timestamp is in Unix milliseconds. Read from a batch whose timestamps are the
	// server's ([AttrAppendTime]), it is the time of the append.
	Timestamp int64
	// Key and Value are null when nil, which is not the same as empty.
	Key, Value []byte
	Headers    []Header
	// Attributes is the attribute byte of the record. No bit has a meaning yet: it is 0
	// in new records and kept in those that are copied.
	Attributes uint8
}

// maxOffsetDeltaBytes is the varint of the last record of the largest batch.
const maxOffsetDeltaBytes = 3

// RecordBytes is the most that r can take in a record section, in bytes. It is up to 12
// bytes too much, since the deltas to the batch are not known.
func RecordBytes(r *Record) int {
	body := 1 + maxVarint64Bytes + maxOffsetDeltaBytes + contentBytes(r)
	return varintBytes(int64(body)) + body
}

// contentBytes is the encoded length of everything behind the offset delta.
func contentBytes(r *Record) int {
	n := nullableBytes(r.Key) + nullableBytes(r.Value) + varintBytes(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += varintBytes(int64(len(h.Key))) + len(h.Key) + nullableBytes(h.Value)
	}
	return n
}

func nullableBytes(b []byte) int {
	if b == nil {
		return 1
	}
	return varintBytes(int64(len(b))) + len(b)
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}

// appendRecord appends r, whose body has size bytes.
func appendRecord(dst []byte, r *Record, size int, timeDelta int64, offsetDelta int) []byte {
	dst = appendVarint(dst, int64(size))
	dst = append(dst, r.Attributes)
	dst = appendVarint(dst, timeDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	dst = appendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		dst = append(appendVarint(dst, int64(len(h.Key))), h.Key...)
		dst = appendNullable(dst, h.Value)
	}
	return dst
}

// CheckRecord returns the *FormatError that [Builder.Add] gives for a record of which no
// batch can hold the parts, or nil. Whether there is room in a batch it does not say.
func CheckRecord(r *Record) error { return checkFieldSizes(r, 0) }

// checkFieldSizes makes sure that the sum of all lengths cannot overflow.
func checkFieldSizes(r *Record, off int) error {
	if len(r.Headers) > MaxHeaders {
		return fieldError("record headers", off, "%d are over the limit, %d", len(r.Headers), MaxHeaders)
	}
	if len(r.Key) > MaxRecordsBytes || len(r.Value) > MaxRecordsBytes {
		return fieldError("record", off, "key or value is over the limit of the records, %d bytes", MaxRecordsBytes)
	}
	total := 0
	for i := range r.Headers {
		h := &r.Headers[i]
		if len(h.Key) > MaxRecordsBytes-total {
			return fieldError("record headers", off, "are over the limit of the records, %d bytes", MaxRecordsBytes)
		}
		total += len(h.Key)
		if len(h.Value) > MaxRecordsBytes-total {
			return fieldError("record headers", off, "are over the limit of the records, %d bytes", MaxRecordsBytes)
		}
		total += len(h.Value)
	}
	return nil
}

// subTime is a-b; ok is false when the difference has more than 64 bits.
func subTime(a, b int64) (d int64, ok bool) {
	d = a - b
	return d, (a >= b) == (d >= 0)
}

// addTime is a+b; ok is false when the sum has more than 64 bits.
func addTime(a, b int64) (sum int64, ok bool) {
	if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
		return 0, false
	}
	return a + b, true
}
