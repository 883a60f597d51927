package batcher

import (
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
)

// SetLimit changes the limit. A batch here that is over it is divided into ones that are not:
// records keep their order, and those that were gathered stay together, with the position that
// they have. What alone does not fit comes into a batch of its own that is Refused, with a
// *TooLargeError; if the limit is raised before that was taken, it is refused no longer.
func (b *Batcher[T]) SetLimit(bytes int) {
	b.config.Limit = bytes
	b.config.BatchBytes = max(min(b.wanted, b.room()), 1)
	b.refit()
}

// Return puts a batch that was taken in front of the others, as SetLimit would have left it
// there.
func (b *Batcher[T]) Return(batch *Batch[T]) {
	b.full = slices.Insert(b.full, 0, batch)
	b.refit()
}

// Fits reports whether a batch that was taken is within the limit as it is now.
func (b *Batcher[T]) Fits(batch *Batch[T]) bool { return batch.Builder.SectionBytes() <= b.room() }

// Refuses reports whether the batch that is taken next is Refused.
func (b *Batcher[T]) Refuses() bool { return len(b.full) > 0 && b.full[0].Refused != nil }

// refit divides what is over the limit.
func (b *Batcher[T]) refit() {
	if all := b.full; slices.ContainsFunc(all, func(batch *Batch[T]) bool { return !b.stays(batch) }) {
		b.full = make([]*Batch[T], 0, len(all))
		for _, batch := range all {
			b.full = append(b.full, b.divide(batch)...)
		}
	}
	if b.open == nil || b.Fits(b.open) {
		return
	}
	parts := b.divide(b.open)
	b.open, b.last = nil, nil
	b.opened += uint64(len(parts) - 1)
	if last := parts[len(parts)-1]; last.Refused == nil {
		b.open, parts = last, parts[:len(parts)-1]
	} else {
		b.now = false
	}
	b.full = append(b.full, parts...)
}

// stays reports whether a batch is as the limit wants it.
func (b *Batcher[T]) stays(batch *Batch[T]) bool {
	_, large := batch.Refused.(*TooLargeError)
	return !large && (batch.Refused != nil || b.Fits(batch))
}

// divide gives the batches that come into the place of one.
func (b *Batcher[T]) divide(batch *Batch[T]) []*Batch[T] {
	if _, large := batch.Refused.(*TooLargeError); large {
		batch.Refused = nil
	}
	if batch.Refused != nil || b.Fits(batch) {
		return []*Batch[T]{batch}
	}
	d := division[T]{b: b, whole: batch}
	if !d.run() {
		for _, part := range d.parts {
			b.drop(part)
		}
		return []*Batch[T]{batch} // no part of it could be told from another: the server says what it is
	}
	b.drop(batch)
	return d.parts
}

// A division is the work of dividing one batch.
type division[T any] struct {
	b      *Batcher[T]
	whole  *Batch[T]
	reader batchfmt.Reader
	parts  []*Batch[T]
	bytes  int // of the parts, as the caller accounts them
}

// run reports whether the batch is divided; it is as it was if not.
func (d *division[T]) run() bool {
	sealed, err := d.whole.Builder.Seal(nil, batchfmt.Seal{Version: batchfmt.Version1})
	if err != nil {
		return false
	}
	batch, err := batchfmt.Parse(sealed)
	if err != nil {
		return false
	}
	sizes := make([]int, 0, len(d.whole.Tags))
	if err := d.reader.Reset(batch); err != nil {
		return false
	}
	for d.reader.Next() {
		sizes = append(sizes, batchfmt.RecordBytes(d.reader.Record()))
	}
	if d.reader.Err() != nil || len(sizes) != len(d.whole.Tags) || d.reader.Reset(batch) != nil {
		return false
	}
	groups := d.whole.groups
	for from := 0; from < len(sizes); {
		g := group{from: from, to: from + 1}
		if len(groups) > 0 && groups[0].from == from {
			g, groups = groups[0], groups[1:]
		}
		if !d.move(g, sizes[g.from:g.to]) {
			return false
		}
		from = g.to
	}
	d.part().Bytes += d.whole.Bytes - d.bytes
	return true
}

// part is the last one.
func (d *division[T]) part() *Batch[T] { return d.parts[len(d.parts)-1] }

// begin begins another one.
func (d *division[T]) begin() {
	part := d.b.config.Pool.Get().(*Batch[T])
	part.First = d.whole.First
	d.parts = append(d.parts, part)
}

// move copies the records of a group, or the one that stands alone, into the last part, or into
// another one when that has no room for them.
func (d *division[T]) move(g group, sizes []int) bool {
	size := 0
	for _, n := range sizes {
		size += n
	}
	if len(d.parts) == 0 || d.part().Refused != nil || d.part().Builder.SectionBytes()+size > d.b.room() {
		d.begin()
	}
	for i := g.from; i < g.to; i++ {
		if !d.reader.Next() {
			return false
		}
		r := d.reader.Record()
		err := d.part().Builder.Add(r)
		if err != nil && i == g.from && len(d.part().Tags) > 0 { // timestamps that are ages apart
			d.begin()
			err = d.part().Builder.Add(r)
		}
		if err != nil {
			return false
		}
		cost := 0
		if d.b.config.Cost != nil {
			cost = d.b.config.Cost(r)
		}
		part := d.part()
		part.Tags, part.Bytes = append(part.Tags, d.whole.Tags[i]), part.Bytes+cost
		d.bytes += cost
	}
	part := d.part()
	if !d.b.Fits(part) { // then nothing else is in it
		part.Refused = d.b.tooLarge(part.Builder.SectionBytes())
	}
	if g.position != nil || g.to-g.from > 1 {
		to := len(part.Tags)
		part.groups = append(part.groups, group{from: to - (g.to - g.from), to: to, position: g.position})
	}
	if g.position != nil {
		part.Position = g.position
	}
	return true
}
