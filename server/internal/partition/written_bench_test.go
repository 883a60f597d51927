package partition

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// BenchmarkAcknowledged sends small batches on one lane, with one or as many as a lane may have
// in flight, and waits for their answers, on real files.
func BenchmarkAcknowledged(b *testing.B) {
	for _, d := range []wire.Durability{wire.Synced, wire.Written} {
		for _, inFlight := range []int{1, 5} {
			b.Run(fmt.Sprintf("%v/in-flight=%d", d, inFlight), func(b *testing.B) { acknowledged(b, d, inFlight) })
		}
	}
}

func acknowledged(b *testing.B, d wire.Durability, inFlight int) {
	p := openBench(b, filepath.Join(b.TempDir(), "partition"))
	opened := make(chan *wire.Error, 1)
	lane := p.OpenLane(OpenRequest{Grant: NewGrant(7, 0), Fresh: true, Reply: func(_ *wire.LaneOpened, e *wire.Error) { opened <- e }})
	if e := <-opened; e != nil {
		b.Fatal(e)
	}
	batches := smallBatches(b, b.N)
	answers := make(sink, inFlight)
	answer := func() {
		if r := <-answers; r.Code != wire.CodeOK || r.Duplicate {
			b.Fatalf("%+v", r)
		}
	}
	b.ResetTimer()
	for i, batch := range batches {
		if i >= inFlight {
			answer()
		}
		if e := p.Produce(Produce{Opening: lane, Batch: batch, Sink: answers, Durability: d, Confirmed: -1}); e != nil {
			b.Fatal(e)
		}
	}
	for range min(inFlight, len(batches)) {
		answer()
	}
	b.StopTimer()
	if err := p.Close(wire.Errorf(wire.CodeShutdown, "measured")); err != nil {
		b.Fatal(err)
	}
}

// smallBatches are of one record of 100 bytes each.
func smallBatches(b *testing.B, n int) []batchfmt.Batch {
	var builder batchfmt.Builder
	if err := builder.Add(&batchfmt.Record{Value: make([]byte, 100)}); err != nil {
		b.Fatal(err)
	}
	batches := make([]batchfmt.Batch, n)
	for i := range batches {
		raw, err := builder.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: 7, BaseSequence: batchfmt.Seq(i)})
		if err != nil {
			b.Fatal(err)
		}
		if batches[i], err = batchfmt.Parse(raw); err != nil {
			b.Fatal(err)
		}
	}
	return batches
}
