package retired

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

var fillRows = flag.Int("retired.rows", 1_000_000, "rows that the benchmarks put, in groups of 256")

// fillTable puts rows of 208 bytes, which is what a lane with a full window has, on a real
// disk, and counts the bytes that are written.
func fillTable(b *testing.B, dir string) (table *Table, wrote int64) {
	b.Helper()
	f := vfs.NewFaulty(vfs.OS)
	last := ""
	f.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpRename && filepath.Ext(name) == tempSuffix {
			last = name
			if size, err := vfs.OS.Stat(name); err == nil {
				wrote += size
			}
		}
	})
	table, _, err := Open(f, dir, Options{MaxRows: *fillRows})
	must(b, err)
	value := make([]byte, 208)
	var group []Row
	for i := range *fillRows {
		for j := range value {
			value[j] = byte(i*31 + j*j*i)
		}
		group = append(group, Row{PID: pid(i*3 + 1), Value: append([]byte(nil), value...)})
		if len(group) == 256 || i == *fillRows-1 {
			must(b, table.Put(group))
			group = group[:0]
		}
	}
	f.Observe(nil)
	if last == "" {
		b.Fatal("nothing was renamed")
	}
	return table, wrote
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkTable fills a table and looks rows up: those that are there and those that are not.
func BenchmarkTable(b *testing.B) {
	dir, err := os.MkdirTemp(b.TempDir(), "")
	must(b, err)
	before, begin := heap(), time.Now()
	table, wrote := fillTable(b, dir)
	seconds, held := time.Since(begin).Seconds(), heap()-before
	s := table.Stats()
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(seconds, "s")
		b.ReportMetric(float64(s.Bytes)/float64(s.Rows), "disk-B/row")
		b.ReportMetric(float64(wrote)/float64(s.Bytes), "writes/B")
		b.ReportMetric(float64(held)/float64(s.Rows), "heap-B/row")
		b.ReportMetric(float64(s.Memory)/float64(s.Rows), "memory-B/row")
		b.ReportMetric(float64(s.Runs), "runs")
	})
	get := func(name string, id func(i int) pid, want bool) {
		b.Run(name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				i = (i + 7919) % *fillRows
				if _, ok, err := table.Get(id(i)); ok != want || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
	get("hit", func(i int) pid { return pid(i*3 + 1) }, true)
	get("miss", func(i int) pid { return pid(i*3 + 2) }, false)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			again, _, err := Open(vfs.OS, dir, Options{})
			must(b, err)
			must(b, again.Close())
		}
	})
	must(b, table.Close())
}
