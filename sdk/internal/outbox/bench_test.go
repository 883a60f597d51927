package outbox

import (
	"fmt"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// BenchmarkPutSync is batches of 1 KiB, put and synced in groups, on a real disk.
func BenchmarkPutSync(b *testing.B) {
	for _, group := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("group=%d", group), func(b *testing.B) {
			o, _, err := Open(b.TempDir(), testBinding, Options{})
			must(b, err)
			defer o.Close()
			batch := sealed(batchfmt.Seq(0), 1, 1024, 1)
			ids := make([]ID, group)
			b.SetBytes(int64(group * len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				for i := range ids {
					ids[i], err = o.Put(int32(i), batch)
					must(b, err)
				}
				must(b, o.Sync())
				for _, id := range ids {
					must(b, o.Stored(id, 0))
				}
			}
		})
	}
}
