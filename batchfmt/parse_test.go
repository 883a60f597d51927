package batchfmt

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func put16(off int, v uint16) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint16(b[off:], v) }
}

func put32(off int, v uint32) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint32(b[off:], v) }
}

func put64(off int, v uint64) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint64(b[off:], v) }
}

func TestParseRefuses(t *testing.T) {
	v1 := mustSeal(t, Seal{}, goldenRecords...)
	v2 := mustSeal(t, producer, goldenRecords...)
	zs := mustSeal(t, Seal{Codec: CodecZstd}, goldenRecords...)
	ctl := AppendControl(nil, 7, 1, Control{Kind: ControlFence, Last: -1})
	tests := []struct {
		reason string
		batch  []byte
		change func([]byte)
		field  string
	}{
		{"another magic", v1, func(b []byte) { b[1] = 'q' }, "magic"},
		{"version 0 was never written", v1, func(b []byte) { b[offVersion] = 0 }, "version"},
		{"a version of the future", v1, func(b []byte) { b[offVersion] = 3 }, "version"},
		{"version 2 read as version 1", v2, func(b []byte) { b[offVersion] = 1 }, "header length"},
		{"version 1 read as version 2", v1, func(b []byte) { b[offVersion] = 2 }, "extension length"},
		{"size below the front", v1, put32(offSize, FrontSize-1), "size"},
		{"size below the header", v1, put32(offSize, HeaderSize1-1), "size"},
		{"size below the header of version 2", v2, put32(offSize, HeaderSize2-1), "size"},
		{"size over the limit", v1, put32(offSize, MaxBatchBytes+1), "size"},
		{"size with the top bit", v1, put32(offSize, math.MaxUint32), "size"},
		{"no records behind the header", v1, put32(offSize, HeaderSize1), "records length"},
		{"no compressed records behind the header", zs, put32(offSize, HeaderSize1), "size"},
		{"negative base offset", v1, put64(offBaseOffset, 1<<63), "base offset"},
		{"base offset that would overflow", v1, put64(offBaseOffset, math.MaxInt64), "base offset"},
		{"negative durable offset", v1, put64(offDurable, 1<<63), "durable offset"},
		{"lz4 is never stored", v1, put16(offAttributes, 3), "attributes"},
		{"a codec that nobody knows", v1, put16(offAttributes, 7), "attributes"},
		{"an attribute that nobody knows", v1, put16(offAttributes, 1<<5), "attributes"},
		{"header length that is not that of the version", v1, put16(offHeaderLength, HeaderSize1+8), "header length"},
		{"header length without the extensions", v2, put32(offExtLength, 8), "header length"},
		{"extension length that is no multiple of 8", v2, put32(offExtLength, 4), "extension length"},
		{"extension length over the limit", v2, put32(offExtLength, MaxExtensionBytes+8), "extension length"},
		{"extensions behind the size", v2, func(b []byte) {
			put32(offExtLength, 4096)(b)
			put16(offHeaderLength, HeaderSize2+4096)(b)
		}, "header length"},
		{"no record", v1, put32(offRecordCount, 0), "record count"},
		{"more records than the limit", v1, put32(offRecordCount, MaxRecordCount+1), "record count"},
		{"more records than the bytes can hold", v1, put32(offRecordCount, 12), "record count"},
		{"more records than the claimed length can hold", zs, put32(offRecordsLength, 6), "record count"},
		{"records length over the limit", zs, put32(offRecordsLength, MaxRecordsBytes+1), "records length"},
		{"records length that is not the section's", v1, put32(offRecordsLength, 80), "records length"},
		{"reserved bytes", v1, put32(offReserved, 1), "reserved"},
		{"no producer in version 2", v2, put64(offProducerID, 0), "producer id"},
		{"negative sequence", v2, put64(offBaseSequence, 1<<63), "base sequence"},
		{"sequence that would overflow", v2, put64(offBaseSequence, math.MaxInt64), "base sequence"},
		{"a control batch of version 1", v1, put16(offAttributes, uint16(AttrControl)), "attributes"},
		{"a control batch with records", v2, put16(offAttributes, uint16(AttrControl)), "record count"},
		{"a control batch with a codec", ctl, put16(offAttributes, uint16(AttrControl)|uint16(CodecZstd)), "attributes"},
		{"a control batch with append time", ctl, put16(offAttributes, uint16(AttrControl|AttrAppendTime)), "attributes"},
		{"a control batch with a record count", ctl, put32(offRecordCount, 1), "record count"},
		{"a control batch with a base timestamp", ctl, put64(offBaseTimestamp, 1), "base timestamp"},
		{"a control batch with a max timestamp", ctl, put64(offMaxTimestamp, 1), "max timestamp"},
		{"a control batch with a records length", ctl, put32(offRecordsLength, 1), "records length"},
		{"a control batch with a sequence", ctl, put64(offBaseSequence, 1), "base sequence"},
		{"a control batch without a producer", ctl, put64(offProducerID, 0), "producer id"},
		{"a control extension in a batch of records", ctl, put16(offAttributes, 0), "extension"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			b := bytes.Clone(test.batch)
			test.change(b)
			batch, err := Parse(b)
			wantFormatError(t, err, test.field)
			if batch.Bytes() != nil {
				t.Error("a batch came with the error")
			}
		})
	}
}

