package catalog

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkInitProducer shows what sharing a commit gives: n askers at once.
func BenchmarkInitProducer(b *testing.B) {
	for _, askers := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprint(askers), func(b *testing.B) {
			c, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range askers {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						var id InstanceID
						binary.BigEndian.PutUint64(id[:], uint64(i)*0x9e3779b97f4a7c15) // spread as random ids are
						if _, err := c.InitProducer(id, ""); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkAuthorize(b *testing.B) {
	c, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	p, err := c.InitProducer(InstanceID{1}, "")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Authorize(p.ID, p.Key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNameOf(b *testing.B) {
	c, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	p, err := c.InitProducer(InstanceID{1}, "billing")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if name, _ := c.NameOf(p.ID); name != "billing" {
			b.Fatal(name)
		}
	}
}
