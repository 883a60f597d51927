package batcher

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// A TooLargeError says that a record alone is larger than a batch may be.
type TooLargeError struct {
	Bytes int // what a batch of this record alone would take, before compression
	Limit int // bytes of a batch
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("record needs a batch of %d bytes, the limit is %d", e.Bytes, e.Limit)
}

// A Batch gathers records. It holds copies of them, the caller may reuse its memory.
type Batch[T any] struct {
	Builder batchfmt.Builder
	Tags    []T       // one a record, in order
	Bytes   int       // what the caller accounted for the records, in all
	First   time.Time // when the first record was accepted
	// Position is where the source stands behind the last record; nil for none.
	Position []byte
	// Refused is why the batch is not to be sent: its records end with it, when the outcome of
	// those before them is there. Nil for most.
	Refused error

	groups []group // in the order of their records; records of none stand alone
}

// A group is records that must stay in one batch, and that have a position of their own. It may
// be a single one.
type group struct {
	from, to int // places among the records of the batch, half open
	position []byte
}

// Reset empties the batch and keeps its memory.
func (b *Batch[T]) Reset() {
	b.Builder.Reset()
	clear(b.Tags)
	clear(b.groups)
	b.Tags, b.Bytes, b.First, b.Position = b.Tags[:0], 0, time.Time{}, nil
	b.Refused, b.groups = nil, b.groups[:0]
}

// Config of a Batcher. Only the limit changes, by SetLimit.
type Config struct {
	BatchBytes int           // bytes of records, before compression, at which a batch is full
	Adapt      bool          // that grows with each full batch that waits: what is slow to leave comes in fewer batches
	Limit      int           // bytes of a whole batch that the topic takes
	Head       int           // bytes of a batch besides its records; 0 for batchfmt.HeaderSize2
	Linger     time.Duration // how long an open batch waits for more; 0 for not at all
	Pool       *sync.Pool    // of *Batch[T], empty ones; may be shared by many batchers
	// Cost is what the caller accounts for a record. It is asked when a batch is divided.
	Cost func(*batchfmt.Record) int
}

// A Batcher gathers the records of one lane. It is not safe for concurrent use.
type Batcher[T any] struct {
	config Config
	wanted int         // BatchBytes, whatever the limit
	full   []*Batch[T] // oldest first
	open   *Batch[T]   // nil when no record waits
	last   *Batch[T]   // which took the last record; nil when none was added in this Gather
	opened uint64
	now    bool // what waits is due whatever the rule says: somebody flushes, or an answer came
}

// New returns an empty batcher. A BatchBytes over the limit is taken as the limit.
func New[T any](c Config) *Batcher[T] {
	if c.Head == 0 {
		c.Head = batchfmt.HeaderSize2
	}
	b := &Batcher[T]{config: c, wanted: c.BatchBytes}
	b.SetLimit(c.Limit)
	return b
}

// room is how many bytes of records a batch may have.
func (b *Batcher[T]) room() int { return b.config.Limit - b.config.Head }

func (b *Batcher[T]) tooLarge(bytes int) *TooLargeError {
	return &TooLargeError{Bytes: bytes + b.config.Head, Limit: b.config.Limit}
}

// Add copies the record into the open batch. bytes is what the caller accounts for it.
// The error is a *TooLargeError, or a *batchfmt.FormatError on other limits of a record;
// then nothing was added.
func (b *Batcher[T]) Add(r *batchfmt.Record, bytes int, tag T, now time.Time) error {
	if !b.surelyFits(r) {
		size := batchfmt.RecordBytes(r)
		if size > b.room() {
			return b.tooLarge(size)
		}
		if b.open != nil && !b.fits(size) {
			b.closeOpen()
		}
	}
	fresh := b.open == nil
	if fresh {
		b.open = b.config.Pool.Get().(*Batch[T])
		b.open.First = now
		if len(b.full) > 0 {
			last := b.full[len(b.full)-1]
			b.open.Builder.Grow(min(b.fullAt(), last.Builder.SectionBytes()*2))
			b.open.Tags = slices.Grow(b.open.Tags, len(last.Tags))
		}
	}
	if err := b.open.Builder.Add(r); err != nil {
		if fresh {
			b.drop(b.open)
			b.open = nil
			return err
		}
		// It may fit into no batch, or only not into this one: its timestamp may be too far
		// from that of the first record.
		if err := batchfmt.CheckRecord(r); err != nil {
			return err
		}
		b.closeOpen()
		return b.Add(r, bytes, tag, now)
	}
	if fresh {
		b.opened++
	}
	b.open.Tags = append(b.open.Tags, tag)
	b.open.Bytes += bytes
	b.last = b.open
	if b.open.Builder.SectionBytes() >= b.fullAt() {
		b.closeOpen()
	}
	return nil
}

