package batchfmt

import (
	"bytes"
	"strings"
	"testing"
)

// TestDumpOfPrefixes dumps every prefix of every golden, and its hex must be the prefix.
func TestDumpOfPrefixes(t *testing.T) {
	for i := range goldens {
		b, _ := goldens[i].load(t)
		for n := 0; n <= len(b); n += 1 + n/150 { // every one, then fewer in the larger ones
			d := dumper{b: b[:n], hexBytes: len(b), records: 1000}
			d.batch()
			got, err := unhex(string(d.out))
			if err != nil || !bytes.Equal(got, b[:n]) {
				t.Fatalf("%s: the dump of %d bytes holds %d, %v:\n%s", goldens[i].name, n, len(got), err, d.out)
			}
		}
	}
}

func TestDumpSaysWhatIsWrong(t *testing.T) {
	v2 := mustSeal(t, producer.with(func(s *Seal) { s.Position = []byte("p") }), goldenRecords...)
	changed := func(change func([]byte)) []byte {
		b := bytes.Clone(v2)
		change(b)
		return b
	}
	tests := []struct {
		reason string
		bytes  []byte
		want   string
	}{
		{"nothing", nil, "# header: size at byte 0: 0 bytes are there, 48 are needed"},
		{"garbage", []byte("hello, world, this is not a batch at all, is it? no."), "# header: magic at byte 0: not a batch"},
		{"cut in the front", v2[:20], "# 16 append time: cut off, 4 of 8 bytes"},
		{"cut in the records", v2[:len(v2)-1], "# header: size at byte"},
		{"cut in the records, what can be read", v2[:len(v2)-1], `record 1: +250 ms, key "user-18"`},
		{"a checksum that does not hold", changed(func(b []byte) { b[len(b)-1] ^= 1 }), "# checksum: is "},
		{"a front check that does not hold", changed(func(b []byte) { b[offTerm] = 1 }), "# front check: is "},
		{"attributes", changed(put16(offAttributes, 0xfffb)), "codec codec(3), append time, control, unknown bits 0xffe0"},
		{"an extension", changed(func(b []byte) { b[HeaderSize2+7] = 1 }), "the padding of type 0x0001 is not zero"},
		{"what follows", append(bytes.Clone(v2), 1, 2, 3), "# 3 bytes follow"},
		{"a position", v2, `extension: position "p"`},
		{"binary bytes", mustSeal(t, Seal{}, Record{Value: []byte("\xff\x1b[31m")}), "value 0xff1b5b33316d"},
		{"escapes", mustSeal(t, Seal{}, Record{Value: []byte("\x1b[31m\n")}), `value "\x1b[31m\n"`},
		{"record attributes", mustSeal(t, Seal{}, Record{Attributes: 3}), "attributes 0x03"},
		{"many records", mustSeal(t, Seal{}, simpleRecords(150, 10)...), "# … and 50 records more"},
		{"many headers", mustSeal(t, Seal{}, Record{Headers: make([]Header, 20)}), "and 12 headers more"},
		{"a long value", mustSeal(t, Seal{}, Record{Value: make([]byte, 5000)}), "(5000 bytes)"},
		{"a block of nothing", aroundSection(CodecZstd, 1, 0, []byte("0123456789")).b, "# header: record count at byte 52"},
		{"a block that is no block", aroundSection(CodecZstd, 1, 100, []byte("0123456789")).b, "# records: records at byte 80: zstd: "},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			got := Dump(test.bytes)
			if !strings.Contains(got, test.want) {
				t.Errorf("%q is not in\n%s", test.want, got)
			}
			if string(AppendDump([]byte("before"), test.bytes)) != "before"+got {
				t.Error("AppendDump gives something else than Dump")
			}
		})
	}
}
