package wire

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
)

// The writing side of cursor. Writers trust the caller: a number that does not fit is
// cut to the nearest one that does, and a text for people to what the receiver takes.
// What names something is written as it is, for the receiver to refuse.

func appendU16(b []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(b, v) }
func appendU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }
func appendI16(b []byte, v int16) []byte  { return appendU16(b, uint16(v)) }
func appendI32(b []byte, v int32) []byte  { return appendU32(b, uint32(v)) }
func appendI64(b []byte, v int64) []byte  { return appendU64(b, uint64(v)) }

// appendStr cuts a string that is longer than its length field can say; fields have
// tighter limits, which the receiver checks.
func appendStr(b []byte, s string) []byte {
	if len(s) > math.MaxUint16 {
		s = s[:math.MaxUint16]
	}
	return append(appendU16(b, uint16(len(s))), s...)
}

// appendText writes a text for people. It must never be the reason why a frame is
// refused, so it is shortened, and bytes that are no UTF-8 are left out.
func appendText(b []byte, s string, max int) []byte {
	if len(s) > max {
		s = s[:max]
	}
	return appendStr(b, strings.ToValidUTF8(s, ""))
}

func appendBytes(b, v []byte) []byte {
	return append(appendU32(b, uint32(len(v))), v...)
}

func appendMillis(b []byte, d time.Duration) []byte {
	return appendU32(b, uint32(min(max(d.Milliseconds(), 0), math.MaxUint32)))
}

// appendLongMillis is appendMillis for what may go on for months.
func appendLongMillis(b []byte, d time.Duration) []byte {
	return appendU64(b, uint64(max(d.Milliseconds(), 0)))
}

func appendMicros(b []byte, d time.Duration) []byte {
	return appendU32(b, uint32(min(max(d.Microseconds(), 0), math.MaxUint32)))
}

// openItem leaves room for the length of an item, which starts at the place returned;
// closeItem fills it in. What stands inside of a message goes between the two, so that
// fields can be added to it later. What is in an item must not get beyond 64 KiB, whatever
// the caller wants to say; a large item may.
func openItem(b []byte) (int, []byte) { return len(b), append(b, 0, 0) }

func closeItem(b []byte, start int) []byte {
	binary.LittleEndian.PutUint16(b[start:], uint16(len(b)-start-2))
	return b
}

func openLargeItem(b []byte) (int, []byte) { return len(b), append(b, 0, 0, 0, 0) }

func closeLargeItem(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}