// fullAt is how many bytes of records fill the next batch.
func (b *Batcher[T]) fullAt() int {
	if !b.config.Adapt {
		return b.config.BatchBytes
	}
	return min(b.config.BatchBytes*(1+len(b.full)), b.room())
}

// Gather sees to it that records of so many bytes in all, as [batchfmt.RecordBytes] says,
// come into one batch if they are added next, and that nothing is sent between them. The
// error is a *TooLargeError when no batch can take them. done must be called behind the last.
func (b *Batcher[T]) Gather(bytes, records int) (done func(), err error) {
	if bytes > b.room() || records > batchfmt.MaxRecordCount {
		return nil, b.tooLarge(bytes)
	}
	if b.open != nil && (b.open.Builder.SectionBytes()+bytes > b.fullAt() || b.open.Builder.Len()+records > batchfmt.MaxRecordCount) {
		b.closeOpen()
	}
	from := 0
	if b.open != nil {
		from = len(b.open.Tags)
	}
	full := b.config.BatchBytes
	b.config.BatchBytes, b.last = b.config.Limit, nil
	return func() {
		b.config.BatchBytes = full
		if b.last != nil && from+1 < len(b.last.Tags) {
			b.last.groups = append(b.last.groups, group{from: from, to: len(b.last.Tags)})
		}
		if b.open != nil && b.open.Builder.SectionBytes() >= b.fullAt() {
			b.closeOpen()
		}
	}, nil
}

// SetPosition says where the source stands behind the last record that was added, or behind
// those that were gathered last: it is called before anything else.
func (b *Batcher[T]) SetPosition(position []byte) {
	batch := b.last
	batch.Position = append([]byte{}, position...)
	to := len(batch.Tags)
	if n := len(batch.groups); n == 0 || batch.groups[n-1].to < to {
		batch.groups = append(batch.groups, group{from: to - 1, to: to})
	}
	batch.groups[len(batch.groups)-1].position = batch.Position
}

func (b *Batcher[T]) fits(size int) bool {
	return b.open.Builder.SectionBytes()+size <= b.fullAt() && b.open.Builder.Len() < batchfmt.MaxRecordCount
}

// mostAround is more than what a record without headers takes besides its key and value.
const mostAround = 64

// surelyFits reports whether a record has room in the open batch for sure, which takes less than
// to find out how much it needs.
func (b *Batcher[T]) surelyFits(r *batchfmt.Record) bool {
	return b.open != nil && len(r.Headers) == 0 && b.fits(len(r.Key)+len(r.Value)+mostAround)
}

func (b *Batcher[T]) closeOpen() {
	b.full = append(b.full, b.open)
	b.open, b.now = nil, false
}

// Remove takes out the record whose tag is the one that is asked for; bytes is what Add was
// told of it. It reports false when it is not there, or cannot be taken out of its batch, as
// from one with records that were gathered or have a position.
func (b *Batcher[T]) Remove(bytes int, is func(T) bool) bool {
	for i, batch := range b.full {
		if n := slices.IndexFunc(batch.Tags, is); n >= 0 {
			ok := batch.remove(n, bytes)
			if len(batch.Tags) == 0 {
				b.full = slices.Delete(b.full, i, i+1)
				b.drop(batch)
			}
			return ok
		}
	}
	if b.open == nil {
		return false
	}
	n := slices.IndexFunc(b.open.Tags, is)
	if n < 0 || !b.open.remove(n, bytes) {
		return false
	}
	if len(b.open.Tags) == 0 {
		b.drop(b.open)
		b.open, b.now = nil, false
	}
	return true
}

