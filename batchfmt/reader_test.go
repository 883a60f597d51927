package batchfmt

import (
	"bytes"
	"math"
	"testing"
)

// record puts the body of a record behind its length.
func record(body ...byte) []byte {
	return append(appendVarint(nil, int64(len(body))), body...)
}

func TestReaderRefuses(t *testing.T) {
	good := record(0, 0, 0, 1, 1, 0)
	long := func(lead []byte, n int, last byte) []byte {
		return append(append(lead, bytes.Repeat([]byte{0x80}, n)...), last)
	}
	second := func(delta byte) []byte { return append(bytes.Clone(good), record(0, 0, delta, 1, 1, 0)...) }
	tests := []struct {
		reason  string
		count   int
		section []byte
		field   string
		offset  int
	}{
		{"length 0", 1, []byte{0, 0, 0, 0, 0, 0, 0}, "record length", 0},
		{"negative length", 1, []byte{1, 0, 0, 0, 1, 1, 0}, "record length", 0},
		{"length behind the section", 1, []byte{14, 0, 0, 0, 1, 1, 0}, "record length", 0},
		{"length longer than its record", 1, append([]byte{14}, 0, 0, 0, 1, 1, 0, 0), "record length", 0},
		{"length of six bytes", 1, append(long(nil, 5, 0), 0, 0), "record length", 0},
		{"length of more than 32 bits", 1, append(long(nil, 4, 0x10), 0, 0, 0, 1, 1, 0), "record length", 0},
		{"number that goes on behind the record", 1, record(0, 0, 0, 1, 1, 0x80), "record headers", 6},
		{"timestamp delta of eleven bytes", 1, record(long([]byte{0}, 10, 0)...), "record timestamp", 2},
		{"timestamp delta of more than 64 bits", 1, record(append(long([]byte{0}, 9, 2), 0, 1, 1, 0)...), "record timestamp", 2},
		{"timestamp that overflows", 1, record(append(appendVarint([]byte{0}, math.MaxInt64), 0, 1, 1, 0)...), "record timestamp", 2},
		{"first offset delta is 1", 1, record(0, 0, 2, 1, 1, 0), "record offset", 3},
		{"negative offset delta", 1, record(0, 0, 1, 1, 1, 0), "record offset", 3},
		{"offset delta there twice", 2, second(0), "record offset", 10},
		{"offset delta left out", 2, second(4), "record offset", 10},
		{"key length below null", 1, record(0, 0, 0, 3, 1, 0), "record key", 4},
		{"key behind the record", 1, record(0, 0, 0, 6, 1, 0), "record key", 4},
		{"key into the next record", 2, append(record(0, 0, 0, 8, 1, 0), record(0, 0, 2, 1, 1, 0)...), "record key", 4},
		{"value length below null", 1, record(0, 0, 0, 1, 5, 0), "record value", 5},
		{"value behind the record", 1, record(0, 0, 0, 1, 4, 0), "record value", 5},
		{"value length of the largest number", 1, record(0, 0, 0, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0), "record value", 5},
		{"no header count", 1, record(0, 0, 0, 1, 2, 'v'), "record headers", 7},
		{"negative header count", 1, record(0, 0, 0, 1, 1, 1), "record headers", 6},
		{"header count over the limit", 1, record(append(appendVarint([]byte{0, 0, 0, 1, 1}, MaxHeaders+1), make([]byte, 2100)...)...), "record headers", 7},
		{"more headers than bytes", 1, record(0, 0, 0, 1, 1, 4, 0, 1), "record headers", 6},
		{"null header name", 1, record(0, 0, 0, 1, 1, 2, 1, 1), "header key", 7},
		{"header name behind the record", 1, record(0, 0, 0, 1, 1, 2, 8, 1), "header key", 7},
		{"header value behind the record", 1, record(0, 0, 0, 1, 1, 2, 0, 8), "header value", 8},
		{"header value length below null", 1, record(0, 0, 0, 1, 1, 2, 0, 3), "header value", 8},
		{"bytes behind the last header", 1, record(0, 0, 0, 1, 1, 0, 0), "record length", 0},
		{"bytes behind the last record", 1, append(bytes.Clone(good), 0), "record count", 7},
		{"a record more than counted", 1, second(2), "record count", 7},
		{"a record less than counted", 2, append(bytes.Clone(good), make([]byte, 7)...), "record length", 7},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			b := mustParse(t, aroundSection(CodecNone, test.count, len(test.section), test.section).b)
			_, err := readAll(b)
			if fe := wantFormatError(t, err, test.field); fe.Offset != test.offset {
				t.Errorf("offset is %d, want %d: %v", fe.Offset, test.offset, err)
			}
			wantFormatError(t, CheckRecords(b, nil), test.field)
			sameWithoutShortcut(t, b)
		})
	}
}

