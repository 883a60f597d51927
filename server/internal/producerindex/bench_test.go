package producerindex

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

const benchSegment = 128 << 20

// benchLog fills a segment with batches of one record, of producers that take turns.
func benchLog(producers, size int) *log {
	l := newLog(0)
	l.batches = make([]Batch, 0, benchSegment/size)
	seqs := make([]batchfmt.Seq, producers)
	for l.pos+int64(size) <= benchSegment {
		p := len(l.batches) % producers
		l.batch(batchfmt.ProducerID(1000+p), 0, seqs[p], seqs[p], int64(size))
		seqs[p]++
	}
	return l
}

var benchLoads = []struct{ producers, size int }{{1, 1024}, {100, 1024}, {4096, 1024}, {4096, 100}, {benchSegment / 100, 100}}

// One operation is one batch.
func BenchmarkAdd(b *testing.B) {
	for _, load := range benchLoads {
		b.Run(fmt.Sprintf("%d producers, %d B", load.producers, load.size), func(b *testing.B) {
			l := benchLog(load.producers, load.size)
			builder, i := &Builder{}, 0
			for b.Loop() {
				if i == len(l.batches) {
					builder, i = &Builder{}, 0
				}
				builder.Add(l.batches[i])
				i++
			}
			b.StopTimer()
			builder = l.builder()
			stats, err := builder.Write(vfs.OS, b.TempDir(), l.segment())
			must(b, err)
			n := float64(builder.Batches())
			b.ReportMetric(float64(builder.Bytes())/n, "mem-B/batch")
			b.ReportMetric(float64(stats.FileBytes)/n, "disk-B/batch")
			b.ReportMetric(float64(builder.Runs()), "runs")
		})
	}
}

func BenchmarkBuilderFind(b *testing.B) {
	for _, load := range benchLoads {
		b.Run(fmt.Sprintf("%d producers, %d B", load.producers, load.size), func(b *testing.B) {
			l := benchLog(load.producers, load.size)
			builder, r := l.builder(), rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				x := l.batches[r.IntN(len(l.batches))]
				if _, ok := builder.Find(x.PID, x.Base); !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}

// Of a file of more than a million runs, with the file opened each time.
func BenchmarkIndex(b *testing.B) {
	l, dir := benchLog(4096, 100), b.TempDir()
	builder := l.builder()
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			_, err := builder.Write(vfs.OS, dir, l.segment())
			must(b, err)
		}
	})
	_, err := builder.Write(vfs.OS, dir, l.segment())
	must(b, err)
	x, err := Open(vfs.OS, dir, l.segment())
	must(b, err)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			_, err := Open(vfs.OS, dir, l.segment())
			must(b, err)
		}
		b.ReportMetric(float64(x.Bytes()), "mem-B")
		b.ReportMetric(float64(x.Runs()), "runs")
	})
	b.Run("find", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		for b.Loop() {
			want := l.batches[r.IntN(len(l.batches))]
			run, ok, err := x.Find(want.PID, want.Base)
			if err != nil || !ok || run.FirstOffset != want.Offset {
				b.Fatal(run, ok, err)
			}
		}
	})
	b.Run("find, with nothing in the system's memory", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		f, err := vfs.OS.Open(filepath.Join(dir, Name(0)))
		must(b, err)
		for b.Loop() {
			must(b, vfs.DropCache(f))
			want := l.batches[r.IntN(len(l.batches))]
			_, ok, err := x.Find(want.PID, want.Base)
			if err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
		must(b, f.Close())
	})
	b.Run("open and find", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		for b.Loop() {
			want := l.batches[r.IntN(len(l.batches))]
			x, err := Open(vfs.OS, dir, l.segment())
			must(b, err)
			_, ok, err := x.Find(want.PID, want.Base)
			if err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	})
}
