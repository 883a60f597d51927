package wire

import (
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// BenchmarkProduceFrame is what a batch costs here on its way: head and header are put
// in front of it at one end, parsed and decoded at the other.
func BenchmarkProduceFrame(b *testing.B) {
	batch := sealed(b, 900, strings.Repeat("x", 16<<10))
	frame := append(make([]byte, HeaderSize+ProduceHead), batch...)
	m := Produce{Lane: 7, Durability: Synced, FirstSend: noon, ConfirmedThrough: 899}
	var got Produce
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		m.ConfirmedThrough++
		PutProduceFrame(frame, &m)
		h, err := ParseHeader(frame)
		if err != nil {
			b.Fatal(err)
		}
		if err := DecodeInto(&got, frame[HeaderSize:HeaderSize+h.Size]); err != nil {
			b.Fatal(err)
		}
	}
	if got.ConfirmedThrough != m.ConfirmedThrough || len(got.Batch) != len(batch) {
		b.Fatal("another batch came out")
	}
}

// BenchmarkResults is a frame of 64 results, there and back.
func BenchmarkResults(b *testing.B) {
	m := resultsSample(64)
	frame := Append(nil, m)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			frame = Append(frame[:0], m)
		}
	})
	b.Run("decode", func(b *testing.B) {
		var got ProduceResults
		b.ReportAllocs()
		for b.Loop() {
			if err := DecodeInto(&got, frame[HeaderSize:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDumpLine is what a debug log of batches pays.
func BenchmarkDumpLine(b *testing.B) {
	frame := Append(nil, &Batches{HighWatermark: 9, Batches: stamped(b, batchfmt.Offset(4000), "a", "b")})
	b.ReportAllocs()
	for b.Loop() {
		DumpLine(frame)
	}
}
