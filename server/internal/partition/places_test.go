package partition

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerindex"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// smallSegments hold a few batches each.
func smallSegments(c *Config) { c.Log.SegmentBytes = 4 << 10 }

// indexFiles are the names of the producer indexes.
func indexFiles(t *testing.T, fs vfs.FS) (found []string) {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if filepath.Ext(name) == ".pix" {
			found = append(found, filepath.Join(dir, name))
		}
	}
	return found
}

// writeMany lets two producers write n batches each, in turn, and returns their openings.
func writeMany(b *bench, n int) {
	b.t.Helper()
	one, _, e := b.enter(1, -1)
	if e != nil {
		b.t.Fatal(e)
	}
	two, _, e := b.enter(2, -1)
	if e != nil {
		b.t.Fatal(e)
	}
	for i := range n {
		for _, o := range []*Opening{one, two} {
			if r := b.send(o, batchfmt.Seq(i), -1); r.Code != wire.CodeOK || r.Duplicate {
				b.t.Fatalf("batch %d: %v", i, r.Code)
			}
		}
	}
}

// wantAll retries everything that writeMany wrote, newest first.
func wantAll(b *bench, n int) {
	b.t.Helper()
	for pid := range batchfmt.ProducerID(2) {
		last := batchfmt.Seq(n - 1)
		o, _, e := b.enter(pid+1, last)
		if e != nil {
			b.t.Fatal(e)
		}
		for seq := last; seq >= 0; seq-- {
			want := batchfmt.Offset(2*int64(seq) + int64(pid))
			if r := b.send(o, seq, -1); !r.Duplicate || !r.Verified || r.BaseOffset != want {
				b.t.Fatalf("producer %d, sequence %d: %v (%s) at %d, want %d", pid+1, seq, r.Code, r.Detail, r.BaseOffset, want)
			}
		}
		b.leave(o)
	}
}

func TestEveryBatchIsFoundAgain(t *testing.T) {
	const n = 120
	rows := []struct {
		name string
		harm func(t *testing.T, fs vfs.FS)
	}{
		{"as it is", func(*testing.T, vfs.FS) {}},
		{"without any index", func(t *testing.T, fs vfs.FS) {
			for _, name := range indexFiles(t, fs) {
				must(t, fs.Remove(name))
			}
		}},
		{"with indexes that rot", func(t *testing.T, fs vfs.FS) {
			for i, name := range indexFiles(t, fs) {
				f, err := fs.Open(name)
				must(t, err)
				size, err := f.Size()
				must(t, err)
				_, err = f.WriteAt([]byte{0xff}, int64(i*37)%size)
				must(t, err)
				must(t, f.Close())
			}
		}},
		{"with the index of another segment", func(t *testing.T, fs vfs.FS) {
			names := indexFiles(t, fs)
			must(t, fs.Rename(names[0], names[1]))
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			fs := vfs.NewMem()
			b := openPartition(t, fs, smallSegments)
			writeMany(b, n)
			wantAll(b, n) // the active segment's from memory
			b.close()
			if len(indexFiles(t, fs)) < 5 {
				t.Fatalf("there are %d indexes only", len(indexFiles(t, fs)))
			}
			row.harm(t, fs)
			b = openPartition(t, fs, smallSegments)
			defer b.close()
			wantAll(b, n)
			if end := b.p.HighWatermark(); end != 2*n {
				t.Errorf("the log ends at %d", end)
			}
			c := &b.p.cfg.Counters.LookUps
			if c.Found.Load() == 0 || c.Nothing.Load()+c.Failed.Load()+c.Damaged.Load() != 0 {
				t.Errorf("look-ups: %d found, %d nothing, %d failed, %d damaged", c.Found.Load(), c.Nothing.Load(), c.Failed.Load(), c.Damaged.Load())
			}
		})
	}
}

// Indexes cannot be written, and everything is found all the same.
func TestLookUpsOnAFullDisk(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, smallSegments)
	const n = 60
	writeMany(b, n)
	b.close()
	for _, name := range indexFiles(t, disk) {
		must(t, disk.Remove(name))
	}
	b = openPartition(t, disk, smallSegments)
	disk.LimitSpace(0)
	wantAll(b, n)
	if left := indexFiles(t, disk); len(left) != 0 {
		t.Errorf("half an index was left: %v", left)
	}
	disk.Heal()
	b.close()
}