// TestReaderEveryPrefix cuts a section at every place: the reader must see it.
func TestReaderEveryPrefix(t *testing.T) {
	whole := mustParse(t, mustSeal(t, Seal{}, goldenRecords...)).RecordSection()
	for n := range whole {
		if _, err := readAll(aroundSection(CodecNone, 3, n, whole[:n])); err == nil {
			t.Errorf("%d of %d bytes were taken for the whole", n, len(whole))
		}
	}
}

func TestVarintBounds(t *testing.T) {
	for _, v := range []int64{0, -1, 1, 63, 64, -64, -65, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		b := appendVarint(nil, v)
		if len(b) != varintBytes(v) {
			t.Errorf("%d has %d bytes, %d were promised", v, len(b), varintBytes(v))
		}
		c := cursor{b: b}
		if got := c.varint64("v"); got != v || c.err != nil || c.pos != len(b) {
			t.Errorf("%d was read as %d: %v", v, got, c.err)
		}
		c = cursor{b: b}
		if got := c.varint32("v"); v == int64(int32(v)) && (got != int(v) || c.err != nil) {
			t.Errorf("%d was read as %d of 32 bits: %v", v, got, c.err)
		}
		for n := range b {
			c = cursor{b: b[:n]}
			if c.varint64("v"); c.err == nil {
				t.Errorf("%d of %d bytes of %d were taken for a number", n, len(b), v)
			}
		}
	}
}

func TestReaderErrorSticks(t *testing.T) {
	section := record(0, 0, 2, 1, 1, 0)
	var r Reader
	if err := r.Reset(aroundSection(CodecNone, 1, len(section), section)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r.Next() || r.Err() == nil {
			t.Fatal("the reader went on behind an error")
		}
	}
	if err := r.Reset(mustParse(t, mustSeal(t, Seal{}, Record{}))); err != nil || !r.Next() || r.Next() || r.Err() != nil {
		t.Errorf("the reader does not start anew: %v", r.Err())
	}
}

func TestReaderGivesAppendTime(t *testing.T) {
	b := mustParse(t, mustSeal(t, Seal{AppendTime: true}, goldenRecords...))
	b.Stamp(goldenStamp)
	records, err := readAll(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Timestamp != goldenStamp.AppendTime {
			t.Errorf("timestamp is %d, want %d", r.Timestamp, goldenStamp.AppendTime)
		}
	}
}

func TestReaderOfControl(t *testing.T) {
	records, err := readAll(mustParse(t, AppendControl(nil, 1, 1, Control{Kind: ControlClose})))
	if err != nil || len(records) != 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

func TestReaderSlicesDoNotRunOver(t *testing.T) {
	b := mustParse(t, mustSeal(t, Seal{}, goldenRecords...))
	before := bytes.Clone(b.Bytes())
	records, err := readAll(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		_, _ = append(r.Key, '!'), append(r.Value, '!')
		for _, h := range r.Headers {
			_, _ = append(h.Key, '!'), append(h.Value, '!')
		}
	}
	if !bytes.Equal(b.Bytes(), before) {
		t.Error("appending to a key or value wrote into the batch")
	}
}

func TestCheckRecordsTimestamps(t *testing.T) {
	tests := []struct {
		reason string
		change func([]byte)
		field  string
	}{
		{"base is not the first record's", put64(offBaseTimestamp, noon+1), "max timestamp"},
		{"max is below the largest", put64(offMaxTimestamp, noon+249), "max timestamp"},
		{"max is above the largest", put64(offMaxTimestamp, noon+251), "max timestamp"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			b := mustSeal(t, Seal{}, goldenRecords...)
			test.change(b)
			wantFormatError(t, CheckRecords(mustParse(t, b), nil), test.field)
		})
	}
	t.Run("first delta is not zero", func(t *testing.T) {
		section := record(0, 2, 0, 1, 1, 0)
		b := aroundSection(CodecNone, 1, len(section), section)
		wantFormatError(t, CheckRecords(b, nil), "base timestamp")
	})
}

func TestReaderLetsGoOfALargeBuffer(t *testing.T) {
	large := mustParse(t, mustSeal(t, Seal{Codec: CodecZstd}, Record{Value: make([]byte, 4*keptBytes)}))
	small := mustParse(t, mustSeal(t, Seal{Codec: CodecZstd}, goldenRecords...))
	var r Reader
	if err := CheckRecords(large, &r); err != nil {
		t.Fatal(err)
	}
	if err := CheckRecords(small, &r); err != nil {
		t.Fatal(err)
	}
	if cap(r.buf) > keptBytes {
		t.Errorf("%d bytes are kept for a batch of %d", cap(r.buf), small.RecordsLength())
	}
}
