package batchfmt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Bounds of what a dump shows of one batch.
const (
	dumpHexBytes   = 64  // of a field
	dumpTextBytes  = 48  // of a key, value, header or extension
	dumpRecords    = 100 // of a batch
	dumpHeaders    = 8   // of a record
	dumpLineBytes  = 16
	dumpHexColumns = 3 * dumpLineBytes
)

// Dump prints the batch at the start of b for people, field by field: the bytes in hex,
// then behind a # their offset, name and meaning. It prints what it can of a batch that
// is cut off, damaged or of an unknown version, and ends with what is wrong. Long fields
// and long lists are shortened. The form may change in any release.
func Dump(b []byte) string { return string(AppendDump(nil, b)) }

// AppendDump appends what [Dump] prints to dst.
func AppendDump(dst, b []byte) []byte {
	d := dumper{out: dst, b: b, hexBytes: dumpHexBytes, records: dumpRecords}
	d.batch()
	return d.out
}

type dumper struct {
	out      []byte
	done     int    // bytes of the header that are printed
	b        []byte // all that is there, may be more or less than the batch
	hexBytes int
	records  int
}

// dumpField is a field of the header with the way to print it.
type dumpField struct {
	off, n int
	name   string
	text   func(v uint64) string
}

var dumpFront = []dumpField{
	{offMagic, 3, "magic", nil},
	{offVersion, 1, "version", dumpUint},
	{offSize, 4, "size", dumpUint},
	{offBaseOffset, 8, "base offset", dumpInt},
	{offAppendTime, 8, "append time", dumpTime},
	{offTerm, 4, "owner term", dumpUint},
	{offFrontCheck, 4, "front check", func(v uint64) string { return fmt.Sprintf("%08x", v) }},
	{offDurable, 8, "durable offset", dumpInt},
	{offChecksum, 8, "checksum", func(v uint64) string { return fmt.Sprintf("%016x", v) }},
}

var dumpBody = []dumpField{
	{offAttributes, 2, "attributes", dumpAttributes},
	{offHeaderLength, 2, "header length", dumpUint},
	{offRecordCount, 4, "record count", dumpUint},
	{offBaseTimestamp, 8, "base timestamp", dumpTime},
	{offMaxTimestamp, 8, "max timestamp", dumpTime},
	{offRecordsLength, 4, "records length", dumpUint},
	{offReserved, 4, "reserved", dumpUint},
}

var dumpProducer = []dumpField{
	{offProducerID, 8, "producer id", dumpUint},
	{offBaseSequence, 8, "base sequence", dumpInt},
	{offEpoch, 4, "producer epoch", dumpUint},
	{offExtLength, 4, "extension length", dumpUint},
}

func dumpUint(v uint64) string { return strconv.FormatUint(v, 10) }
func dumpInt(v uint64) string  { return strconv.FormatInt(int64(v), 10) }

