package producerindex

import (
	"encoding/binary"
	"iter"
	"slices"
	"unsafe"

	"github.com/quoin-io/quoin/batchfmt"
)

// A chunk holds runs of a lane in the order of the log, the older ones in earlier chunks.
// Written on their own they would take five times as much: most runs of a lane begin where
// the one before ended, a small number of offsets on.
//
//	0   .  marks        1 byte: epochDiffers, firstDiffers
//	.   .  epoch        varint, if it is another one than that of the run before
//	.   .  first        varint, zigzag: less the last sequence before, less 1; if not 0
//	.   .  length       varint: last sequence less the first
//	.   .  offset       varint: of the first batch, less that of the run before
//	.   .  reach        varint: offset of the last batch less that of the first
//
// Before the first run of a chunk is noRun. Differences wrap, so that nothing that is
// added can be lost.
type chunk struct {
	prev   *chunk
	b      []byte
	before mark // of the last run in it
}

// mark is what the next run is written against.
type mark struct {
	last   batchfmt.Seq
	offset batchfmt.Offset // of the first batch
	epoch  batchfmt.Epoch
}

const (
	epochDiffers = 1 << iota
	firstDiffers
)

const (
	maxRunSize   = 1 + 5*binary.MaxVarintLen64
	firstChunk   = 48 // bytes; many lanes that have one need no more
	largestChunk = 1024
)

var noRun = mark{last: -1}

// append returns the newest chunk with r behind the runs that c, or nil, and those before it
// have, and the bytes of memory that it took.
func (c *chunk) append(r Run) (newest *chunk, grown int64) {
	if c == nil || cap(c.b)-len(c.b) < maxRunSize {
		c, grown = c.roomFor(r)
	}
	c.b = appendRun(c.b, c.before, r)
	c.before = mark{r.Last, r.FirstOffset, r.Epoch}
	return c, grown
}

// roomFor returns c if r fits, as most runs do that are far from the largest, or a new chunk.
func (c *chunk) roomFor(r Run) (newest *chunk, grown int64) {
	var buf [maxRunSize]byte
	size := firstChunk
	if c != nil {
		if len(c.b)+len(appendRun(buf[:0], c.before, r)) <= cap(c.b) {
			return c, 0
		}
		size = min(2*cap(c.b), largestChunk)
	}
	size = max(size, len(appendRun(buf[:0], noRun, r)))
	return &chunk{prev: c, b: make([]byte, 0, size), before: noRun}, int64(unsafe.Sizeof(chunk{})) + int64(size)
}

// snapshot is the newest chunk as it is now, for find and all. What is appended later does not
// touch it: the bytes that a chunk has never change, and it is filled only while it is the
// newest.
func (c *chunk) snapshot() chunk {
	if c == nil {
		return chunk{}
	}
	return *c
}

// find returns the newest run that holds seq, c being the newest chunk.
func (c chunk) find(seq batchfmt.Seq) (found Run, ok bool) {
	for {
		for r := range c.runs() {
			if r.Holds(seq) {
				found, ok = r, true
			}
		}
		if ok || c.prev == nil {
			return found, ok
		}
		c = *c.prev
	}
}

// all gives the runs in the order of the log, c being the newest chunk.
func (c chunk) all() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		chunks := []chunk{c}
		for p := c.prev; p != nil; p = p.prev {
			chunks = append(chunks, *p)
		}
		for _, c := range slices.Backward(chunks) {
			for r := range c.runs() {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// runs gives the runs of one chunk.
func (c chunk) runs() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		r := Run{Last: noRun.last}
		for b := c.b; len(b) > 0; {
			b = r.next(b)
			if !yield(r) {
				return
			}
		}
	}
}

// appendRun appends r, before being the run before it in the chunk.
func appendRun(b []byte, before mark, r Run) []byte {
	marks := len(b)
	b = append(b, 0)
	if r.Epoch != before.epoch {
		b[marks] |= epochDiffers
		b = binary.AppendUvarint(b, uint64(r.Epoch))
	}
	if d := int64(r.First - before.last - 1); d != 0 {
		b[marks] |= firstDiffers
		b = binary.AppendVarint(b, d)
	}
	b = binary.AppendUvarint(b, uint64(r.Last-r.First))
	b = binary.AppendUvarint(b, uint64(r.FirstOffset-before.offset))
	return binary.AppendUvarint(b, uint64(r.LastOffset-r.FirstOffset))
}

// next reads the run at the start of b, and says where the next one begins.
func (r *Run) next(b []byte) []byte {
	marks := b[0]
	b = b[1:]
	if marks&epochDiffers != 0 {
		r.Epoch = batchfmt.Epoch(take(&b))
	}
	r.First = r.Last + 1
	if marks&firstDiffers != 0 {
		d, n := binary.Varint(b)
		r.First += batchfmt.Seq(d)
		b = b[n:]
	}
	r.Last = r.First + batchfmt.Seq(take(&b))
	r.FirstOffset += batchfmt.Offset(take(&b))
	r.LastOffset = r.FirstOffset + batchfmt.Offset(take(&b))
	return b
}

// take takes a number off the start of b, which this package has written.
func take(b *[]byte) uint64 {
	if x := (*b)[0]; x < 0x80 {
		*b = (*b)[1:]
		return uint64(x)
	}
	v, n := binary.Uvarint(*b)
	*b = (*b)[n:]
	return v
}
