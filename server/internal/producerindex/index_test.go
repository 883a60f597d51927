package producerindex

import (
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestWhatMakesARun(t *testing.T) {
	type run = [4]int64 // sequences, offsets
	tests := []struct {
		name string
		do   func(l *log)
		want []run
	}{
		{"one batch", func(l *log) { l.batch(native, 0, 0, 4, 100) }, []run{{0, 4, 50, 50}}},
		{"batches that follow on", func(l *log) {
			l.batch(native, 0, 0, 4, 100)
			l.batch(native, 0, 5, 9, 100)
			l.batch(native, 0, 10, 10, 100)
		}, []run{{0, 10, 50, 60}}},
		{"batches of others between them", func(l *log) {
			l.batch(native, 0, 0, 4, 100)
			l.batch(gateway, 0, 0, 99, 100)
			l.batch(native, 0, 5, 9, 100)
		}, []run{{0, 9, 50, 155}}},
		{"a gap", func(l *log) {
			l.batch(native, 0, 0, 4, 100)
			l.batch(native, 0, 6, 9, 100)
		}, []run{{0, 4, 50, 50}, {6, 9, 55, 55}}},
		{"another epoch", func(l *log) {
			l.batch(native, 0, 0, 4, 100)
			l.batch(native, 1, 5, 9, 100)
		}, []run{{0, 4, 50, 50}, {5, 9, 55, 55}}},
		{"a new numbering", func(l *log) {
			l.batch(native, 0, 0, 4, 100)
			l.batch(native, 1, 0, 4, 100)
		}, []run{{0, 4, 50, 50}, {0, 4, 55, 55}}},
		{"as far as may be walked", func(l *log) {
			l.batch(native, 0, 0, 0, RunBytes)
			l.batch(native, 0, 1, 1, 100)
		}, []run{{0, 1, 50, 51}}},
		{"farther than may be walked", func(l *log) {
			l.batch(native, 0, 0, 0, RunBytes+1)
			l.batch(native, 0, 1, 1, 100)
			l.batch(native, 0, 2, 2, 100)
		}, []run{{0, 0, 50, 50}, {1, 2, 51, 52}}},
		{"no producer", func(l *log) { l.batch(0, 0, 0, 4, 100) }, nil},
		{"no records", func(l *log) { l.batch(native, 0, 0, -1, 100) }, nil},
		{"the last sequence of all", func(l *log) {
			l.batch(native, 0, math.MaxInt64, math.MaxInt64, 100)
			l.batch(native, 0, 0, 0, 100)
		}, []run{{math.MaxInt64, math.MaxInt64, 50, 50}, {0, 0, 51, 51}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLog(50)
			tt.do(l)
			var got []run
			for _, r := range allRuns(l.builder(), native) {
				got = append(got, run{int64(r.First), int64(r.Last), int64(r.FirstOffset), int64(r.LastOffset)})
			}
			if !slices.Equal(got, tt.want) {
				t.Fatalf("runs are %v, want %v", got, tt.want)
			}
			l.written(t)
		})
	}
}

// Builder and file say what going through all batches says.
func TestIndexIsAWalkOverAllBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := randomLog(t)
		b := l.builder()
		mem := vfs.NewMem()
		if _, err := b.Write(mem, testDir, l.segment()); err != nil {
			t.Fatal(err)
		}
		x, err := Open(mem, testDir, l.segment())
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Verify(); err != nil || int(x.Runs()) != b.Runs() {
			t.Fatalf("%d runs of %d: %v", x.Runs(), b.Runs(), err)
		}
		seqs := []batchfmt.Seq{-1, 0, math.MaxInt64, rapid.Custom(drawSeq).Draw(t, "asked")}
		for _, batch := range l.batches {
			seqs = append(seqs, batch.Base, batch.Last, batch.Base-1, batch.Last+1, batch.Base+(batch.Last-batch.Base)/2)
		}
		slices.Sort(seqs)
		for _, pid := range []batchfmt.ProducerID{0, 1, native, gateway, math.MaxUint64} {
			for _, seq := range slices.Compact(seqs) {
				l.compare(t, b, x, pid, seq)
			}
			l.compareNewest(t, b, x, pid)
		}
	})
}

