package sdk_test

import (
	"fmt"
	"testing"

	"github.com/quoin-io/quoin/sdk"
)

// BenchmarkSendAsync measures records through a real server in the same process, synced
// to disk; bytes are those of the values.
func BenchmarkSendAsync(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			_, c, _ := setUp(b, 1)
			p := build(b, c.Producer("t").Partition(0))
			ctx := testContext(b)
			r := sdk.Record{Value: make([]byte, size)}
			failed := 0
			callback := func(_ sdk.Ack, err error) {
				if err != nil {
					failed++
				}
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := p.SendAsync(ctx, r, callback); err != nil {
					b.Fatal(err)
				}
			}
			if err := p.Flush(ctx); err != nil || failed > 0 {
				b.Fatal(err, failed)
			}
		})
	}
}

// BenchmarkSend measures one record after the other.
func BenchmarkSend(b *testing.B) {
	_, c, _ := setUp(b, 1)
	p := build(b, c.Producer("t"))
	ctx := testContext(b)
	r := sdk.Record{Value: make([]byte, 100)}
	for b.Loop() {
		if _, err := p.Send(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecords measures reading.
func BenchmarkRecords(b *testing.B) {
	_, c, _ := setUp(b, 1)
	p := build(b, c.Producer("t").Partition(0))
	ctx := testContext(b)
	const records = 100_000
	for range records {
		if err := p.SendAsync(ctx, sdk.Record{Value: make([]byte, 1024)}, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(records * 1024)
	for b.Loop() {
		consumer, err := c.Consumer("t").StopAtEnd().Build(ctx)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, err := range consumer.Records(ctx) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		consumer.Close()
		if n != records {
			b.Fatal(n)
		}
	}
}
