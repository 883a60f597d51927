package sorttable

import (
	"encoding/binary"
)

// appendRow appends a row whose predecessor in the block is before.
func appendRow(b []byte, before, k Key, value []byte) []byte {
	b = binary.AppendUvarint(b, k.A-before.A)
	if k.A == before.A {
		k.B -= before.B
	}
	b = binary.AppendUvarint(b, k.B)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// blockReader walks the rows of a block whose check is right. That does not make it well
// formed: whoever wrote it may have been wrong.
type blockReader struct {
	b    []byte
	at   int // where the next row begins
	left int // rows
	row  Row // the last one; its value points into b
	// bad says what is wrong with the row at at, and ends the walk.
	bad string
}

// openBlock begins a walk. first is the key in the block's fence.
func openBlock(b []byte, first Key) blockReader {
	r := blockReader{b: b}
	if len(b) < blockHeadSize {
		r.bad = "it has no room for the number of rows"
		return r
	}
	r.left, r.at = int(binary.LittleEndian.Uint16(b)), blockHeadSize
	if r.left == 0 {
		r.bad = "it has no rows"
		return r
	}
	begin := r
	if r.next(); r.bad == "" && r.row.Key != first {
		begin.bad = "it does not begin with the key of its fence"
		return begin
	}
	if r.bad == "" {
		return begin
	}
	return r
}

// next reads a row. It reports false at the end, and where bad says what is wrong.
func (r *blockReader) next() bool {
	if r.left == 0 || r.bad != "" {
		if r.bad == "" && r.at < len(r.b) {
			r.checkPadding()
		}
		return false
	}
	a, n := varint(r.b[r.at:])
	b, m := varint(r.b[r.at+n:])
	size, l := varint(r.b[r.at+n+m:])
	from := r.at + n + m + l
	if n == 0 || m == 0 || l == 0 || size > MaxValueBytes || int(size) > len(r.b)-from {
		return r.fail("a number or the value does not end in the block, or is too large")
	}
	before, k := r.row.Key, Key{r.row.Key.A + a, b}
	if a == 0 {
		k.B += before.B
	}
	if k.A < before.A || a == 0 && k.B < before.B || k == before && r.at > blockHeadSize {
		return r.fail("its key does not rise")
	}
	to := from + int(size)
	r.row = Row{Key: k, Value: r.b[from:to:to]}
	r.at = to
	r.left--
	return true
}

func (r *blockReader) fail(reason string) bool {
	r.bad = reason
	return false
}

// checkPadding looks at what stands behind the last row.
func (r *blockReader) checkPadding() {
	if len(r.b) < blockSize {
		r.bad = "something stands behind the last row"
		return
	}
	for _, c := range r.b[r.at:] {
		if c != 0 {
			r.bad = "what stands behind the last row is not zero"
			return
		}
	}
	r.at = len(r.b)
}

// varint reads a number that takes n bytes; n is 0 if there is none, or a longer form of it.
func varint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, n = binary.Uvarint(b)
	if n <= 0 || b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}