// dumpTime adds the date to Unix milliseconds that have one of four digits for the year.
func dumpTime(v uint64) string {
	const year10000 = 253402300800000
	ms := int64(v)
	if ms <= 0 || ms >= year10000 {
		return strconv.FormatInt(ms, 10)
	}
	return strconv.FormatInt(ms, 10) + " " + time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func dumpAttributes(v uint64) string {
	a := Attributes(v)
	s := "codec " + a.Codec().String()
	if a&AttrAppendTime != 0 {
		s += ", append time"
	}
	if a&AttrControl != 0 {
		s += ", control"
	}
	if a&^attrKnown != 0 {
		s += fmt.Sprintf(", unknown bits %#04x", uint16(a&^attrKnown))
	}
	return s
}

// batch prints everything. It reads b with no more trust than it must: the header may
// be refused and the walk still goes as far as the bytes make sense.
func (d *dumper) batch() {
	_, parseErr := Parse(d.b)
	end := len(d.b)
	if len(d.b) >= offSize+4 {
		size := binary.LittleEndian.Uint32(d.b[offSize:])
		end = int(min(int64(size), int64(len(d.b))))
	}
	header := d.header(end)
	if header > 0 {
		d.extensions(header)
		d.section(Batch{d.b[:end:end]}, parseErr)
	} else if end > d.done {
		d.field(d.done, end-d.done, "rest", "not understood")
	}
	d.verdicts(end, parseErr)
}

// header prints the fixed fields and says where the records start; 0 if that is unknown.
func (d *dumper) header(end int) int {
	d.fields(dumpFront)
	if len(d.b) <= offVersion || !bytes.HasPrefix(d.b, magic[:]) {
		return 0
	}
	version := Version(d.b[offVersion])
	fixed := HeaderSize1
	if version == Version2 {
		fixed = HeaderSize2
	}
	if version != Version1 && version != Version2 {
		return 0
	}
	d.fields(dumpBody)
	if version == Version2 {
		d.fields(dumpProducer)
	}
	if end < fixed {
		return 0
	}
	header := int(binary.LittleEndian.Uint16(d.b[offHeaderLength:]))
	if header < fixed || header > end {
		return 0
	}
	return header
}

func (d *dumper) fields(list []dumpField) {
	for _, f := range list {
		if f.off >= len(d.b) {
			return
		}
		have := d.b[f.off:min(f.off+f.n, len(d.b))]
		text := strconv.Quote(string(have))
		if f.text != nil {
			var v [8]byte
			copy(v[:], have)
			text = f.text(binary.LittleEndian.Uint64(v[:]))
		}
		if len(have) < f.n {
			text = fmt.Sprintf("cut off, %d of %d bytes", len(have), f.n)
		}
		d.field(f.off, len(have), f.name, text)
		d.done = f.off + len(have)
	}
}

func (d *dumper) extensions(header int) {
	if Version(d.b[offVersion]) != Version2 {
		return
	}
	for pos := HeaderSize2; pos < header; {
		typ, data, next, err := splitExtension(d.b[pos:header], pos)
		if err != nil {
			d.field(pos, header-pos, "extension", err.(*FormatError).Reason)
			return
		}
		d.field(pos, next, "extension", dumpExtension(typ, data))
		pos += next
	}
}

func dumpExtension(typ uint16, data []byte) string {
	switch {
	case typ == ExtPosition:
		return "position " + quote(data)
	case typ == ExtControl && checkControlData(data, 0) == nil:
		c := controlOf(data)
		s := fmt.Sprintf("control %s, min epoch %d, floor %d, last %d", c.Kind, c.MinEpoch, c.Floor, c.Last)
		if c.Position != nil {
			s += ", position " + quote(c.Position)
		}
		return s
	case typ&ExtCritical != 0:
		return fmt.Sprintf("type %#04x, critical: %s", typ, quote(data))
	}
	return fmt.Sprintf("type %#04x: %s", typ, quote(data))
}

// section prints the records of b, whose header length is sane and nothing else.
func (d *dumper) section(b Batch, parseErr error) {
	header, stored := b.HeaderSize(), len(b.RecordSection())
	if b.IsControl() && stored == 0 {
		return
	}
	plain := b.Codec() == CodecNone
	if !plain {
		d.field(header, stored, "records", b.Codec().String())
	}
	if !b.Codec().Valid() || b.u32(offRecordsLength) > MaxRecordsBytes || b.u32(offRecordCount) > MaxRecordCount {
		d.note("records: not read, the header makes no sense")
		return
	}
	var r Reader
	err := r.Reset(b)
	at, shown := 0, 0
	for err == nil && r.Next() {
		if shown < d.records {
			d.record(&r, at, plain, header)
			shown++
			at = r.c.pos
		}
	}
	switch err = r.Err(); {
	case r.next > shown && err == nil:
		d.note(fmt.Sprintf("… and %d records more", r.next-shown))
	case plain && err != nil && at < stored:
		d.field(header+at, stored-at, "records", "the rest")
	}
	switch {
	case err != nil:
		d.note("records: " + problem(err))
	case parseErr != nil:
		d.note(fmt.Sprintf("records: %d could be read", r.next))
	default:
		d.checkRecords(b, &r)
	}
}

func (d *dumper) checkRecords(b Batch, r *Reader) {
	if err := CheckRecords(b, r); err != nil {
		d.note("records: " + problem(err))
		return
	}
	d.note(fmt.Sprintf("records: good, %d", r.next))
}

// record prints the record that r went to; its bytes are in the batch if it is plain.
func (d *dumper) record(r *Reader, at int, plain bool, header int) {
	rec := r.Record()
	text := fmt.Sprintf("%+d ms, key %s, value %s", r.created-r.base, quote(rec.Key), quote(rec.Value))
	if rec.Attributes != 0 {
		text += fmt.Sprintf(", attributes %#02x", rec.Attributes)
	}
	for i, h := range rec.Headers {
		if i == dumpHeaders {
			text += fmt.Sprintf(", and %d headers more", len(rec.Headers)-i)
			break
		}
		text += fmt.Sprintf(", header %s=%s", quote(h.Key), quote(h.Value))
	}
	name := fmt.Sprintf("record %d", rec.OffsetDelta)
	if plain {
		d.field(header+at, r.c.pos-at, name, text)
		return
	}
	d.note(fmt.Sprintf("%s at %d of the section: %s", name, at, text))
}

// verdicts says what the checks say.
func (d *dumper) verdicts(end int, parseErr error) {
	if parseErr != nil {
		d.note("header: " + problem(parseErr))
	} else {
		d.note("header: good")
	}
	if len(d.b) < FrontSize || int(binary.LittleEndian.Uint32(d.b[offSize:])) != end || end < FrontSize {
		return
	}
	b := Batch{d.b[:end:end]}
	d.verdict("checksum", b.Verify())
	if b.Stamped() {
		d.verdict("front check", b.VerifyFront())
	} else {
		d.note("front check: not stamped")
	}
	if more := len(d.b) - end; more > 0 {
		d.note(fmt.Sprintf("%d bytes follow", more))
	}
}

func (d *dumper) verdict(name string, err error) {
	if err != nil {
		d.note(name + ": " + err.(*FormatError).Reason)
		return
	}
	d.note(name + ": good")
}

// field prints n bytes from off, the first line with the meaning behind it.
func (d *dumper) field(off, n int, name, text string) {
	data := d.b[off : off+n]
	more := 0
	if len(data) > d.hexBytes {
		data, more = data[:d.hexBytes], len(data)-d.hexBytes
	}
	for i := 0; i == 0 || i < len(data); i += dumpLineBytes {
		line := fmt.Sprintf("% x", data[i:min(i+dumpLineBytes, len(data))])
		if i == 0 {
			line = fmt.Sprintf("%-*s# %d %s: %s", dumpHexColumns, line, off, name, text)
		}
		d.out = append(append(d.out, line...), '\n')
	}
	if more > 0 {
		d.note(fmt.Sprintf("… and %d bytes more", more))
	}
}

func (d *dumper) note(text string) {
	d.out = append(append(append(d.out, "# "...), text...), '\n')
}

// quote prints bytes from outside so that they can do nothing to a terminal.
func quote(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > dumpTextBytes:
		return quote(b[:dumpTextBytes]) + fmt.Sprintf("… (%d bytes)", len(b))
	case !utf8.Valid(b):
		return fmt.Sprintf("0x%x", b)
	}
	return strconv.QuoteToASCII(string(b))
}

// problem says what err found wrong.
func problem(err error) string {
	e := err.(*FormatError)
	return fmt.Sprintf("%s at byte %d: %s", e.Field, e.Offset, e.Reason)
}