func drawSeq(t *rapid.T) batchfmt.Seq {
	return batchfmt.Seq(rapid.OneOf(rapid.Int64Range(0, 40), rapid.Int64Min(0)).Draw(t, "seq"))
}

// randomLog is a log of lanes that mostly go on, and sometimes do what they should not.
func randomLog(t *rapid.T) *log {
	l := newLog(batchfmt.Offset(rapid.Int64Range(0, 1<<40).Draw(t, "base")))
	next := map[batchfmt.ProducerID]batchfmt.Seq{}
	epochs := map[batchfmt.ProducerID]batchfmt.Epoch{}
	for range rapid.IntRange(0, 80).Draw(t, "batches") {
		pid := rapid.SampledFrom([]batchfmt.ProducerID{0, 1, native, native, gateway, math.MaxUint64}).Draw(t, "pid")
		switch rapid.IntRange(0, 9).Draw(t, "how") {
		case 0:
			next[pid] = drawSeq(t)
		case 1:
			epochs[pid]++
			next[pid] = 0
		case 2:
			epochs[pid] = batchfmt.Epoch(rapid.Uint32().Draw(t, "epoch"))
		}
		from := next[pid]
		to := from + min(batchfmt.Seq(rapid.IntRange(-1, 6).Draw(t, "length")), math.MaxInt64-from)
		l.batch(pid, epochs[pid], from, to, rapid.Int64Range(60, RunBytes/2).Draw(t, "size"))
		if next[pid] = to + 1; next[pid] < 0 {
			next[pid] = 0
		}
	}
	return l
}

// newest is the last batch of pid for which is holds.
func (l *log) newest(pid batchfmt.ProducerID, is func(Batch) bool) (Batch, bool) {
	for _, x := range slices.Backward(l.batches) {
		if x.PID == pid && x.hasPlace() && is(x) {
			return x, true
		}
	}
	return Batch{}, false
}

func (l *log) compare(t *rapid.T, b *Builder, x *Index, pid batchfmt.ProducerID, seq batchfmt.Seq) {
	want, wantOK := l.newest(pid, func(x Batch) bool { return x.Base <= seq && seq <= x.Last })
	inMemory, ok := b.Find(pid, seq)
	inFile, fileOK, err := x.Find(pid, seq)
	if err != nil || ok != wantOK || fileOK != wantOK || inMemory != inFile {
		t.Fatalf("Find(%d, %d) is %+v, %v in memory, %+v, %v, %v in the file; want %+v, %v", pid, seq, inMemory, ok, inFile, fileOK, err, want, wantOK)
	}
	if !ok {
		return
	}
	r := inMemory
	first, _ := l.newest(pid, func(x Batch) bool { return x.Offset == r.FirstOffset })
	if !r.Holds(seq) || r.PID != pid || r.Epoch != want.Epoch || want.Offset < r.FirstOffset || want.Offset > r.LastOffset || want.Position-first.Position > RunBytes {
		t.Fatalf("Find(%d, %d) is %+v, want one with %+v, and not so far behind %+v", pid, seq, r, want, first)
	}
	if !x.MayHave(pid) {
		t.Fatalf("the filter does not know %d", pid)
	}
}

func (l *log) compareNewest(t *rapid.T, b *Builder, x *Index, pid batchfmt.ProducerID) {
	want, wantOK := l.newest(pid, func(Batch) bool { return true })
	inMemory, ok := b.Newest(pid)
	inFile, fileOK, err := x.Newest(pid)
	if err != nil || ok != wantOK || fileOK != wantOK || inMemory != inFile {
		t.Fatalf("Newest(%d) is %+v, %v in memory, %+v, %v, %v in the file", pid, inMemory, ok, inFile, fileOK, err)
	}
	if ok && (inMemory.Last != want.Last || inMemory.LastOffset != want.Offset) {
		t.Fatalf("Newest(%d) is %+v, want one that ends with %+v", pid, inMemory, want)
	}
}