// RemoveAll is Remove for all records whose tags it is told, at the price of one a batch. bytes
// says what Add was told of one; each that was taken out is given to gone.
func (b *Batcher[T]) RemoveAll(is func(T) bool, bytes func(T) int, gone func(T)) {
	full := b.full[:0]
	for _, batch := range b.full {
		if batch.RemoveAll(is, bytes, gone); len(batch.Tags) == 0 {
			b.drop(batch)
			continue
		}
		full = append(full, batch)
	}
	clear(b.full[len(full):])
	b.full = full
	if b.open == nil {
		return
	}
	if b.open.RemoveAll(is, bytes, gone); len(b.open.Tags) == 0 {
		b.drop(b.open)
		b.open, b.now = nil, false
	}
}

// RemoveAll is that of [Batcher], for one batch.
func (b *Batch[T]) RemoveAll(is func(T) bool, bytes func(T) int, gone func(T)) {
	if len(b.groups) > 0 || !slices.ContainsFunc(b.Tags, is) || !b.Builder.RemoveAll(func(i int) bool { return is(b.Tags[i]) }) {
		return
	}
	b.Tags = slices.DeleteFunc(b.Tags, func(tag T) bool {
		out := is(tag)
		if out {
			b.Bytes -= bytes(tag)
			gone(tag)
		}
		return out
	})
}

// Holds reports whether the record with that tag waits here.
func (b *Batcher[T]) Holds(is func(T) bool) bool {
	for _, batch := range b.full {
		if slices.ContainsFunc(batch.Tags, is) {
			return true
		}
	}
	return b.open != nil && slices.ContainsFunc(b.open.Tags, is)
}

// Remove is that of [Batcher], for a batch that was taken.
func (b *Batch[T]) Remove(bytes int, is func(T) bool) bool {
	n := slices.IndexFunc(b.Tags, is)
	return n >= 0 && b.remove(n, bytes)
}

func (b *Batch[T]) remove(n, bytes int) bool {
	if len(b.groups) > 0 || !b.Builder.Remove(n) {
		return false
	}
	b.Tags, b.Bytes = slices.Delete(b.Tags, n, n+1), b.Bytes-bytes
	return true
}

// drop empties a batch and gives it back.
func (b *Batcher[T]) drop(batch *Batch[T]) {
	batch.Reset()
	b.config.Pool.Put(batch)
}

// Opened counts the batches that were begun. While it stays the same, records go into
// the same batch.
func (b *Batcher[T]) Opened() uint64 { return b.opened }

// Empty reports whether no record waits.
func (b *Batcher[T]) Empty() bool { return b.open == nil && len(b.full) == 0 }

// Gathering reports whether a batch is open to take more records.
func (b *Batcher[T]) Gathering() bool { return b.open != nil }

// Flush makes what waits due.
func (b *Batcher[T]) Flush() { b.now = b.open != nil }

// Answered says that an answer for an earlier batch came. Without linger it makes due
// what queued while the answer was on its way.
func (b *Batcher[T]) Answered() {
	if b.config.Linger == 0 {
		b.Flush()
	}
}

// Due reports whether a batch is to be sent; idle says that nothing is in flight. First
// match wins.
//
//	a batch is full                        due
//	no record waits                        not due
//	flushed, or an answer came meanwhile   due
//	linger is set                          due when the first record waited that long
//	idle                                   due
//	otherwise                              not due
func (b *Batcher[T]) Due(now time.Time, idle bool) bool {
	switch {
	case len(b.full) > 0:
		return true
	case b.open == nil:
		return false
	case b.now:
		return true
	case b.config.Linger > 0:
		return !now.Before(b.open.First.Add(b.config.Linger))
	}
	return idle
}

// LingerEnds is when the open batch becomes due by itself, or zero.
func (b *Batcher[T]) LingerEnds() time.Time {
	if b.open == nil || b.config.Linger == 0 {
		return time.Time{}
	}
	return b.open.First.Add(b.config.Linger)
}

// Oldest is when the oldest record that waits was accepted, or zero.
func (b *Batcher[T]) Oldest() time.Time {
	switch {
	case len(b.full) > 0:
		return b.full[0].First
	case b.open != nil:
		return b.open.First
	}
	return time.Time{}
}

// Take removes the oldest batch, full or not, or returns nil. Who takes it puts it back
// into the pool, empty.
func (b *Batcher[T]) Take() *Batch[T] {
	if len(b.full) > 0 {
		taken := b.full[0]
		b.full = append(b.full[:0], b.full[1:]...)
		return taken
	}
	taken := b.open
	b.open, b.now = nil, false
	return taken
}
