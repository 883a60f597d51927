package seglog

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// A committer is what a group commit runs on.
type committer interface {
	Append(group []batchfmt.Batch) error
	Sync() (Offset, error)
	Close() error
}

// bare is the least that a group commit needs: a file, one write for each group, and the
// sync. The file grows, or, with prefilled bytes, is there already in its full length: a
// ceiling for whoever gets his files for nothing.
type bare struct {
	f   vfs.File
	pos int64
	buf []byte
}

func newBare(b *testing.B, name string, prefilled int64) *bare {
	f, err := vfs.OS.Create(name)
	must(b, err)
	for pos := int64(0); pos < prefilled; pos += int64(len(zeros)) {
		_, err := f.WriteAt(zeros[:], pos)
		must(b, err)
	}
	must(b, f.Sync())
	return &bare{f: f}
}

func (x *bare) Append(group []batchfmt.Batch) error {
	x.buf = x.buf[:0]
	for _, b := range group {
		x.buf = append(x.buf, b.Bytes()...)
	}
	n, err := x.f.WriteAt(x.buf, x.pos)
	x.pos += int64(n)
	return err
}

func (x *bare) Sync() (Offset, error) { return 0, x.f.Sync() }
func (x *bare) Close() error          { return x.f.Close() }

// commitAll commits n batches with so many in flight, as the owner of a partition does:
// what queues during a sync is appended meanwhile and shares the next one. It returns how
// long each batch took.
func commitAll(b *testing.B, c committer, make func() batchfmt.Batch, n, inFlight int) []time.Duration {
	type wave struct{ starts []time.Time }
	syncs, synced := makeChan[wave](1), makeChan[wave](1)
	var wg sync.WaitGroup
	wg.Go(func() { // the syncer; ends when syncs is closed
		for w := range syncs {
			_, err := c.Sync()
			must(b, err)
			synced <- w
		}
	})
	times := slices.Grow([]time.Duration(nil), n)
	m := newMaker()
	free, given, syncing := inFlight, 0, false
	var waiting wave
	for len(times) < n {
		if free > 0 && given < n {
			group := []batchfmt.Batch{}
			for ; free > 0 && given < n; given, free = given+1, free-1 {
				x := make()
				x.Stamp(batchfmt.Stamp{BaseOffset: m.next, Term: 1})
				m.next++
				group = append(group, x)
				waiting.starts = append(waiting.starts, time.Now())
			}
			must(b, c.Append(group))
		}
		if !syncing && len(waiting.starts) > 0 {
			syncs <- waiting
			waiting, syncing = wave{}, true
		}
		done := <-synced
		syncing = false
		for _, start := range done.starts {
			times = append(times, time.Since(start))
		}
		free += len(done.starts)
	}
	close(syncs)
	wg.Wait()
	return times
}

func makeChan[T any](n int) chan T { return make(chan T, n) }

// BenchmarkGroupCommit compares the log with bare files, round by round in one run, so that
// all meet the disk in the same mood.
func BenchmarkGroupCommit(b *testing.B) {
	const size = 64 << 10
	for _, inFlight := range []int{1, 5, 16} {
		b.Run(fmt.Sprintf("%d-in-flight", inFlight), func(b *testing.B) {
			m := newMaker()
			pool := make([]batchfmt.Batch, 64)
			for i := range pool {
				pool[i] = m.batch(b, 1, size)
			}
			next := 0
			take := func() batchfmt.Batch { next++; return pool[next%len(pool)] }
			kinds := []string{"growing", "prefilled", "log"}
			speeds, times := make([][]float64, len(kinds)), make([][]time.Duration, len(kinds))
			const perRound = 1024
			for b.Loop() {
				for which, kind := range kinds {
					dir := filepath.Join(b.TempDir(), "round")
					c := openCommitter(b, kind, dir, perRound*(size+1024))
					start := time.Now()
					times[which] = append(times[which], commitAll(b, c, take, perRound, inFlight)...)
					speeds[which] = append(speeds[which], perRound*size/time.Since(start).Seconds()/1e6)
					must(b, c.Close())
					must(b, vfs.OS.RemoveAll(dir))
				}
			}
			for which, kind := range kinds {
				slices.Sort(times[which])
				b.ReportMetric(median(speeds[which]), kind+"-MB/s")
				b.ReportMetric(float64(times[which][len(times[which])/2].Microseconds()), kind+"-p50-µs")
				b.ReportMetric(float64(times[which][len(times[which])*99/100].Microseconds()), kind+"-p99-µs")
			}
			b.ReportMetric(median(speeds[2])/median(speeds[0])*100, "%-of-growing")
			b.ReportMetric(median(speeds[2])/median(speeds[1])*100, "%-of-prefilled")
		})
	}
}

func openCommitter(b *testing.B, kind, dir string, bytes int64) committer {
	if kind == "log" {
		l, _, err := Open(vfs.OS, dir, Config{})
		must(b, err)
		return l
	}
	must(b, vfs.OS.MkdirAll(dir))
	if kind == "growing" {
		bytes = 0
	}
	return newBare(b, filepath.Join(dir, "bare"), bytes)
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