// A lane with so many runs that they fill chunks and blocks.
func TestManyRuns(t *testing.T) {
	l := newLog(1 << 33)
	for i := range batchfmt.Seq(5000) {
		l.batch(native, batchfmt.Epoch(i/1000), 2*i, 2*i, 1000)
		l.batch(gateway, batchfmt.Epoch(i), i%7, i%7+1, 1000)
	}
	b := l.builder()
	_, x := l.written(t)
	for i := batchfmt.Seq(0); i < 5000; i += 41 {
		r, ok := b.Find(native, 2*i)
		if !ok || r.First != 2*i {
			t.Fatalf("sequence %d is in %+v", 2*i, r)
		}
		if inFile, ok, err := x.Find(native, 2*i); inFile != r || !ok || err != nil {
			t.Fatalf("sequence %d is in %+v, %v, %v", 2*i, inFile, ok, err)
		}
	}
	for seq := range batchfmt.Seq(9) {
		r, ok := b.Find(gateway, seq)
		if inFile, fileOK, err := x.Find(gateway, seq); inFile != r || fileOK != ok || err != nil || ok != (seq < 8) {
			t.Fatalf("sequence %d is in %+v, in the file in %+v, %v", seq, r, inFile, err)
		}
	}
}

func TestBatchesOfAnotherSegmentAreNotWritten(t *testing.T) {
	tests := []struct {
		name   string
		change func(l *log)
	}{
		{"one in front of it", func(l *log) { l.base++ }},
		{"one behind it", func(l *log) { l.next-- }},
		{"two in the wrong order", func(l *log) { slices.Reverse(l.batches) }},
		{"two new numberings in the wrong order", func(l *log) {
			l.batch(native, 1, 0, 0, 100)
			l.batch(native, 2, 0, 0, 100)
			l.batches[2].Offset = 0
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLog(10)
			l.batch(native, 0, 0, 0, 100)
			l.batch(native, 0, 1, 1, 100)
			tt.change(l)
			mem := vfs.NewMem()
			_, err := l.builder().Write(mem, testDir, l.segment())
			wantErr(t, err, ErrOrder)
			_, err = Open(mem, testDir, l.segment())
			if !MustRebuild(err) {
				t.Fatal(err)
			}
		})
	}
}

// Adding, finding and writing go on at the same time.
func TestBuilderIsForManyAtOnce(t *testing.T) {
	l := newLog(0)
	for i := range batchfmt.Seq(600) {
		l.batch(native, 0, 3*i, 3*i+1, 500)
		l.batch(gateway, batchfmt.Epoch(i), 0, 1, 500)
	}
	var b Builder
	b.Add(l.batches[0])
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for i := batchfmt.Seq(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				n, _ := b.Newest(native)
				if r, ok := b.Find(native, i%(n.Last+1)); ok == (i%(n.Last+1)%3 == 2) || ok && r.FirstOffset != r.LastOffset {
					t.Errorf("sequence %d of %d is in %+v, %v", i%(n.Last+1), n.Last, r, ok)
					return
				}
			}
		})
	}
	wg.Go(func() {
		if _, err := b.Write(vfs.NewMem(), testDir, l.segment()); err != nil {
			t.Error(err)
		}
	})
	for _, x := range l.batches[1:] {
		b.Add(x)
	}
	close(stop)
	wg.Wait()
	if b.Batches() != int64(len(l.batches)) || b.Runs() != len(l.batches) {
		t.Fatalf("%d batches, %d runs", b.Batches(), b.Runs())
	}
}

