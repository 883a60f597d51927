package seglog

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// BenchmarkAppendSync is one writer that waits for every batch to be durable: the least
// that an acknowledged batch can take. The temporary directory must be on a disk.
func BenchmarkAppendSync(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10} {
		for name, fill := range map[string]int64{"fill": 0, "nofill": -1} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, name), func(b *testing.B) {
				l, _, err := Open(vfs.OS, filepath.Join(b.TempDir(), "log"), Config{FillBytes: fill})
				must(b, err)
				m := newMaker()
				group := []batchfmt.Batch{m.batch(b, 1, size)}
				m.next = 0
				b.SetBytes(int64(group[0].Size()))
				times := make([]time.Duration, 0, b.N)
				for b.Loop() {
					group[0].Stamp(batchfmt.Stamp{BaseOffset: m.next, Term: 1})
					start := time.Now()
					must(b, l.Append(group))
					mustSync(b, l)
					times = append(times, time.Since(start))
					m.next++
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
				must(b, l.Close())
			})
		}
	}
}

// BenchmarkAppend is the write alone, into the memory of the system.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ size, group int }{{1 << 10, 1}, {4 << 10, 16}, {64 << 10, 1}, {64 << 10, 8}} {
		b.Run(fmt.Sprintf("%dx%dKiB", c.group, c.size>>10), func(b *testing.B) {
			l, _, err := Open(vfs.OS, filepath.Join(b.TempDir(), "log"), Config{})
			must(b, err)
			m := newMaker()
			group := make([]batchfmt.Batch, c.group)
			for i := range group {
				group[i] = m.batch(b, 1, c.size)
			}
			m.next = 0
			b.SetBytes(int64(c.group * group[0].Size()))
			b.ReportAllocs()
			for b.Loop() {
				for i := range group {
					group[i].Stamp(batchfmt.Stamp{BaseOffset: m.next, Term: 1})
					m.next++
				}
				must(b, l.Append(group))
			}
			must(b, l.Close())
		})
	}
}

// BenchmarkRead is one reader of about 64 KiB a read, out of the memory of the system.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB-batches", size>>10), func(b *testing.B) {
			l, _, err := Open(vfs.OS, filepath.Join(b.TempDir(), "log"), Config{SegmentBytes: 8 << 20})
			must(b, err)
			m := newMaker()
			for total := 0; total < 32<<20; total += size {
				must(b, l.Append([]batchfmt.Batch{m.batch(b, 1, size)}))
			}
			buf := make([]byte, 0, 256<<10)
			from, bytes := Offset(0), 0
			b.ReportAllocs()
			for b.Loop() {
				if from == l.End() {
					from = 0
				}
				buf, from, err = l.Read(buf[:0], from, l.End(), 64<<10)
				must(b, err)
				bytes += len(buf)
			}
			b.ReportMetric(float64(bytes)/b.Elapsed().Seconds()/1e6, "MB/s")
			must(b, l.Close())
		})
	}
}

// BenchmarkFindBack looks for a producer that is not there: the worst look-up.
func BenchmarkFindBack(b *testing.B) {
	l, _, err := Open(vfs.OS, filepath.Join(b.TempDir(), "log"), Config{SegmentBytes: 16 << 20})
	must(b, err)
	m := newMaker()
	const total = 64 << 20
	for n := 0; n < total; n += 16 << 10 {
		must(b, l.Append([]batchfmt.Batch{m.batch(b, 1, 16<<10)}))
	}
	b.SetBytes(total)
	for b.Loop() {
		_, _, err := l.FindBack(func(x batchfmt.Batch) (bool, bool) { return x.ProducerID() == 1, false })
		must(b, err)
	}
	must(b, l.Close())
}
