package sorttable

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

const benchRows = 1_000_000

// benchTable is a table of a million rows in a file of the operating system, each of another
// A, with values of 24 bytes.
func benchTable(b *testing.B) (*Table, Stats) {
	name := filepath.Join(b.TempDir(), "t")
	value := make([]byte, 24)
	stats, err := Write(vfs.OS, name, nil, func(yield func(Key, []byte) bool) {
		for i := range uint64(benchRows) {
			if !yield(Key{3 * i, i * i}, value) {
				return
			}
		}
	})
	must(b, err)
	table, err := Open(vfs.OS, name)
	must(b, err)
	return table, stats
}

func BenchmarkFind(b *testing.B) {
	table, stats := benchTable(b)
	find := func(b *testing.B, step uint64) {
		r := rand.New(rand.NewPCG(1, 2))
		b.ReportAllocs()
		for b.Loop() {
			i := r.Uint64N(benchRows)
			_, ok, err := table.Find(Key{3*i + step, i * i})
			if err != nil || ok != (step == 0) {
				b.Fatal(ok, err)
			}
		}
	}
	b.Run("there", func(b *testing.B) { find(b, 0) })
	b.Run("not there", func(b *testing.B) { find(b, 1) })
	must(b, table.Hold())
	b.Run("there, file held", func(b *testing.B) {
		find(b, 0)
		b.ReportMetric(float64(stats.FileBytes)/benchRows, "disk-B/row")
		b.ReportMetric(float64(table.Bytes())/benchRows, "mem-B/row")
	})
	must(b, table.Close())
}

func BenchmarkOpen(b *testing.B) {
	table, _ := benchTable(b)
	for b.Loop() {
		_, err := Open(vfs.OS, table.Name())
		must(b, err)
	}
}

// One operation is a million rows.
func BenchmarkWrite(b *testing.B) {
	for b.Loop() {
		benchTable(b)
	}
}

func BenchmarkAll(b *testing.B) {
	table, _ := benchTable(b)
	for b.Loop() {
		n := 0
		for _, err := range table.All() {
			must(b, err)
			n++
		}
		if n != benchRows {
			b.Fatal(n)
		}
	}
}
