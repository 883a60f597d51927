package source_test

import (
	"context"
	"encoding/binary"
	"iter"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/sdk/source"
	"github.com/quoin-io/quoin/server/servertest"
)

// BenchmarkRun carries items of one record of 100 bytes into a server on the same machine.
func BenchmarkRun(b *testing.B) {
	_, c := setUp(b, 1, servertest.InMemory())
	record := []sdk.Record{{Value: make([]byte, 100)}}
	src := source.Func(func(context.Context, source.Position) iter.Seq2[source.Item, error] {
		return func(yield func(source.Item, error) bool) {
			for i := range b.N {
				if !yield(source.Item{Records: record, Position: binary.BigEndian.AppendUint64(nil, uint64(i))}, nil) {
					return
				}
			}
		}
	})
	b.ReportAllocs()
	b.SetBytes(100)
	b.ResetTimer()
	if err := source.Run(testContext(b), c, src, "t", "n"); err != nil {
		b.Fatal(err)
	}
}
