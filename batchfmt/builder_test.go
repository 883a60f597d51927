package batchfmt

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestBuilderRoundTrip(t *testing.T) {
	many := make([]Header, MaxHeaders)
	for i := range many {
		many[i] = Header{Key: []byte{byte(i)}, Value: bytes.Repeat([]byte("v"), i%80)}
	}
	tests := map[string][]Record{
		"null and empty":     {{}, {Key: []byte{}}, {Value: []byte{}}},
		"headers":            {{Headers: []Header{{Key: []byte("a")}, {Key: []byte("a"), Value: []byte{}}}}, {}},
		"the most headers":   {{Headers: many}, {Headers: many[:1]}},
		"large and small":    {{Value: bytes.Repeat([]byte("x"), 1<<20)}, {Value: []byte("y")}},
		"timestamps":         {{Timestamp: math.MinInt64}, {Timestamp: -1}},
		"timestamps, far":    {{Timestamp: -1}, {Timestamp: math.MaxInt64 - 1}, {Timestamp: math.MinInt64}},
		"attributes":         {{Attributes: 255}},
		"a thousand records": simpleRecords(1000, 100),
	}
	for reason, records := range tests {
		for _, codec := range codecs {
			t.Run(reason+"/"+codec.String(), func(t *testing.T) {
				b := mustParse(t, mustSeal(t, producer.with(func(s *Seal) { s.Codec = codec }), records...))
				wantGood(t, b)
				got, err := readAll(b)
				if err != nil {
					t.Fatal(err)
				}
				for i := range records {
					records[i].OffsetDelta = i
				}
				wantRecords(t, got, records)
			})
		}
	}
}

// What is left after Remove is as if the record had never been added.
func TestBuilderRemove(t *testing.T) {
	records := []Record{
		{Timestamp: 50, Key: []byte("k"), Value: []byte("a")},
		{Timestamp: 70, Headers: []Header{{Key: []byte("h")}, {Key: []byte("h"), Value: []byte{}}}},
		{Timestamp: 20, Value: bytes.Repeat([]byte("v"), 9000), Attributes: 7},
	}
	sealed := func(records ...Record) (*Builder, []byte) {
		b := new(Builder)
		for i := range records {
			if err := b.Add(&records[i]); err != nil {
				t.Fatal(err)
			}
		}
		out, err := b.Seal(nil, Seal{})
		if err != nil {
			t.Fatal(err)
		}
		return b, out
	}
	for n := range records {
		b, _ := sealed(records...)
		if !b.Remove(n) {
			t.Fatalf("record %d cannot be removed", n)
		}
		got, err := b.Seal(nil, Seal{})
		if err != nil {
			t.Fatal(err)
		}
		left := append(append([]Record(nil), records[:n]...), records[n+1:]...)
		if _, want := sealed(left...); !bytes.Equal(got, want) {
			t.Errorf("without record %d it is another batch", n)
		}
	}
	b, _ := sealed(records[0])
	if b.Remove(1) || b.Remove(-1) || !b.Remove(0) || b.Len() != 0 || b.SectionBytes() != 0 {
		t.Errorf("%d records, %d bytes are left of one", b.Len(), b.SectionBytes())
	}
	b, before := sealed(Record{Timestamp: 0}, Record{Timestamp: math.MinInt64}, Record{Timestamp: math.MaxInt64})
	if b.Remove(0) {
		t.Error("timestamps are further apart than a batch can say")
	}
	if after, err := b.Seal(nil, Seal{}); err != nil || !bytes.Equal(before, after) {
		t.Error("a Remove that failed changed something")
	}
}

func TestBuilderTimestamps(t *testing.T) {
	b := mustParse(t, mustSeal(t, Seal{}, Record{Timestamp: 50}, Record{Timestamp: 70}, Record{Timestamp: 20}))
	if b.BaseTimestamp() != 50 || b.MaxTimestamp() != 70 {
		t.Errorf("base %d, max %d; want 50, 70", b.BaseTimestamp(), b.MaxTimestamp())
	}
}

