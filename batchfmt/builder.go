package batchfmt

import "slices"

// A Builder collects records and seals them into batches. It is reusable and its zero
// value is ready; it keeps its memory over Reset. It must not be used by several
// goroutines at once.
type Builder struct {
	section []byte // the encoded records, not compressed
	count   int
	base    int64 // timestamp of the first record
	max     int64 // largest timestamp
	exts    []Extension
}

// Add encodes r behind the records that are there; nothing of r is kept. The record
// numbers itself: r.OffsetDelta is ignored. On an error, a *FormatError that names the
// limit, the builder is as it was.
func (b *Builder) Add(r *Record) error {
	if b.count == MaxRecordCount {
		return fieldError("record count", len(b.section), "is at its limit, %d", MaxRecordCount)
	}
	if err := checkFieldSizes(r, len(b.section)); err != nil {
		return err
	}
	base := b.base
	if b.count == 0 {
		base = r.Timestamp
	}
	delta, ok := subTime(r.Timestamp, base)
	if !ok {
		return fieldError("record timestamp", len(b.section), "%d is too far from the first one, %d", r.Timestamp, base)
	}
	size := 1 + varintBytes(delta) + varintBytes(int64(b.count)) + contentBytes(r)
	if varintBytes(int64(size))+size > MaxRecordsBytes-len(b.section) {
		return fieldError("records length", len(b.section), "a record of %d bytes more is over the limit, %d", size, MaxRecordsBytes)
	}
	if b.count == 0 {
		b.base, b.max = base, base
	}
	b.section = appendRecord(b.section, r, size, delta, b.count)
	b.max = max(b.max, r.Timestamp)
	b.count++
	return nil
}

// Remove takes out the record that was added as the nth, from 0; those behind it move up.
// It adds all others again. It reports false, and changes nothing, when there is no such
// record, or when the timestamps of the others are too far from that of a new first one.
func (b *Builder) Remove(n int) bool {
	return n >= 0 && n < b.count && b.RemoveAll(func(i int) bool { return i == n })
}

// RemoveAll takes out the records whose places, from 0, it is told, all of them at the price of
// one. It reports false, and changes nothing, when the timestamps of the others are too far from
// that of a new first one.
func (b *Builder) RemoveAll(out func(i int) bool) bool {
	all := Reader{c: cursor{b: b.section}, count: b.count, base: b.base}
	left := Builder{section: make([]byte, 0, len(b.section))}
	for i := 0; all.Next(); i++ {
		if !out(i) && left.Add(all.Record()) != nil {
			return false
		}
	}
	if all.Err() != nil {
		return false
	}
	b.section, b.count, b.base, b.max = left.section, left.count, left.base, left.max
	return true
}

// Grow makes room for bytes more of records.
func (b *Builder) Grow(bytes int) { b.section = slices.Grow(b.section, bytes) }

// Len is the number of records so far.
func (b *Builder) Len() int { return b.count }

// SectionBytes is the size of the record section so far, before compression.
func (b *Builder) SectionBytes() int { return len(b.section) }

// Reset forgets the records and keeps the memory.
func (b *Builder) Reset() {
	b.section, b.count, b.base, b.max = b.section[:0], 0, 0, 0
	clear(b.exts)
	b.exts = b.exts[:0]
}

// Seal appends a batch of all records so far to dst and returns the longer slice. The
// fields of the server are zero. The builder keeps its records until Reset, so the same
// records can be sealed again.
//
// The codec is used as asked even when it makes the batch larger. On an error, always a
// *FormatError, dst is returned as it came.
func (b *Builder) Seal(dst []byte, s Seal) ([]byte, error) {
	if b.count == 0 {
		return dst, fieldError("record count", offRecordCount, "is 0")
	}
	exts, err := s.extensions(b.exts[:0])
	if err != nil {
		return dst, err
	}
	b.exts = exts
	start := len(dst)
	out := s.appendHeader(dst, exts, sealedBytes(s.Codec, len(b.section)))
	out, err = appendCompressed(out, s.Codec, b.section)
	if err != nil {
		return dst, err
	}
	err = finish(out[start:], Section{
		Count: b.count, BaseTimestamp: b.base, MaxTimestamp: b.max, Length: len(b.section),
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}
