package batchfmt

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// TestGoldenConverted converts every golden batch of version 2 that has records: what a
// reader of version 1 is to see stays, and the rest is gone.
func TestGoldenConverted(t *testing.T) {
	converted := 0
	for i := range goldens {
		g := &goldens[i]
		b, _ := g.load(t)
		if g.refused != "" || mustParse(t, b).Version() != Version2 || mustParse(t, b).IsControl() {
			continue
		}
		converted++
		t.Run(g.name, func(t *testing.T) {
			from := mustParse(t, b)
			from.Stamp(goldenStamp)
			out, err := AppendVersion1(nil, from)
			if err != nil {
				t.Fatal(err)
			}
			wantConverted(t, from, mustParse(t, out))
		})
	}
	if converted < 10 {
		t.Errorf("only %d goldens could be converted", converted)
	}
}

func wantConverted(t testing.TB, from, to Batch) {
	t.Helper()
	wantGood(t, to)
	if to.Version() != Version1 || to.Size() != HeaderSize1+len(from.RecordSection()) || to.ProducerID() != NoProducer || to.Position() != nil {
		t.Errorf("converted, it is\n%s", Dump(to.b))
	}
	if to.BaseOffset() != from.BaseOffset() || to.AppendTime() != from.AppendTime() || to.Term() != from.Term() ||
		to.Durable() != from.Durable() || to.NextOffset() != from.NextOffset() {
		t.Errorf("it stands elsewhere:\n%s\nfrom\n%s", Dump(to.b), Dump(from.b))
	}
	if !bytes.Equal(to.RecordSection(), from.RecordSection()) {
		t.Error("the bytes of the records changed")
	}
	want, err := readAll(from)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(to)
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, got, want)
}

// benchSum keeps the compiler from leaving out what nobody looks at.
var benchSum uint64

// BenchmarkConvert converts one stored batch per operation, beside what that must cost at
// least: the bytes are copied once and hashed once.
func BenchmarkConvert(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		s := producer.with(func(s *Seal) { s.Position = []byte("file=7 byte=4096") })
		from := mustParse(b, stampedGolden(s, simpleRecords(size>>10, 1024)...)(b))
		dst := make([]byte, 0, from.Size())
		for _, way := range []struct {
			name string
			do   func()
		}{
			{"convert", func() { dst, _ = AppendVersion1(dst[:0], from) }},
			{"copy", func() { dst = append(dst[:0], from.b...) }},
			{"xxh64", func() { benchSum += xxhash.Sum64(from.b[offAttributes:]) }},
			{"copy+xxh64", func() {
				dst = append(dst[:0], from.b...)
				benchSum += xxhash.Sum64(dst[offAttributes:])
			}},
		} {
			b.Run(fmt.Sprintf("size=%dKiB/%s", size>>10, way.name), func(b *testing.B) {
				b.SetBytes(int64(from.Size()))
				b.ReportAllocs()
				for b.Loop() {
					way.do()
				}
			})
		}
	}
}
