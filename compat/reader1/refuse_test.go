package reader1_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/compat/reader1"
)

// around makes a batch of version 1 around any section, right in both checks.
func around(codec uint16, count, length int, section []byte) []byte {
	raw := append([]byte("QBF\x01"), make([]byte, 76)...)
	binary.LittleEndian.PutUint64(raw[8:], 4000)
	binary.LittleEndian.PutUint16(raw[48:], codec)
	binary.LittleEndian.PutUint16(raw[50:], 80)
	binary.LittleEndian.PutUint32(raw[52:], uint32(count))
	binary.LittleEndian.PutUint32(raw[72:], uint32(length))
	raw = append(raw, section...)
	binary.LittleEndian.PutUint32(raw[4:], uint32(len(raw)))
	resum(raw)
	return raw
}

// plain is a batch of one record without compression.
func plain(section ...byte) []byte { return around(0, 1, len(section), section) }

// changed is the smallest batch with one field changed.
func changed(field func(raw []byte)) []byte {
	raw := plain(smallest...)
	field(raw)
	resum(raw)
	return raw
}

// smallest is the smallest record: no key, no value, no headers.
var smallest = []byte{12, 0, 0, 0, 1, 1, 0}

func gzipped(section []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(section)
	_ = z.Close()
	return out.Bytes()
}

// xerial is a stream of Java's snappy library, with what stands behind its name.
func xerial(rest ...byte) []byte { return append([]byte("\x82SNAPPY\x00"), rest...) }

