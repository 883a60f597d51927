package sorttable

import (
	"iter"
	"slices"
	"sort"
	"sync"
)

// blockBuffers holds *[blockSize]byte for look-ups.
var blockBuffers = sync.Pool{New: func() any { return new([blockSize]byte) }}

// Find returns the value of the row with exactly this key. It reads one block, or nothing.
func (t *Table) Find(k Key) (value []byte, ok bool, err error) {
	found, value, ok, err := t.Floor(k)
	if !ok || err != nil || found != k {
		return nil, false, err
	}
	return value, true, nil
}

// Floor returns the row with the greatest key that has the same A as k and a B of at most
// k's. It reads one block, or nothing.
func (t *Table) Floor(k Key) (Key, []byte, bool, error) {
	if !t.filter.has(k.A) {
		return Key{}, nil, false, nil
	}
	i := t.blockOf(k)
	if i < 0 {
		return Key{}, nil, false, nil
	}
	buf := blockBuffers.Get().(*[blockSize]byte)
	defer blockBuffers.Put(buf)
	b := buf[:t.blockBytes(i)]
	if err := t.readBlocks(b, i); err != nil {
		return Key{}, nil, false, err
	}
	r := openBlock(b, t.fences[i].first)
	var row Row
	for r.next() && !k.less(r.row.Key) {
		row = r.row
	}
	if r.bad != "" {
		return Key{}, nil, false, t.rowFault(&r, i)
	}
	if row.Key.A != k.A {
		return Key{}, nil, false, nil
	}
	return row.Key, slices.Clone(row.Value), true, nil
}

// blockOf is the block in which the greatest row of at most k stands, or -1 if all rows come
// behind k.
func (t *Table) blockOf(k Key) int {
	return sort.Search(len(t.fences), func(i int) bool { return k.less(t.fences[i].first) }) - 1
}

// All gives all rows, in order. An error comes in place of a row, and ends it. A value may be
// kept, but holds on to what was read with it, up to 64 KiB. Between two reads the file is
// closed: unless Hold was called, it must keep its name until the end.
func (t *Table) All() iter.Seq2[Row, error] { return t.From(Key{}) }

// From is All from the first row on whose key is k or above.
func (t *Table) From(k Key) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		i := max(t.blockOf(k), 0)
		for i < len(t.fences) {
			n := min(scanBlocks, len(t.fences)-i)
			b := make([]byte, int64(n-1)*blockSize+t.blockBytes(i+n-1))
			err := t.readBlocks(b, i)
			if err != nil {
				yield(Row{}, err)
				return
			}
			for ; n > 0; n-- {
				size := t.blockBytes(i)
				if !t.scanBlock(b[:size], i, k, yield) {
					return
				}
				b = b[size:]
				i++
			}
		}
	}
}

// scanBlocks is how many blocks a scan reads at once.
const scanBlocks = 16

// scanBlock yields the rows of block i from k on, and reports whether to go on.
func (t *Table) scanBlock(b []byte, i int, k Key, yield func(Row, error) bool) bool {
	r := openBlock(b, t.fences[i].first)
	for r.next() {
		switch {
		case i+1 < len(t.fences) && !r.row.Key.less(t.fences[i+1].first), t.head.last.less(r.row.Key):
			r.bad = "the row before it reaches into the next block, or over the last key"
			yield(Row{}, t.rowFault(&r, i))
			return false
		case r.row.Key.less(k):
		case !yield(r.row, nil):
			return false
		}
	}
	if r.bad != "" {
		yield(Row{}, t.rowFault(&r, i))
		return false
	}
	return true
}
