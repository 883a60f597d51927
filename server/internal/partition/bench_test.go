package partition

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

var benchLogMiB = flag.Int("log-mib", 256, "size of the log in BenchmarkLookUp, in MiB")

// BenchmarkLookUp finds old batches of 1 KiB again, of one producer among 16. Cold is the
// first look-up after the partition was opened, with neither its files in the system's memory
// nor an index in its own; warm is any later one.
func BenchmarkLookUp(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "partition")
	batches := int64(*benchLogMiB) << 20 / 1100
	fillLog(b, dir, batches, 0)
	for _, kind := range []string{"cold", "warm"} {
		b.Run(kind, func(b *testing.B) {
			p := openBench(b, dir)
			times := make([]time.Duration, 0, b.N)
			seq := batchfmt.Seq(0)
			for b.Loop() {
				if kind == "cold" {
					b.StopTimer()
					abandon(b, p)
					dropCaches(b, dir)
					p = openBench(b, dir)
					b.StartTimer()
				}
				seq = (seq + 7919) % batchfmt.Seq(batches/16-100)
				start := time.Now()
				f, err := p.findBatch(producerstate.Identity{PID: 3, Base: seq, Last: seq})
				times = append(times, time.Since(start))
				if err != nil || f.Found != producerstate.FoundBatch || f.Base != seq {
					b.Fatalf("sequence %d: %+v, %v", seq, f, err)
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
			abandon(b, p)
		})
	}
}

// BenchmarkUnknownProducer asks the indexes of many segments for producers that were never
// here, as a partition does that may have forgotten them. Cold is as in BenchmarkLookUp.
func BenchmarkUnknownProducer(b *testing.B) {
	for _, segments := range []int64{16, 240, 480} {
		dir := filepath.Join(b.TempDir(), "partition")
		const segmentBytes = 64 << 10
		fillLog(b, dir, segments*segmentBytes/1150, segmentBytes)
		for _, kind := range []string{"cold", "warm"} {
			b.Run(fmt.Sprintf("%d segments, %s", segments, kind), func(b *testing.B) {
				p := openBench(b, dir)
				times := make([]time.Duration, 0, b.N)
				pid := batchfmt.ProducerID(1000)
				for b.Loop() {
					if kind == "cold" {
						b.StopTimer()
						abandon(b, p)
						dropCaches(b, dir)
						p = openBench(b, dir)
						b.StartTimer()
					}
					pid++
					start := time.Now()
					f, err := p.findProven(producerstate.Identity{PID: pid, Last: 3})
					times = append(times, time.Since(start))
					if err != nil || f.Found != producerstate.FoundNothing {
						b.Fatalf("%+v, %v", f, err)
					}
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-µs")
				b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-µs")
				b.ReportMetric(float64(len(p.log.Segments())), "segments")
				abandon(b, p)
			})
		}
	}
}

// dropCaches asks the system to forget what it has of the files in memory.
func dropCaches(b *testing.B, dir string) {
	names, err := vfs.OS.List(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		f, err := vfs.OS.Open(filepath.Join(dir, name))
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(f.Sync(), vfs.DropCache(f), f.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// abandon lets go of a partition without writing anything.
func abandon(b *testing.B, p *Partition) {
	p.Abandon()
	if err := p.log.Close(); err != nil {
		b.Fatal(err)
	}
}

func openBench(b *testing.B, dir string) *Partition {
	var limit atomic.Int64
	limit.Store(1 << 20)
	p, err := Open(Config{
		Topic: "t", FS: vfs.OS, Dir: dir, MaxBatchBytes: &limit, Now: time.Now,
		NextTerm:       func(after batchfmt.Term) (batchfmt.Term, error) { return after + 1, nil },
		LastProducerID: func() (batchfmt.ProducerID, error) { return 50, nil },
		Logger:         slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// fillLog writes the log as a partition would, in segments of a size (0 is the default), and
// lets a partition make the indexes and the snapshot.
func fillLog(b *testing.B, dir string, batches, segmentBytes int64) {
	log, _, err := seglog.Open(vfs.OS, dir, seglog.Config{SegmentBytes: segmentBytes})
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 1<<10)
	var builder batchfmt.Builder
	if err := builder.Add(&batchfmt.Record{Value: value}); err != nil {
		b.Fatal(err)
	}
	group := make([]batchfmt.Batch, 0, 256)
	if segmentBytes > 0 {
		group = group[:0:min(256, segmentBytes/4/1100)]
	}
	for i := range batches {
		raw, err := builder.Seal(nil, batchfmt.Seal{
			Version: batchfmt.Version2, ProducerID: batchfmt.ProducerID(1 + i%16), BaseSequence: batchfmt.Seq(i / 16),
		})
		if err != nil {
			b.Fatal(err)
		}
		x, err := batchfmt.Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		x.Stamp(batchfmt.Stamp{BaseOffset: batchfmt.Offset(i), Term: 1})
		if group = append(group, x); len(group) == cap(group) || i == batches-1 {
			if err := log.Append(group); err != nil {
				b.Fatal(err)
			}
			group = group[:0]
		}
	}
	if _, err := log.Sync(); err != nil {
		b.Fatal(err)
	}
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
	p := openBench(b, dir)
	start := time.Now() // of the active one as well, which Close would make
	for _, s := range p.log.Segments() {
		if _, err := p.indexesOf(s); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("indexes of %d MiB made in %v", batches*1100>>20, time.Since(start))
	done := make(chan struct{})
	p.do(func() {
		p.owner.unsaved = 1                                                                                                             // there is something to save
		p.places.active.Add(producerindex.Batch{PID: 1, Offset: p.owner.end, Base: 1 << 40, Last: 1 << 40, Version: batchfmt.Version2}) // likewise
		close(done)
	})
	<-done
	if err := p.Close(wire.Errorf(wire.CodeShutdown, "filled")); err != nil {
		b.Fatal(err)
	}
}