func TestBuilderRefuses(t *testing.T) {
	half := make([]byte, MaxRecordsBytes/2+1)
	tests := []struct {
		reason string
		record Record
		field  string
	}{
		{"too many headers", Record{Headers: make([]Header, MaxHeaders+1)}, "record headers"},
		{"a key over the limit", Record{Key: make([]byte, MaxRecordsBytes+1)}, "record"},
		{"a value that fills the section", Record{Value: make([]byte, MaxRecordsBytes)}, "records length"},
		{"key and value together", Record{Key: half, Value: half}, "records length"},
		{"headers together", Record{Headers: []Header{{Key: half}, {Value: half}}}, "record headers"},
		{"timestamp too far from the first", Record{Timestamp: math.MinInt64}, "record timestamp"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			var b Builder
			if err := b.Add(&Record{Timestamp: 5}); err != nil {
				t.Fatal(err)
			}
			bytesBefore := b.SectionBytes()
			wantFormatError(t, b.Add(&test.record), test.field)
			if b.Len() != 1 || b.SectionBytes() != bytesBefore {
				t.Errorf("%d records, %d bytes; want what was there before", b.Len(), b.SectionBytes())
			}
		})
	}
}

func TestBuilderLimitsOfABatch(t *testing.T) {
	t.Run("record count", func(t *testing.T) {
		var b Builder
		for range MaxRecordCount {
			if err := b.Add(&Record{}); err != nil {
				t.Fatal(err)
			}
		}
		wantFormatError(t, b.Add(&Record{}), "record count")
		out, err := b.Seal(nil, Seal{})
		if err != nil {
			t.Fatal(err)
		}
		wantGood(t, mustParse(t, out))
	})
	t.Run("batch size", func(t *testing.T) {
		var b Builder
		if err := b.Add(&Record{Value: make([]byte, MaxBatchBytes)}); err != nil {
			t.Fatal(err)
		}
		_, err := b.Seal(nil, Seal{})
		wantFormatError(t, err, "size")
		out, err := b.Seal(nil, Seal{Codec: CodecZstd})
		if err != nil {
			t.Fatal(err)
		}
		wantGood(t, mustParse(t, out))
	})
	t.Run("no record", func(t *testing.T) {
		var b Builder
		_, err := b.Seal(nil, Seal{})
		wantFormatError(t, err, "record count")
	})
}

func TestBuilderIsReusable(t *testing.T) {
	var b Builder
	var first []byte
	for range 3 {
		b.Reset()
		if b.Len() != 0 || b.SectionBytes() != 0 {
			t.Fatalf("%d records, %d bytes after Reset", b.Len(), b.SectionBytes())
		}
		for i := range goldenRecords {
			if err := b.Add(&goldenRecords[i]); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // sealing changes nothing
			out, err := b.Seal([]byte("prefix"), producer)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = out
			}
			if !bytes.Equal(out, first) {
				t.Error("the same records gave other bytes")
			}
		}
	}
	mustParse(t, first[len("prefix"):])
}

func TestSealAppends(t *testing.T) {
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			var b Builder
			records := simpleRecords(20, 50)
			for i := range records {
				if err := b.Add(&records[i]); err != nil {
					t.Fatal(err)
				}
			}
			dirty := bytes.Repeat([]byte{0xff}, 8192)
			for _, dst := range [][]byte{nil, dirty[:3], dirty[:3:3], dirty[:100:150]} {
				out, err := b.Seal(dst, producer.with(func(s *Seal) { s.Codec, s.Position = codec, []byte("p") }))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(out[:len(dst)], dst) {
					t.Error("what was in dst has changed")
				}
				wantGood(t, mustParse(t, out[len(dst):]))
			}
		})
	}
}

func TestCompressionWithoutGainIsKept(t *testing.T) {
	for _, codec := range codecs[1:] {
		b := mustParse(t, mustSeal(t, Seal{Codec: codec}, Record{}))
		if b.Codec() != codec {
			t.Errorf("codec is %s, want %s", b.Codec(), codec)
		}
		wantGood(t, b)
	}
}