// Other bytes under old sequences are told from a retry, however old.
func TestConflictLongAgo(t *testing.T) {
	b := openPartition(t, vfs.NewMem(), smallSegments)
	defer b.close()
	const n = 100
	writeMany(b, n)
	o, _, e := b.enter(1, n-1)
	if e != nil {
		t.Fatal(e)
	}
	for _, row := range []struct {
		base   batchfmt.Seq
		values []string
	}{{3, []string{"other"}}, {3, []string{"v", "v"}}} {
		pr := Produce{Opening: o, Batch: sealed(t, 1, row.base, row.values...), Sink: b.sink, Confirmed: -1}
		if e := b.p.Produce(pr); e != nil {
			t.Fatal(e)
		}
		b.wantCode(wire.CodeSequenceConflict)
	}
}

// What rots behind a good index is told as what it is.
func TestLookUpOfWhatHasRotted(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, smallSegments)
	defer b.close()
	writeMany(b, 60)
	f, err := fs.Open(filepath.Join(dir, fmt.Sprintf("%020d.seg", 0)))
	must(t, err)
	size := int64(sealed(t, 7, 0, "v").Size())
	_, err = f.WriteAt([]byte{0xff}, segmentHeader+3*size-2) // the body of offset 2
	must(t, err)
	must(t, f.Close())
	o, _, e := b.enter(1, 59)
	if e != nil {
		t.Fatal(e)
	}
	if r := b.send(o, 1, -1); r.Code != wire.CodeBatchUnreadable || r.BaseOffset != 2 {
		t.Errorf("the retry is answered with %v at %d", r.Code, r.BaseOffset)
	}
	if r := b.send(o, 2, -1); !r.Duplicate || r.BaseOffset != 4 {
		t.Errorf("the one behind it: %v at %d", r.Code, r.BaseOffset)
	}
	if !strings.Contains(b.logs.String(), "damaged") {
		t.Error("nobody shouts")
	}
}

// A look-up lists the segments, and then the owner appends and begins a new one: the index of
// the one before has all of it.
func TestIndexOfASegmentThatHasGrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		b := openPartition(t, fs, tiny)
		writeMany(b, 2)
		b.close()
		b = openPartition(t, fs, tiny) // what is in front of its begin is in no builder
		defer b.close()
		listed, _ := b.p.log.Segment(b.p.log.ActiveBase())
		o, _, e := b.enter(3, -1)
		if e != nil {
			t.Fatal(e)
		}
		for seq := batchfmt.Seq(0); b.p.log.ActiveBase() == listed.Base; seq++ {
			if r := b.send(o, seq, -1); r.Code != wire.CodeOK {
				t.Fatal(r.Code)
			}
		}
		synctest.Wait() // its index is made
		b.p.places.Lock()
		b.p.places.drop(listed.Base)
		b.p.places.Unlock()
		at, found, err := b.p.findInSegment(listed, 3, []batchfmt.Seq{0})
		if err != nil || !found || at.run.FirstOffset != 4 {
			t.Errorf("found %v at %+v, %v", found, at.run, err)
		}
	})
}

// Indexes take no more memory than they may, whatever is opened; those that are needed again
// are opened again.
func TestReadyIndexesAreBounded(t *testing.T) {
	fs := vfs.NewMem()
	b := openPartition(t, fs, tiny)
	defer b.close()
	writeMany(b, 60)
	wantAll(b, 60)
	x := &b.p.places
	x.Lock()
	ready := len(x.ready)
	x.bytes += maxIndexBytes // as if there were many more
	x.Unlock()
	wantAll(b, 60)
	x.Lock()
	defer x.Unlock()
	if len(x.ready) != ready || x.bytes <= maxIndexBytes {
		t.Fatalf("%d are ready that were so before, %d now, with %d bytes", ready, len(x.ready), x.bytes)
	}
	for _, s := range b.p.log.Segments()[:3] {
		index, err := producerindex.Open(fs, dir, segmentOf(s))
		must(t, err)
		x.Unlock()
		x.keep(s.Base, index)
		x.Lock()
		if len(x.ready) != 1 {
			t.Errorf("%d are ready", len(x.ready))
		}
	}
}