func TestParseReadsNothingBehindTheSize(t *testing.T) {
	b := mustSeal(t, Seal{}, goldenRecords...)
	batch := mustParse(t, append(bytes.Clone(b), "garbage"...))
	if !bytes.Equal(batch.Bytes(), b) || cap(batch.Bytes()) != len(b) {
		t.Errorf("%d bytes, capacity %d, want both %d", len(batch.Bytes()), cap(batch.Bytes()), len(b))
	}
}

func TestParseUnknownVersionNamesIt(t *testing.T) {
	b := unknownVersion(t)
	_, err := Parse(b[:FrontSize])
	if fe := wantFormatError(t, err, "version"); fe.Version != 9 {
		t.Errorf("version is %d, want 9", fe.Version)
	}
}

func TestAccessors(t *testing.T) {
	b := mustParse(t, stampedGolden(producer, goldenRecords...)(t))
	type fields struct {
		version                   Version
		size, header, count       int
		base, next, durable       Offset
		appendTime, baseTS, maxTS int64
		term                      Term
		pid                       ProducerID
		first, last               Seq
		epoch                     Epoch
		codec                     Codec
		control, stamped          bool
	}
	got := fields{b.Version(), b.Size(), b.HeaderSize(), b.RecordCount(), b.BaseOffset(), b.NextOffset(), b.Durable(),
		b.AppendTime(), b.BaseTimestamp(), b.MaxTimestamp(), b.Term(), b.ProducerID(), b.BaseSequence(), b.LastSequence(),
		b.Epoch(), b.Codec(), b.IsControl(), b.Stamped()}
	want := fields{2, len(b.Bytes()), HeaderSize2, 3, 123456, 123459, 123400,
		noon + 1000, noon, noon + 250, 7, producer.ProducerID, 900, 902, 3, CodecNone, false, true}
	if got != want {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	front, err := ParseFront(b.Bytes()[:FrontSize])
	if err != nil {
		t.Fatal(err)
	}
	if want := (Front{2, b.Size(), 123456, noon + 1000, 7, 123400, b.Digest()}); front != want {
		t.Errorf("front is %+v, want %+v", front, want)
	}
}

func TestVersion1HasNoProducer(t *testing.T) {
	b := mustParse(t, mustSeal(t, Seal{}, goldenRecords...))
	if b.ProducerID() != NoProducer || b.BaseSequence() != 0 || b.Epoch() != 0 || b.Position() != nil {
		t.Errorf("producer %d, sequence %d, epoch %d, position %q", b.ProducerID(), b.BaseSequence(), b.Epoch(), b.Position())
	}
}

// TestChecks turns one byte at a time and says which check must see it.
func TestChecks(t *testing.T) {
	whole := stampedGolden(producer, goldenRecords...)(t)
	for off := offBaseOffset; off < len(whole); off++ {
		b := Batch{bytes.Clone(whole)}
		b.b[off] ^= 0x40
		front := off < offAttributes
		body := off >= offChecksum
		if (b.VerifyFront() != nil) != front {
			t.Errorf("byte %d: front check says %v", off, b.VerifyFront())
		}
		if (b.Verify() != nil) != body {
			t.Errorf("byte %d: checksum says %v", off, b.Verify())
		}
	}
}

func TestStampKeepsTheDigest(t *testing.T) {
	b := mustParse(t, mustSeal(t, producer, goldenRecords...))
	if b.Stamped() {
		t.Fatal("a sealed batch is stamped already")
	}
	digest := b.Digest()
	b.Stamp(goldenStamp)
	if b.Digest() != digest || b.Verify() != nil || b.VerifyFront() != nil {
		t.Errorf("digest %x, want %x; %v; %v", b.Digest(), digest, b.Verify(), b.VerifyFront())
	}
}

func TestCodecNames(t *testing.T) {
	for c, want := range map[Codec]string{CodecNone: "none", CodecGzip: "gzip", CodecSnappy: "snappy", 3: "codec(3)", CodecZstd: "zstd"} {
		if c.String() != want || c.Valid() != (c != 3) {
			t.Errorf("codec %d is %q, valid %v", uint8(c), c, c.Valid())
		}
	}
}

func TestSequenceOf(t *testing.T) {
	v2 := mustSeal(t, producer, goldenRecords...)
	negative := bytes.Clone(v2)
	put64(offBaseSequence, 1<<63+5)(negative)
	tests := []struct {
		reason string
		bytes  []byte
		want   Seq
	}{
		{"a batch", v2, 900},
		{"its header alone", v2[:HeaderSize2], 900},
		{"less than its header", v2[:HeaderSize2-1], -1},
		{"version 1 has none", mustSeal(t, Seal{}, simpleRecords(5, 50)...), -1},
		{"a number that is no sequence", negative, -1},
		{"nothing", nil, -1},
	}
	for _, test := range tests {
		if got := SequenceOf(test.bytes); got != test.want {
			t.Errorf("%s: %d, want %d", test.reason, got, test.want)
		}
	}
}