func TestForeignIndex(t *testing.T) {
	l := newLog(50)
	l.batch(native, 0, 0, 4, 100)
	mem, x := l.written(t)
	right := x.Segment()
	for name, change := range map[string]func(s *Segment){
		"another check": func(s *Segment) { s.Check++ },
		"another end":   func(s *Segment) { s.Next++ },
	} {
		t.Run(name, func(t *testing.T) {
			s := right
			change(&s)
			_, err := Open(mem, testDir, s)
			wantErr(t, err, ErrForeign)
		})
	}
	t.Run("another name", func(t *testing.T) {
		s := right
		s.Base++
		must(t, mem.Rename(filepath.Join(testDir, Name(right.Base)), filepath.Join(testDir, Name(s.Base))))
		_, err := Open(mem, testDir, s)
		wantErr(t, err, ErrForeign)
		if _, err := Open(mem, testDir, right); !MustRebuild(err) {
			t.Fatalf("a missing index: %v", err)
		}
	})
}

// Versions are noted of every batch that a reader may be given, in memory and in the file.
func TestVersions(t *testing.T) {
	plain, ours := Batch{Base: -1, Version: 1}, Batch{PID: 1, Version: 2}
	for _, test := range []struct {
		batches []Batch
		want    []batchfmt.Version
	}{
		{nil, nil},
		{[]Batch{{PID: 1, Base: 0, Last: -1}}, nil}, // one that is no reader's
		{[]Batch{plain}, []batchfmt.Version{1}},
		{[]Batch{ours}, []batchfmt.Version{2}},
		{[]Batch{ours, plain, ours, {Base: -1, Version: 32}, {Base: -1, Version: 33}}, []batchfmt.Version{1, 2, 32}},
	} {
		l := newLog(50)
		for _, b := range test.batches {
			b.Offset = l.next
			if b.PID != batchfmt.NoProducer && b.Last >= 0 {
				b.Base, b.Last = batchfmt.Seq(l.next), batchfmt.Seq(l.next)
			}
			l.batches = append(l.batches, b)
			l.next++
		}
		mem, _ := l.written(t)
		x, err := Open(mem, testDir, l.segment())
		must(t, err)
		if got := l.builder().Versions().List(); !slices.Equal(got, test.want) || !slices.Equal(x.Versions().List(), test.want) {
			t.Errorf("%+v: %v in memory, %v in the file", test.batches, got, x.Versions().List())
		}
	}
}

// The meta and the rows of a file of version 1. They must be read for ever.
const (
	goldenMeta = "51504958 01000000 3200000000000000 ecc4000000000000 4200000000000000 02000000 00000000" // base 50, next 66, version 2
	goldenRows = "" +
		"7 0 00 09 00 05\n" + // epoch 0, ten sequences at 50, the last batch at 55
		"7 10 03 00 0c 00\n" + // epoch 3, at 62
		"9223372036854775815 0 01 00 0f 00\n" + // epoch 1, at 65
		"9223372036854775815 9223372036854775868 00 05 01 00\n" // epoch 0, from 5, at 60
)

func TestGolden(t *testing.T) {
	l := newLog(50)
	l.batch(native, 0, 0, 4, 100)
	l.batch(native, 0, 5, 9, 100)
	l.batch(gateway, 0, 5, 6, 100)
	l.batch(native, 3, 10, 10, 100)
	l.next += 2
	l.batch(gateway, 1, 0, 0, 100)
	mem, _ := l.written(t)
	table, err := sorttable.Open(mem, filepath.Join(testDir, "00000000000000000050.pix"))
	must(t, err)
	if got := hex.EncodeToString(table.Meta()); got != strings.ReplaceAll(goldenMeta, " ", "") {
		t.Errorf("meta is %s", got)
	}
	var got strings.Builder
	for row, err := range table.All() {
		must(t, err)
		fmt.Fprintf(&got, "%d %d % x\n", row.Key.A, row.Key.B, row.Value)
	}
	if got.String() != goldenRows {
		t.Errorf("rows are\n%swant\n%s", &got, goldenRows)
	}
}
