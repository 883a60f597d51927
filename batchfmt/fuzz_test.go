package batchfmt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy/xerial"
)

// fuzzClaim bounds the claimed records length in fuzz targets, to keep them fast.
const fuzzClaim = 1 << 20

// FuzzParse gives bytes to everything that takes a whole batch.
func FuzzParse(f *testing.F) {
	for i := range goldens {
		b, _ := goldens[i].load(f)
		f.Add(b)
		f.Add(b[:len(b)*2/3])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		batch, err := Parse(data)
		if len(data) < 4096 {
			Dump(data)
		}
		if !bytes.Equal(data, before) {
			t.Fatal("parsing wrote into the bytes")
		}
		if err != nil {
			checkParseError(t, data, err)
			return
		}
		for n := range min(batch.Size(), 256) {
			if err := follow(batch.b, n); err != nil {
				t.Fatal(err)
			}
		}
		checkParsed(t, batch)
	})
}

func checkParseError(t *testing.T, data []byte, err error) {
	var fe *FormatError
	if !errors.As(err, &fe) {
		t.Fatalf("error is %T", err)
	}
	if fe.Need < 0 || fe.Need > MaxBatchBytes || fe.Offset < 0 || fe.Offset > len(data) {
		t.Fatalf("error is %#v of %d bytes", fe, len(data))
	}
}

func checkParsed(t *testing.T, b Batch) {
	_, _ = b.Verify(), b.VerifyFront()
	if got := SequenceOf(b.b); b.Version() == Version2 && got != b.BaseSequence() {
		t.Fatalf("sequence is %d, %d at a glance", b.BaseSequence(), got)
	}
	if c, err := b.Control(); b.IsControl() != (err == nil) {
		t.Fatalf("control is %+v, %v", c, err)
	}
	if len(b.Position()) > MaxPositionBytes {
		t.Fatalf("position has %d bytes", len(b.Position()))
	}
	if b.NextOffset() < b.BaseOffset() || b.LastSequence() < b.BaseSequence()-1 {
		t.Fatal("offsets or sequences wrap")
	}
	if b.RecordsLength() > fuzzClaim || b.IsControl() {
		return
	}
	if CheckRecords(b, nil) != nil {
		return
	}
	checkConversions(t, b)
}

