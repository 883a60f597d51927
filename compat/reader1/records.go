package reader1

import (
	"encoding/binary"
	"math"
)

// readRecords reads all records of a section that belongs to the batch b.
func readRecords(b, section []byte) ([]Record, error) {
	count := int(binary.LittleEndian.Uint32(b[offRecordCount:]))
	offset := int64(binary.LittleEndian.Uint64(b[offBaseOffset:]))
	base := int64(binary.LittleEndian.Uint64(b[offBaseTimestamp:]))
	stamp := int64(binary.LittleEndian.Uint64(b[offAppendTime:]))
	stamped := binary.LittleEndian.Uint16(b[offAttributes:])&attrAppendTime != 0
	c := cursor{b: section, end: len(section)}
	records := make([]Record, 0, min(count, len(section)/minRecord))
	for i := range count {
		r := c.record(i, base)
		if c.err != nil {
			return nil, c.err
		}
		r.Offset = offset + int64(i)
		if stamped {
			r.Timestamp = stamp
		}
		records = append(records, r)
	}
	if c.at != c.end {
		return nil, corrupt("record count", c.at, "%d bytes are left behind the last of %d records", c.end-c.at, count)
	}
	return records, nil
}

// A cursor reads the fields of a section up to end. Its first failure sticks: from then on
// every read gives nothing, so that callers look at err behind the last field.
type cursor struct {
	b       []byte
	at, end int
	err     error
}

func (c *cursor) fail(field string, off int, reason string) {
	if c.err == nil {
		c.err = corrupt(field, off, "%s", reason)
	}
	c.at = c.end
}

// record reads the record whose place in the batch is i.
func (c *cursor) record(i int, base int64) Record {
	start := c.at
	length := c.varint("record length", 32)
	if c.err == nil && (length < minRecord-1 || length > int64(c.end-c.at)) {
		c.fail("record length", start, "is too small for a record, or larger than the rest of the section")
	}
	if c.err != nil {
		return Record{}
	}
	section := c.end
	c.end = c.at + int(length)
	r := c.body(i, base)
	if c.err == nil && c.at != c.end {
		c.fail("record length", start, "is larger than the record")
	}
	c.end = section
	return r
}

// body reads what stands behind the length of a record.
func (c *cursor) body(i int, base int64) Record {
	c.skip("record attributes")
	at := c.at
	delta := c.varint("record timestamp", 64)
	if (delta > 0 && base > math.MaxInt64-delta) || (delta < 0 && base < math.MinInt64-delta) {
		c.fail("record timestamp", at, "is out of range")
	}
	at = c.at
	if c.varint("record offset", 32) != int64(i) {
		c.fail("record offset", at, "is not the record's place in the batch")
	}
	return Record{
		Timestamp: base + delta,
		Key:       c.bytes("record key"),
		Value:     c.bytes("record value"),
		Headers:   c.headers(),
	}
}

func (c *cursor) headers() []Header {
	at := c.at
	n := c.varint("record headers", 32)
	if n < 0 || n > maxHeaders || n > int64(c.end-c.at)/minHeader {
		c.fail("record headers", at, "their number is negative, over the limit, or over what the record can hold")
	}
	if c.err != nil || n == 0 {
		return nil
	}
	list := make([]Header, 0, n)
	for range n {
		at := c.at
		h := Header{Key: c.bytes("header key")}
		if h.Key == nil {
			c.fail("header key", at, "is null")
		}
		h.Value = c.bytes("header value")
		list = append(list, h)
	}
	return list
}

func (c *cursor) skip(field string) {
	if c.at >= c.end {
		c.fail(field, c.at, "is behind the end of the record")
		return
	}
	c.at++
}

// bytes reads a length and as many bytes. It gives nil for null, and only then.
func (c *cursor) bytes(field string) []byte {
	start := c.at
	n := c.varint(field, 32)
	switch {
	case c.err != nil || n == -1:
		return nil
	case n < 0 || n > int64(c.end-c.at):
		c.fail(field, start, "its length is negative, or larger than the rest of the record")
		return nil
	}
	from := c.at
	c.at += int(n)
	return c.b[from:c.at:c.at]
}

// varint reads a zig-zag number of 32 or 64 bits. It may be longer than it needs to be, but
// not longer than the largest one.
func (c *cursor) varint(field string, bits int) int64 {
	var u uint64
	start := c.at
	for shift := 0; c.err == nil && shift < bits; shift += 7 {
		if c.at >= c.end {
			c.fail(field, start, "the number goes on behind the end")
			return 0
		}
		x := c.b[c.at]
		if left := bits - shift; left < 7 && x>>left != 0 {
			break
		}
		c.at++
		u |= uint64(x&0x7f) << shift
		if x < 0x80 {
			return int64(u>>1) ^ -int64(u&1)
		}
	}
	c.fail(field, start, "the number is too long")
	return 0
}
