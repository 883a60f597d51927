package batchfmt

import "math"

// A Reader iterates the records of a batch. It is reusable and its zero value is ready;
// it must not be used by several goroutines at once.
//
//	for r.Next() {
//		use(r.Record())
//	}
//	if err := r.Err(); err != nil { … }
//
// It takes no memory for a record. For a batch that is compressed it takes RecordsLength
// bytes and keeps them for the next one; of a buffer larger than 1 MiB it lets go at the
// next batch that needs less than that. A zstd section that is longer than it claims can
// cost 2.25 times the claim for a moment, before it is refused.
type Reader struct {
	c       cursor // over the whole section
	buf     []byte
	count   int
	next    int
	base    int64
	created int64 // the timestamp that the producer gave to rec
	stamped bool  // every timestamp is stamp
	stamp   int64
	rec     Record
}

// keptBytes is the largest buffer that a Reader keeps for a batch that needs less.
const keptBytes = 1 << 20

// Reset starts at the first record of b, which must stay as it is while its records are
// used. It decompresses the section if need be, within the records length that the
// header claims, and refuses a section that turns out longer or shorter. The error is a
// *FormatError and sticks: Next gives false. It does not check the checksum.
func (r *Reader) Reset(b Batch) error {
	r.count, r.next = b.RecordCount(), 0
	r.base, r.created = b.BaseTimestamp(), 0
	r.stamped, r.stamp = b.Attributes()&AttrAppendTime != 0, b.AppendTime()
	r.rec = Record{Headers: r.rec.Headers[:0]}
	r.c = cursor{}
	if b.Codec() == CodecNone {
		r.c.b = b.RecordSection()
		return nil
	}
	r.c.b, r.c.err = r.decompress(b)
	return r.c.err
}

func (r *Reader) decompress(b Batch) ([]byte, error) {
	section, length := b.RecordSection(), b.RecordsLength()
	if most := maxExpansion(b.Codec(), len(section)); int64(length) > most {
		return nil, fieldError("records length", offRecordsLength, "%d bytes of %s cannot become %d", len(section), b.Codec(), length)
	}
	need := length + decodeSlack
	if cap(r.buf) < need || (cap(r.buf) > keptBytes && need <= keptBytes) {
		r.buf = make([]byte, need)
	}
	dst := r.buf[:length:need]
	if err := decompress(dst, b.Codec(), section); err != nil {
		return nil, fieldError("records", b.HeaderSize(), "%s: %v", b.Codec(), err)
	}
	return dst, nil
}

// Next goes to the next record. It gives false behind the last one and on an error:
// see Err.
func (r *Reader) Next() bool {
	switch {
	case r.c.err != nil:
		return false
	case r.next == r.count:
		if left := len(r.c.b) - r.c.pos; left > 0 {
			r.c.err = fieldError("record count", r.c.pos, "%d bytes are left behind the last of %d records", left, r.count)
		}
		return false
	}
	if !r.quick() {
		r.read()
	}
	r.next++
	return r.c.err == nil
}

// Record is the record that Next went to. It is valid until the next call of Next or
// Reset; its bytes alias the batch, or the buffer of the reader if the batch was
// compressed.
func (r *Reader) Record() *Record { return &r.rec }

// Err is what stopped the reader, a *FormatError, or nil when it came to the end. The
// offset in it counts from the start of the section after decompression.
func (r *Reader) Err() error { return r.c.err }

