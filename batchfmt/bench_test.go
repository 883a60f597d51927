package batchfmt

import (
	"fmt"
	"testing"
)

// benchSection is the record section that the benchmarks fill, in bytes: the batch that
// a loaded client usually sends.
const benchSection = 64 << 10

func benchRecords(size int) []Record { return simpleRecords(benchSection/(size+10), size) }

// BenchmarkSeal builds and seals one batch per operation.
func BenchmarkSeal(b *testing.B) {
	for _, codec := range codecs {
		for _, size := range []int{100, 1024} {
			b.Run(fmt.Sprintf("codec=%s/record=%d", codec, size), func(b *testing.B) { benchSeal(b, codec, size) })
		}
	}
}

func benchSeal(b *testing.B, codec Codec, size int) {
	records := benchRecords(size)
	s := producer.with(func(s *Seal) { s.Codec = codec })
	var builder Builder
	dst := make([]byte, 0, 2*benchSection)
	b.ReportAllocs()
	for b.Loop() {
		builder.Reset()
		for i := range records {
			if err := builder.Add(&records[i]); err != nil {
				b.Fatal(err)
			}
		}
		var err error
		if dst, err = builder.Seal(dst[:0], s); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(builder.SectionBytes()))
	b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(builder.SectionBytes())/float64(len(dst)), "ratio")
}

// BenchmarkIterate checks the records of one batch per operation, as a server does.
func BenchmarkIterate(b *testing.B) {
	for _, codec := range codecs {
		for _, size := range []int{100, 1024} {
			b.Run(fmt.Sprintf("codec=%s/record=%d", codec, size), func(b *testing.B) { benchIterate(b, codec, size) })
		}
	}
}

func benchIterate(b *testing.B, codec Codec, size int) {
	records := benchRecords(size)
	batch := mustParse(b, mustSeal(b, producer.with(func(s *Seal) { s.Codec = codec }), records...))
	var r Reader
	b.SetBytes(int64(batch.RecordsLength()))
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckRecords(batch, &r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkVerify checks the checksum of a batch of 64 KiB.
func BenchmarkVerify(b *testing.B) {
	batch := mustParse(b, mustSeal(b, producer, benchRecords(1024)...))
	b.SetBytes(int64(batch.Size()))
	for b.Loop() {
		if err := batch.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParse parses and stamps a batch, what a server does besides the checks.
func BenchmarkParse(b *testing.B) {
	raw := mustSeal(b, producer.with(func(s *Seal) { s.Position = []byte("position") }), benchRecords(1024)...)
	for b.Loop() {
		batch, err := Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		batch.Stamp(goldenStamp)
	}
}