func TestRecordBytesIsABound(t *testing.T) {
	records := append(simpleRecords(200, 90), goldenRecords...)
	records = append(records, Record{}, Record{Timestamp: math.MaxInt64}, Record{Key: []byte{}, Headers: []Header{{}}})
	var b Builder
	for i := range records {
		before := b.SectionBytes()
		if err := b.Add(&records[i]); err != nil {
			t.Fatal(err)
		}
		took, bound := b.SectionBytes()-before, RecordBytes(&records[i])
		if took > bound || bound > took+12 {
			t.Errorf("record %d took %d bytes, the bound is %d", i, took, bound)
		}
	}
}

func TestSealSectionRefuses(t *testing.T) {
	plain := mustParse(t, mustSeal(t, Seal{}, goldenRecords...))
	good := Section{Count: 3, BaseTimestamp: noon, MaxTimestamp: noon + 250, Length: plain.RecordsLength(), Bytes: plain.RecordSection()}
	tests := []struct {
		reason string
		change func(*Section)
		field  string
	}{
		{"no records", func(s *Section) { s.Count = 0 }, "record count"},
		{"a negative count", func(s *Section) { s.Count = -1 }, "record count"},
		{"a count of more bits than the field", func(s *Section) { s.Count = math.MaxInt }, "record count"},
		{"a negative length", func(s *Section) { s.Length = -1 }, "records length"},
		{"another length", func(s *Section) { s.Length++ }, "records length"},
		{"a section larger than a batch", func(s *Section) { s.Bytes = make([]byte, MaxBatchBytes+1) }, "size"},
		{"a section that leaves no room for the header", func(s *Section) { s.Bytes = make([]byte, MaxBatchBytes) }, "size"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			sec := good
			test.change(&sec)
			_, err := SealSection(nil, producer, sec)
			wantFormatError(t, err, test.field)
		})
	}
	out, err := SealSection(nil, Seal{}, good)
	if err != nil || !bytes.Equal(out, plain.Bytes()) {
		t.Errorf("the same section gave another batch: %v", err)
	}
}

func TestAppendVersion1(t *testing.T) {
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			s := producer.with(func(s *Seal) { s.Codec, s.Position = codec, []byte("p") })
			from := mustParse(t, mustSeal(t, s, goldenRecords...))
			if out, err := AppendVersion1(nil, from); err != nil || mustParse(t, out).Stamped() {
				t.Errorf("a batch that was not stamped became one that is: %v", err)
			}
			from.Stamp(goldenStamp)
			out, err := AppendVersion1([]byte("before"), from)
			if err != nil {
				t.Fatal(err)
			}
			to := mustParse(t, out[len("before"):])
			wantGood(t, to)
			if to.Version() != Version1 || to.HeaderSize() != HeaderSize1 || !bytes.Equal(to.RecordSection(), from.RecordSection()) ||
				!bytes.Equal(to.b[offBaseOffset:offFrontCheck], from.b[offBaseOffset:offFrontCheck]) ||
				!bytes.Equal(to.b[offRecordCount:HeaderSize1], from.b[offRecordCount:HeaderSize1]) {
				t.Errorf("got\n%s\nfrom\n%s", Dump(to.b), Dump(from.b))
			}
			same, err := AppendVersion1(nil, to)
			if err != nil || !bytes.Equal(same, to.b) {
				t.Errorf("version 1 did not stay as it was: %v", err)
			}
		})
	}
	ctl := mustParse(t, AppendControl(nil, 1, 1, Control{Kind: ControlClose}))
	out, err := AppendVersion1([]byte("x"), ctl)
	wantFormatError(t, err, "attributes")
	if string(out) != "x" {
		t.Errorf("dst is %q", out)
	}
}

func TestFormatErrorIsFound(t *testing.T) {
	_, err := Parse([]byte("QB"))
	var fe *FormatError
	if !errors.As(err, &fe) || !fe.Short() || fe.Need != FrontSize-2 || fe.Error() == "" {
		t.Errorf("error is %#v", err)
	}
}

// Room that was made is used: records that fit it cost no further memory.
func TestGrow(t *testing.T) {
	var b Builder
	record := Record{Value: make([]byte, 1000)}
	b.Grow(100 << 10)
	if n := testing.AllocsPerRun(50, func() {
		if err := b.Add(&record); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
	if b.Len() != 51 { // AllocsPerRun runs once more
		t.Errorf("%d records", b.Len())
	}
}
