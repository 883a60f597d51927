package batchfmt

import (
	"math"
	"math/bits"
)

// Varints are the zig-zag base-128 numbers of Kafka's record format. A number of 32 bits
// takes at most five bytes, one of 64 bits at most ten; whatever is longer is refused,
// because no other implementation could read the record. Within these bounds a varint
// may be longer than it needs to be: such records are accepted and kept as they are.
const (
	maxVarint32Bytes = 5
	maxVarint64Bytes = 10
)

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// varintBytes is the length of the shortest varint of v: the bits divided by 7, rounded
// up, without a division.
func varintBytes(v int64) int { return (bits.Len64(zigzag(v)|1)*9 + 64) >> 6 }

func appendVarint(dst []byte, v int64) []byte {
	u := zigzag(v)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// A cursor reads the fields of one record section. Its first failure sticks and takes
// the bytes away: from then on every read gives zero, so callers look at err once,
// behind the last field.
type cursor struct {
	b   []byte
	pos int
	err error
}

func (c *cursor) fail(field string, off int, reason string) {
	if c.err == nil {
		c.err = &FormatError{Field: field, Offset: off, Reason: reason}
	}
	c.b, c.pos = nil, 0
}

// varint32 reads a number that Kafka gives 32 bits.
func (c *cursor) varint32(field string) int {
	u := c.uvarint(field, maxVarint32Bytes, 0x0f)
	return int(int32(u>>1) ^ -int32(u&1))
}

// varint64 reads a number that Kafka gives 64 bits.
func (c *cursor) varint64(field string) int64 {
	return unzigzag(c.uvarint(field, maxVarint64Bytes, 0x01))
}

// uvarint reads at most maxBytes, of which the last has room for the bits of lastMask
// only.
func (c *cursor) uvarint(field string, maxBytes int, lastMask byte) uint64 {
	if c.err != nil {
		return 0
	}
	var u uint64
	for i := range maxBytes {
		if c.pos+i >= len(c.b) {
			c.fail(field, c.pos, "the number goes on behind the end")
			return 0
		}
		x := c.b[c.pos+i]
		if i == maxBytes-1 && x&^lastMask != 0 {
			break
		}
		u |= uint64(x&0x7f) << (7 * i)
		if x < 0x80 {
			c.pos += i + 1
			return u
		}
	}
	c.fail(field, c.pos, "the number is too long")
	return 0
}

// byte reads one byte.
func (c *cursor) byte(field string) byte {
	if c.err != nil {
		return 0
	}
	if c.pos >= len(c.b) {
		c.fail(field, c.pos, "is behind the end of the record")
		return 0
	}
	c.pos++
	return c.b[c.pos-1]
}

// bytes reads a length and as many bytes, which alias the section. A length of -1 is
// null and gives nil; no bytes give an empty slice that is not nil.
func (c *cursor) bytes(field string) []byte {
	start := c.pos
	n := c.varint32(field)
	if p := c.pos; uint(n) <= uint(len(c.b)-p) {
		c.pos = p + n
		return c.b[p:c.pos:c.pos]
	}
	switch {
	case n == -1:
	case n < 0:
		c.fail(field, start, "its length is negative")
	default:
		c.fail(field, start, "is longer than the rest of the record")
	}
	return nil
}

// beyond is a position that no section has.
const beyond = math.MaxInt32

// small reads a varint of one or two bytes that is not at the very end of b, and gives
// the position behind it. For anything else it gives 0 and beyond, and beyond again when
// it is asked to read there, so that callers need not look after every number.
func small(b []byte, p int) (v, next int) {
	if p >= len(b)-1 {
		return 0, beyond
	}
	x, y := uint(b[p]), uint(b[p+1])
	if x < 0x80 {
		return int(x>>1) ^ -int(x&1), p + 1
	}
	if y < 0x80 {
		x = x&0x7f | y<<7
		return int(x>>1) ^ -int(x&1), p + 2
	}
	return 0, beyond
}

// smallBytes reads bytes, nil for null, that [small] gives the length of and that end
// before end.
func smallBytes(b []byte, p, end int) ([]byte, int) {
	n, p := small(b, p)
	switch {
	case n == -1:
		return nil, p
	case n < 0 || n > end-p:
		return nil, beyond
	}
	return b[p : p+n : p+n], p + n
}
