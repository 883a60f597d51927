package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/quoin-io/quoin/batchfmt"
)

// A cursor reads the fields of a message one after the other and keeps the first error,
// so that a decoder is a list of fields. After an error every field reads as zero.
// Bytes that are left at the end, of the message or of an item in it, are fields of a
// newer peer and are ignored.
//
// Every method names its field the way the layout in the message's comment does: errors
// and dumps show that name. A method exists for each meaning, not for each width, so
// that a dump can print a time as a time and keep a secret.
type cursor struct {
	kind Kind
	rest []byte
	err  error

	// sees is told of every field, with its bytes, as it is read. It is nil but for
	// dumps; methods ask before they call saw, so that ordinary decoding boxes no value.
	sees func(field string, raw []byte, value any)
	from []byte // rest as it was when sees was last told
}

func (c *cursor) fail(field, format string, args ...any) {
	if c.err == nil {
		c.err = &FrameError{c.kind, field, fmt.Sprintf(format, args...)}
	}
}

func (c *cursor) saw(field string, value any) {
	if c.err == nil {
		c.sees(field, c.from[:len(c.from)-len(c.rest)], value)
		c.from = c.rest
	}
}

// more reports whether there is anything behind the last field, in the message or in the item
// that the cursor is in. Who asks in front of a field gives it a default where it is absent.
func (c *cursor) more() bool { return c.err == nil && len(c.rest) > 0 }