// checkConversions takes a batch that is right in everything but perhaps its checksum.
func checkConversions(t *testing.T, b Batch) {
	out, err := AppendVersion1(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	old := mustParse(t, out)
	if err := CheckRecords(old, nil); err != nil || old.RecordCount() != b.RecordCount() {
		t.Fatalf("version 1 of it: %v", err)
	}
	again, err := reencode(b)
	if err != nil {
		t.Fatalf("what was read cannot be sealed: %v", err)
	}
	second := mustParse(t, again)
	if err := CheckRecords(second, nil); err != nil {
		t.Fatal(err)
	}
	if b.Codec() != CodecNone {
		return
	}
	// Varints of the shortest form are those that do not become shorter.
	if len(again) == len(b.b) && !bytes.Equal(again[offAttributes:], b.b[offAttributes:]) {
		t.Fatalf("sealed again it is\n%s\nfrom\n%s", Dump(again), Dump(b.b))
	}
}

// FuzzReader gives bytes to the decompressors and to the record parser.
func FuzzReader(f *testing.F) {
	section, count := someSection(f)
	for _, codec := range codecs {
		f.Add(byte(codec), uint32(count), uint32(len(section)), compress(f, codec, section))
	}
	f.Add(byte(CodecZstd), uint32(count), uint32(len(section)), bytes.Repeat([]byte{0x28, 0xb5, 0x2f, 0xfd}, 4))
	f.Fuzz(func(t *testing.T, codec byte, count, length uint32, section []byte) {
		b, err := Parse(aroundSection(Codec(codec%8), int(count%MaxRecordCount), int(length%fuzzClaim), section).b)
		if err != nil {
			return
		}
		var r Reader
		if r.Reset(b) != nil {
			return
		}
		if cap(r.buf) > b.RecordsLength()+decodeSlack {
			t.Fatalf("the buffer has %d bytes for a claim of %d", cap(r.buf), b.RecordsLength())
		}
		sameWithoutShortcut(t, b)
		n, total := 0, 0
		for r.Next() {
			rec := r.Record()
			if rec.OffsetDelta != n || len(rec.Headers) > MaxHeaders {
				t.Fatalf("record %d is %+v", n, rec)
			}
			total += minRecordBytes + len(rec.Key) + len(rec.Value) + minHeaderBytes*len(rec.Headers)
			n++
		}
		if total > b.RecordsLength() {
			t.Fatalf("the records hold %d bytes of %d", total, b.RecordsLength())
		}
		if r.Err() == nil && n != b.RecordCount() {
			t.Fatalf("%d records of %d without an error", n, b.RecordCount())
		}
	})
}

// sameWithoutShortcut reads b with and without [Reader.quick]: records and error must be
// the same.
func sameWithoutShortcut(t *testing.T, b Batch) {
	var slow Reader
	if err := slow.Reset(b); err != nil {
		t.Fatal(err)
	}
	var want []Record
	for slow.next < slow.count && slow.c.err == nil {
		slow.read()
		if slow.c.err == nil {
			rec := slow.rec
			rec.Headers = slices.Clone(rec.Headers)
			want = append(want, rec)
			slow.next++
		}
	}
	slow.Next() // looks for bytes behind the last record
	got, err := readAll(b)
	wantRecords(t, got, want)
	if (err == nil) != (slow.Err() == nil) || err != nil && err.Error() != slow.Err().Error() {
		t.Fatalf("error is %v, without the shortcut %v", err, slow.Err())
	}
}

// FuzzSnappyXerial compares our reader of both forms of snappy with another one, which
// also takes the extensions of s2.
func FuzzSnappyXerial(f *testing.F) {
	section, _ := someSection(f)
	f.Add(xerial.Encode(nil, section), uint32(len(section)))
	f.Add(compress(f, CodecSnappy, section), uint32(len(section)))
	f.Add(xerial.Encode(nil, nil), uint32(0))
	f.Fuzz(func(t *testing.T, block []byte, length uint32) {
		dst := make([]byte, length%fuzzClaim, length%fuzzClaim+decodeSlack)
		if err := unsnappy(dst, block); err != nil {
			return
		}
		other, err := xerial.Decode(block)
		if err != nil {
			t.Fatalf("we take what another reader refuses: %v", err)
		}
		if !bytes.Equal(other, dst) {
			t.Fatal("another reader gives other bytes")
		}
	})
}

// FuzzBuilder makes records out of bytes, seals them with every codec and reads them.
func FuzzBuilder(f *testing.F) {
	f.Add([]byte("key and value"), uint64(7), uint16(1))
	f.Add([]byte{0, 1, 2, 3, 255, 254, 128, 9, 9, 9, 7, 7, 1, 0}, uint64(0), uint16(40))
	f.Add(bytes.Repeat([]byte{250, 3, 9}, 300), uint64(1<<63), uint16(ExtPosition))
	f.Fuzz(func(t *testing.T, data []byte, pid uint64, ext uint16) {
		records := recordsFrom(data)
		var b Builder
		for i := range records {
			bound, before := RecordBytes(&records[i]), b.SectionBytes()
			if err := b.Add(&records[i]); err != nil {
				return
			}
			if took := b.SectionBytes() - before; took > bound {
				t.Fatalf("a record took %d bytes, the bound is %d", took, bound)
			}
		}
		s := Seal{ProducerID: ProducerID(pid)}
		if pid != 0 && ext != 0 && ext&ExtCritical == 0 {
			s.Extensions = []Extension{{Type: ext, Data: data[:min(len(data), MaxPositionBytes)]}}
		}
		for _, s.Codec = range codecs {
			out, err := b.Seal(nil, s)
			if err != nil {
				t.Fatal(err)
			}
			checkSealed(t, mustParse(t, out), records)
		}
	})
}

func checkSealed(t *testing.T, b Batch, records []Record) {
	if err := errors.Join(b.Verify(), CheckRecords(b, nil)); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(b)
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, got, records)
	if b.Codec() != CodecNone {
		return
	}
	again, err := reencode(b)
	if err != nil || !bytes.Equal(again, b.b) {
		t.Fatalf("sealed again it is\n%s\nfrom\n%s\n%v", Dump(again), Dump(b.b), err)
	}
	if text := Dump(b.b); !strings.Contains(text, "# records: good") {
		t.Fatalf("the dump says\n%s", text)
	}
}

// recordsFrom cuts data into records; every choice comes from a byte.
func recordsFrom(data []byte) []Record {
	take := func() []byte {
		if len(data) == 0 {
			return nil
		}
		n := int(data[0])
		data = data[1:]
		if n == 255 {
			return nil
		}
		n = min(n%61, len(data))
		part := data[:n:n]
		data = data[n:]
		return part
	}
	var records []Record
	for first := true; first || (len(data) > 0 && len(records) < 200); first = false {
		var stamp [8]byte
		copy(stamp[:], take())
		r := Record{
			OffsetDelta: len(records), Timestamp: int64(binary.LittleEndian.Uint64(stamp[:])),
			Key: take(), Value: take(), Attributes: stamp[7],
		}
		for range len(data) % 4 {
			r.Headers = append(r.Headers, Header{Key: take(), Value: take()})
		}
		records = append(records, r)
	}
	return records
}
