package seglog

import (
	"bytes"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// fuzzMemory bounds what one Open of a small file may allocate: a few windows that each
// met a batch that claims to be as large as allowed.
const fuzzMemory = 8 * batchfmt.MaxBatchBytes

// FuzzRecovery puts any bytes where the last segment should be, behind a good one or
// alone, with any index. Open refuses and changes nothing, or gives a log that can be read
// in full, that recovers the same way again, and that takes appends.
func FuzzRecovery(f *testing.F) {
	f.Fuzz(func(t *testing.T, data, idx []byte, alone bool) {
		mem := vfs.NewMem()
		m := newMaker()
		base := Offset(0)
		if !alone {
			base = goodSegment(t, mem, m)
		}
		must(t, vfs.MakeDir(mem, testDir))
		must(t, writeFile(mem, filepath.Join(testDir, segName(base)), data))
		if len(idx) > 0 {
			must(t, writeFile(mem, filepath.Join(testDir, idxName(base)), idx))
		}
		before := files(t, mem)
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		allocated := stats.TotalAlloc
		l, info, err := Open(mem, testDir, small())
		runtime.ReadMemStats(&stats)
		if n := stats.TotalAlloc - allocated; n > fuzzMemory+64*uint64(len(data)+len(idx)) {
			t.Fatalf("recovery of %d bytes allocated %d", len(data)+len(idx), n)
		}
		if err != nil {
			wantCorrupt(t, err)
			for name, was := range before {
				if string(content(t, mem, name)) != was {
					t.Fatalf("a refused recovery changed %s", name)
				}
			}
			return
		}
		fuzzUse(t, mem, l, info)
	})
}

// goodSegment makes a log whose second segment is still to come, and returns its base.
func goodSegment(t *testing.T, mem *vfs.Mem, m *maker) Offset {
	l, _, err := Open(mem, testDir, small())
	must(t, err)
	must(t, l.Append([]batchfmt.Batch{m.batch(t, 2, 20)}))
	must(t, l.Close())
	return m.next
}

func fuzzUse(t *testing.T, mem *vfs.Mem, l *Log, info Recovery) {
	kept, err := scanQuietly(l)
	if err != nil { // what an index vouched for and recovery did not walk may be bad
		wantCorrupt(t, err)
	}
	for from := l.Start(); from < l.End(); {
		_, next, err := l.Read(nil, from, l.End(), 1000)
		if err != nil {
			wantCorrupt(t, err)
			break
		}
		if next <= from {
			t.Fatalf("a read from %d came to %d", from, next)
		}
		from = next
	}
	again, info2, err := Open(mem.CrashClone(), testDir, small())
	must(t, err)
	if info2.Cut != nil || info2.End != info.End || info2.LastTerm != info.LastTerm {
		t.Fatalf("recovered %+v, then %+v", info, info2)
	}
	if twice, _ := scanQuietly(again); sameBatches(twice, kept) != nil {
		t.Fatal("recovered other batches the second time")
	}
	m := newMaker()
	m.next, m.term = info.End, info.LastTerm
	must(t, again.Append([]batchfmt.Batch{m.batch(t, 1, 10)}))
	mustSync(t, again)
	must(t, again.Close())
	must(t, l.Close())
}

func scanQuietly(l *Log) ([]batchfmt.Batch, error) {
	var all []batchfmt.Batch
	err := l.Scan(l.Start(), func(b batchfmt.Batch) error {
		c, err := batchfmt.Parse(bytes.Clone(b.Bytes()))
		all = append(all, c)
		return err
	})
	return all, err
}

// FuzzIndex: an index is refused, or it is exactly what writing it again gives.
func FuzzIndex(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := parseIndex(data)
		if err != nil {
			return
		}
		if got := x.append(nil); !bytes.Equal(got, data) {
			t.Fatalf("%x is written again as %x", data, got)
		}
		for _, offset := range []Offset{x.base, x.end.next, (x.base + x.end.next) / 2} {
			if e := floor(x.entries, x.base, offset); e.offset > max(offset, x.base) || e.pos >= max(x.end.size, segHeaderSize+1) {
				t.Fatalf("the way to %d begins at %+v", offset, e)
			}
		}
	})
}