// TestRefuses names what is wrong with batches whose checks are right.
func TestRefuses(t *testing.T) {
	if records, _, err := reader1.Decode(plain(smallest...)); err != nil || len(records) != 1 || records[0].Offset != 4000 {
		t.Fatalf("the batch from which all others come: %v, %v", records, err)
	}
	header := func(off int, value uint64, bytes int) []byte {
		return changed(func(raw []byte) {
			var v [8]byte
			binary.LittleEndian.PutUint64(v[:], value)
			copy(raw[off:off+bytes], v[:])
		})
	}
	for _, tt := range []struct {
		name  string
		raw   []byte
		field string
	}{
		{"no batch", []byte("QBX\x01"), "magic"},
		{"smaller than its header", header(4, 79, 4), "size"},
		{"larger than any batch", header(4, 16<<20+1, 4), "size"},
		{"an attribute of a later version", header(48, 1<<5, 2), "attributes"},
		{"a control batch", header(48, 1<<4, 2), "attributes"},
		{"a codec of a later version", around(3, 1, 7, smallest), "attributes"},
		{"a header that is longer", header(50, 88, 2), "header length"},
		{"no records", header(52, 0, 4), "record count"},
		{"more records than any batch", around(1, 1_000_001, 8<<20, nil), "record count"},
		{"more records than bytes", header(52, 2, 4), "record count"},
		{"more bytes than any section", header(72, 64<<20+1, 4), "records length"},
		{"a section of another length", header(72, 8, 4), "records length"},
		{"reserved bytes in use", header(76, 1, 4), "reserved"},
		{"an offset below zero", header(8, 1<<63, 8), "base offset"},
		{"an offset that would wrap", header(8, 1<<63-1, 8), "base offset"},
		{"a durable offset below zero", header(32, 1<<63, 8), "durable offset"},
		{"nothing at all", nil, ""},

		{"no gzip", around(1, 1, 7, smallest), "records"},
		{"gzip that is too short", around(1, 1, 8, gzipped(smallest)), "records"},
		{"gzip that is too long", around(1, 1, 7, gzipped(append(smallest[:7:7], 0))), "records"},
		{"gzip with a wrong sum", around(1, 1, 7, flip(gzipped(smallest), -5)), "records"},
		{"no snappy", around(2, 1, 7, []byte{0xff}), "records"},
		{"snappy that is too short", around(2, 1, 8, append([]byte{7, 24}, smallest...)), "records"},
		{"xerial without its numbers", around(2, 1, 7, xerial(0, 0)), "records"},
		{"xerial of a later version", around(2, 1, 7, xerial(0, 0, 0, 2, 0, 0, 0, 2)), "records"},
		{"xerial with half a length", around(2, 1, 7, xerial(0, 0, 0, 1, 0, 0, 0, 1, 0, 0)), "records"},
		{"xerial with a length that lies", around(2, 1, 7, xerial(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 1)), "records"},
		{"xerial with a block that lies", around(2, 1, 7, xerial(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff)), "records"},
		{"xerial with a block that is too long", around(2, 1, 7, xerial(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 10, 8, 28, 0, 0, 0, 0, 0, 0, 0, 0)), "records"},
		{"xerial without a block", around(2, 1, 7, xerial(0, 0, 0, 1, 0, 0, 0, 1)), "records"},
		{"no zstd", around(4, 1, 7, smallest), "records"},
		{"zstd without a frame", around(4, 1, 7, nil), "records"},

		{"a record that is too small", plain(10, 0, 0, 0, 1, 1, 0), "record length"},
		{"a record that is longer than the section", plain(14, 0, 0, 0, 1, 1, 0), "record length"},
		{"a record that is longer than its fields", plain(14, 0, 0, 0, 1, 1, 0, 0), "record length"},
		{"bytes behind the last record", plain(12, 0, 0, 0, 1, 1, 0, 0), "record count"},
		{"a length that never ends", plain(0x8c, 0x80, 0x80, 0x80, 0x80, 0, 0), "record length"},
		{"a length of more than 32 bits", plain(0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0), "record length"},
		{"another place in the batch", plain(12, 0, 0, 2, 1, 1, 0), "record offset"},
		{"a key that is longer than the record", plain(12, 0, 0, 0, 8, 1, 0), "record key"},
		{"a key of a length below null", plain(12, 0, 0, 0, 3, 1, 0), "record key"},
		{"a value that goes on behind the end", plain(12, 0, 0, 0, 1, 0x80, 0x80), "record value"},
		{"fewer than no headers", plain(12, 0, 0, 0, 1, 1, 1), "record headers"},
		{"more headers than bytes", plain(12, 0, 0, 0, 1, 1, 2), "record headers"},
		{"a header without a name", plain(16, 0, 0, 0, 1, 1, 2, 1, 1), "header key"},
		{"a header value that is too long", plain(16, 0, 0, 0, 1, 1, 2, 0, 4), "header value"},
		{"a timestamp over the end", changed(func(raw []byte) {
			binary.LittleEndian.PutUint64(raw[56:], 1<<63-1)
			raw[82] = 2
		}), "record timestamp"},
		{"a length in five bytes that is too small", plain(0x80, 0x80, 0x80, 0x80, 0, 0, 0), "record length"},
	} {
		records, n, err := reader1.Decode(tt.raw)
		if err == nil || n != 0 || records != nil {
			t.Errorf("%s: %d records, %d bytes, %v", tt.name, len(records), n, err)
			continue
		}
		var fault *reader1.CorruptError
		var short *reader1.ShortError
		switch {
		case tt.field == "" && errors.As(err, &short) && strings.Contains(err.Error(), "lack"):
		case errors.As(err, &fault) && fault.Field == tt.field && strings.Contains(err.Error(), tt.field):
		default:
			t.Errorf("%s: %v, want one of field %q", tt.name, err, tt.field)
		}
		if tt.field != "" && len(tt.raw) >= 80 && fault.Field != "size" {
			wantSame(t, tt.raw) // batchfmt refuses it, too
		}
	}
}

// flip turns a bit, the place counted from the end.
func flip(b []byte, fromEnd int) []byte {
	b[len(b)+fromEnd] ^= 1
	return b
}

// Checks that do not agree are told apart.
func TestRefusesByChecks(t *testing.T) {
	for at, field := range map[int]string{17: "front check", 29: "front check", 60: "checksum", 86: "checksum"} {
		raw := plain(smallest...)
		raw[at] ^= 1
		var fault *reader1.CorruptError
		if err := wantRefused(t, raw); !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("byte %d was changed: %v, want one of field %q", at, err, field)
		}
	}
}