// take returns the next n bytes, or nil after an error.
func (c *cursor) take(field string, n int) []byte {
	if c.err == nil && n > len(c.rest) {
		c.fail(field, "needs %d bytes, %d are left", n, len(c.rest))
	}
	if c.err != nil {
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

// take8 to take64 read unsigned numbers without telling anybody.
func (c *cursor) take8(field string) uint8 {
	if b := c.take(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) take16(field string) uint16 {
	if b := c.take(field, 2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) take32(field string) uint32 {
	if b := c.take(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) take64(field string) uint64 {
	if b := c.take(field, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) u16(field string) uint16 {
	v := c.take16(field)
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) u32(field string) uint32 {
	v := c.take32(field)
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) u64(field string) uint64 {
	v := c.take64(field)
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) i16(field string) int16 {
	v := int16(c.take16(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) i32(field string) int32 {
	v := int32(c.take32(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) i64(field string) int64 {
	v := int64(c.take64(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) code(field string) Code {
	v := Code(c.take16(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) durability(field string) Durability {
	v := Durability(c.take8(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) version(field string) batchfmt.Version {
	v := batchfmt.Version(c.take8(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) resolveOutcome(field string) ResolveOutcome {
	v := ResolveOutcome(c.take8(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

func (c *cursor) digest(field string) batchfmt.Digest {
	v := batchfmt.Digest(c.take64(field))
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

// place reads an offset that may also be FromEarliest or FromLatest.
func (c *cursor) place(field string) batchfmt.Offset {
	v := batchfmt.Offset(c.take64(field))
	if c.sees != nil {
		c.saw(field, dumpPlace(v))
	}
	return v
}

// moment reads Unix milliseconds.
func (c *cursor) moment(field string) int64 {
	v := int64(c.take64(field))
	if c.sees != nil {
		c.saw(field, dumpMoment(v))
	}
	return v
}

// millis reads a duration in milliseconds.
func (c *cursor) millis(field string) time.Duration {
	v := time.Duration(c.take32(field)) * time.Millisecond
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

// longMillis reads a duration of 64 bits in milliseconds.
func (c *cursor) longMillis(field string) time.Duration {
	const most = math.MaxInt64 / uint64(time.Millisecond)
	v := time.Duration(min(c.take64(field), most)) * time.Millisecond
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

// micros reads a duration in microseconds.
func (c *cursor) micros(field string) time.Duration {
	v := time.Duration(c.take32(field)) * time.Microsecond
	if c.sees != nil {
		c.saw(field, v)
	}
	return v
}

// flags reads a byte whose bits have names, the lowest first. An unknown bit is refused:
// whoever sets it means something that this side would miss.
func (c *cursor) flags(field string, names []string) uint8 {
	v := c.take8(field)
	if unknown := v >> len(names) << len(names); unknown != 0 {
		c.fail(field, "%#02x is not known", unknown)
		return 0
	}
	if c.sees != nil {
		c.saw(field, dumpFlags{v, names})
	}
	return v
}

// marks is flags for what a server only tells: a bit that is not known is news that this side
// can do without, as it can without a field that came later.
func (c *cursor) marks(field string, names []string) uint8 {
	v := c.take8(field)
	if c.sees != nil {
		c.saw(field, dumpFlags{v &^ (v >> len(names) << len(names)), names})
	}
	return v
}

func (c *cursor) id(field string) (id [16]byte) {
	copy(id[:], c.take(field, len(id)))
	if c.sees != nil {
		c.saw(field, id)
	}
	return id
}

func (c *cursor) secret(field string) (s Secret) {
	copy(s[:], c.take(field, len(s)))
	if c.sees != nil {
		c.saw(field, s)
	}
	return s
}

// token reads an id that proves a right, but that logs need to tell from others: a dump
// shows the first bytes.
func (c *cursor) token(field string) (id [16]byte) {
	copy(id[:], c.take(field, len(id)))
	if c.sees != nil {
		c.saw(field, dumpToken(id))
	}
	return id
}

// str reads a string of at most max bytes; it must be valid UTF-8.
func (c *cursor) str(field string, max int) string {
	n := int(c.take16(field))
	if n > max {
		c.fail(field, "has %d bytes, at most %d are allowed", n, max)
	}
	b := c.take(field, n)
	if !utf8.Valid(b) {
		c.fail(field, "is not valid UTF-8")
		return ""
	}
	s := string(b)
	if c.sees != nil {
		c.saw(field, s)
	}
	return s
}

// bytes reads a byte string that aliases the payload; nil when it is empty.
func (c *cursor) bytes(field string, max int) []byte {
	b := c.takeBytes(field, max)
	if c.sees != nil {
		c.saw(field, b)
	}
	return b
}

// batches reads batches, one behind the other, that alias the payload. They are not
// looked at: whoever stores or uses them checks them.
func (c *cursor) batches(field string) []byte {
	b := c.takeBytes(field, batchfmt.MaxBatchBytes)
	if c.sees != nil {
		c.saw(field, dumpBatches(b))
	}
	return b
}

func (c *cursor) takeBytes(field string, max int) []byte {
	n := c.take32(field)
	if n > uint32(max) {
		c.fail(field, "has %d bytes, at most %d are allowed", n, max)
	}
	if n == 0 {
		return nil
	}
	return c.take(field, int(n))
}

// A behind is what stands behind the item that a cursor is in.
type behind struct {
	rest  []byte
	lacks uint32 // bytes of the item that are not there; only dumps go into such an item
}

// item goes into an item with a length of 16 bits: until leave, there is nothing behind it.
func (c *cursor) item(field string) behind { return c.enter(field, uint32(c.take16(field))) }

// largeItem is item for a length of 32 bits.
func (c *cursor) largeItem(field string) behind { return c.enter(field, c.take32(field)) }

func (c *cursor) enter(field string, n uint32) behind {
	if c.sees != nil {
		return c.enterSeen(field, n)
	}
	all := c.rest
	if uint64(n) > uint64(len(all)) {
		c.fail(field, "needs %d bytes, %d are left", n, len(all))
		return behind{}
	}
	c.rest = all[:n:n]
	return behind{rest: all[n:]}
}

// enterSeen is enter for a dump, which is to show the fields that are there.
func (c *cursor) enterSeen(field string, n uint32) behind {
	c.saw(field, dumpItemBytes(n))
	have := uint32(min(uint64(n), uint64(len(c.rest))))
	b := behind{rest: c.rest[have:], lacks: n - have}
	c.rest = c.rest[:have:have]
	c.from = c.rest
	return b
}

// leave ends what item or largeItem began.
func (c *cursor) leave(field string, b behind) {
	if c.sees != nil {
		c.leaveSeen(field, b)
	}
	c.rest = b.rest
}

func (c *cursor) leaveSeen(field string, b behind) {
	switch n := len(c.rest); {
	case b.lacks > 0:
		c.fail(field, "%d of its bytes are not there", b.lacks)
	case n > 0:
		c.rest = nil
		c.saw("", dumpNewer(n))
	}
	c.from = b.rest
}

// list reads the length of a list whose items take at least itemBytes each, with their
// own length if they have one, so that a lie about the length cannot make us take memory.
func (c *cursor) list(field string, itemBytes int) int {
	n := c.take32(field)
	if c.sees != nil {
		// A dump is to show the items that are there, up to the one that is cut off.
		c.saw(field, dumpList(n))
		n = uint32(min(uint64(n), uint64(len(c.rest)/itemBytes+1)))
	} else if uint64(n)*uint64(itemBytes) > uint64(len(c.rest)) {
		c.fail(field, "%d items do not fit into %d bytes", n, len(c.rest))
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// room empties a list and makes room for n items, if it is not there. Exactly n: what
// append would add on top is memory that nobody sent bytes for.
func room[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, 0, n)
	}
	return list[:0]
}

// items is each for items with a length of 16 bits.
func (c *cursor) items(n int, field string, read func()) {
	for i := 0; i < n && c.err == nil; i++ {
		c.begin(i)
		b := c.item(field)
		read()
		c.leave(field, b)
	}
	c.end()
}

// each reads the n items of a list that list announced, and stops at an error.
func (c *cursor) each(n int, read func()) {
	for i := 0; i < n && c.err == nil; i++ {
		c.begin(i)
		read()
	}
	c.end()
}

// begin and end tell of items and of the end of their list.
func (c *cursor) begin(i int) {
	if c.sees != nil {
		c.saw("", dumpItem(i))
	}
}

func (c *cursor) end() {
	if c.sees != nil {
		c.saw("", dumpListEnd{})
	}
}