// quick reads the record at the cursor if it is of the kind that nearly all are: well
// formed, shorter than 8 KiB, without headers and attributes, and not the last one. It
// gives false, and leaves the cursor where it is, for every other one: [Reader.read]
// takes those and knows what is wrong with a record.
func (r *Reader) quick() bool {
	b, rec := r.c.b, &r.rec
	length, p := small(b, r.c.pos)
	if length < minRecordBytes-1 || length > len(b)-p {
		return false
	}
	end := p + length
	if b[p] != 0 {
		return false
	}
	delta, p := small(b, p+1)
	offset, p := small(b, p)
	created, ok := addTime(r.base, int64(delta))
	if offset != r.next || !ok {
		return false
	}
	rec.Key, p = smallBytes(b, p, end)
	rec.Value, p = smallBytes(b, p, end)
	if p != end-1 || b[p] != 0 {
		return false
	}
	r.c.pos = end
	rec.Attributes, rec.OffsetDelta, rec.Headers = 0, offset, rec.Headers[:0]
	r.created, rec.Timestamp = created, created
	if r.stamped {
		rec.Timestamp = r.stamp
	}
	return true
}

// read reads the record at the cursor into r.rec.
func (r *Reader) read() {
	section, start := r.c.b, r.c.pos
	length := r.c.varint32("record length")
	switch {
	case r.c.err != nil:
		return
	case length < minRecordBytes-1:
		r.c.fail("record length", start, "is too small for a record")
		return
	case length > len(section)-r.c.pos:
		r.c.fail("record length", start, "is larger than the rest of the section")
		return
	}
	end := r.c.pos + length
	r.c.b = section[:end]
	r.readBody()
	r.c.b = section
	if r.c.pos != end {
		r.c.fail("record length", start, "is larger than the record")
	}
}

// readBody reads the fields behind the length; the cursor ends at the record's end.
func (r *Reader) readBody() {
	c, rec := &r.c, &r.rec
	rec.Attributes = c.byte("record attributes")
	at := c.pos
	delta := c.varint64("record timestamp")
	created, ok := addTime(r.base, delta)
	if !ok {
		c.fail("record timestamp", at, "is out of range")
	}
	r.created, rec.Timestamp = created, created
	if r.stamped {
		rec.Timestamp = r.stamp
	}
	at = c.pos
	rec.OffsetDelta = c.varint32("record offset")
	if rec.OffsetDelta != r.next {
		c.fail("record offset", at, "is not the record's place in the batch")
	}
	rec.Key = c.bytes("record key")
	rec.Value = c.bytes("record value")
	at = c.pos
	n := c.varint32("record headers")
	switch {
	case n < 0:
		c.fail("record headers", at, "their number is negative")
	case n > MaxHeaders:
		c.fail("record headers", at, "are over the limit")
	case n > (len(c.b)-c.pos)/minHeaderBytes:
		c.fail("record headers", at, "do not fit into the record")
	}
	rec.Headers = rec.Headers[:0]
	for range n {
		if c.err != nil {
			return
		}
		r.readHeader()
	}
}

func (r *Reader) readHeader() {
	at := r.c.pos
	key := r.c.bytes("header key")
	if key == nil {
		r.c.fail("header key", at, "is null")
	}
	value := r.c.bytes("header value")
	r.rec.Headers = append(r.rec.Headers, Header{Key: key, Value: value})
}

// CheckRecords is what a server checks before it appends a batch: that the section
// decompresses to what the header claims, that it holds as many well-formed records as
// the header counts and nothing else, that they are numbered 0, 1, 2 …, and that base
// and max timestamp are those of the records. It uses r, which then stands at the end; a
// nil r takes a reader of its own. The error is a *FormatError. The checksum and the
// header are other checks: see [Batch.Verify] and [Parse].
func CheckRecords(b Batch, r *Reader) error {
	if r == nil {
		r = new(Reader)
	}
	if err := r.Reset(b); err != nil {
		return err
	}
	if b.IsControl() {
		return nil
	}
	latest := int64(math.MinInt64)
	for r.Next() {
		if r.next == 1 && r.created != r.base {
			return fieldError("base timestamp", offBaseTimestamp, "is %d, the first record has %d", r.base, r.created)
		}
		latest = max(latest, r.created)
	}
	if err := r.Err(); err != nil {
		return err
	}
	if latest != b.MaxTimestamp() {
		return fieldError("max timestamp", offMaxTimestamp, "is %d, the records have %d", b.MaxTimestamp(), latest)
	}
	return nil
}
