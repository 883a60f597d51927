package seglog

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestAppendReadReopen(t *testing.T) {
	systems := map[string]func(t *testing.T) (vfs.FS, string){
		"os":  func(t *testing.T) (vfs.FS, string) { return vfs.OS, filepath.Join(t.TempDir(), "7", "0") },
		"mem": func(*testing.T) (vfs.FS, string) { return vfs.NewMem(), testDir },
	}
	for name, open := range systems {
		for cfgName, cfg := range map[string]Config{"small": small(), "filled": filled(), "default": {}} {
			t.Run(name+"/"+cfgName, func(t *testing.T) {
				fsys, dir := open(t)
				l, info, err := Open(fsys, dir, cfg)
				must(t, err)
				if info.End != 0 || info.Cut != nil || info.Segments != 1 {
					t.Fatalf("a new log has %+v", info)
				}
				m := newMaker()
				var want []batchfmt.Batch
				for i := range 40 {
					group := []batchfmt.Batch{m.batch(t, 1+i%3, 20*(i%7))}
					if i%5 == 0 {
						group = append(group, m.control(t), m.batch(t, 2, 10), m.control(t))
					}
					must(t, l.Append(group))
					want = append(want, group...)
					if i%4 == 0 {
						if got := mustSync(t, l); got != m.next {
							t.Fatalf("durable end is %d, want %d", got, m.next)
						}
					}
				}
				check := func(l *Log) {
					t.Helper()
					wantBatches(t, scanAll(t, l), want)
					wantBatches(t, readAll(t, l, 1), withoutControl(want))
					wantBatches(t, readAll(t, l, 1500), withoutControl(want))
				}
				check(l)
				must(t, l.Close())
				for range 2 {
					l, info, err = Open(fsys, dir, cfg)
					must(t, err)
					if info.End != m.next || info.LastTerm != 1 || info.MaxAppendTime != testTime+int64(m.made) || info.Cut != nil || info.Walked != 0 {
						t.Fatalf("reopened: %+v", info)
					}
					check(l)
					must(t, l.Close())
				}
				must(t, Remove(fsys, dir))
				_, err = fsys.Stat(dir)
				wantErr(t, err, fs.ErrNotExist)
			})
		}
	}
}

func TestAppendChecksOrder(t *testing.T) {
	tests := []struct {
		name   string
		change func(s *batchfmt.Stamp)
	}{
		{"offset above the end", func(s *batchfmt.Stamp) { s.BaseOffset++ }},
		{"offset below the end", func(s *batchfmt.Stamp) { s.BaseOffset-- }},
		{"term falls", func(s *batchfmt.Stamp) { s.Term-- }},
		{"durable offset above the batch", func(s *batchfmt.Stamp) { s.Durable = s.BaseOffset + 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := mustOpen(t, vfs.NewMem(), small())
			m := &maker{term: 5}
			first := m.batch(t, 3, 10)
			must(t, l.Append([]batchfmt.Batch{first}))
			good := m.batch(t, 1, 10)
			bad := stamp(t, m.batch(t, 1, 10), tt.change)
			wantErr(t, l.Append([]batchfmt.Batch{good, bad}), ErrOrder)
			wantBatches(t, scanAll(t, l), []batchfmt.Batch{first})
			must(t, l.Append([]batchfmt.Batch{good}))
			must(t, l.Append(nil))
		})
	}
}

func TestAppendWritesGroupsInFewCalls(t *testing.T) {
	f := vfs.NewFaulty(vfs.NewMem())
	l, _ := mustOpen(t, f, Config{FillBytes: -1})
	writes := 0
	f.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpWrite {
			writes++
		}
	})
	m := newMaker()
	tests := []struct {
		name   string
		sizes  []int
		writes int
	}{
		{"one", []int{100}, 1},
		{"many small ones", []int{100, 200, 300, 400}, 1},
		{"a large one among small ones", []int{100, 100, 2 << 20, 100}, 3},
		{"more than the buffer", []int{600 << 10, 600 << 10, 100}, 2},
		{"one large one", []int{3 << 20}, 1},
	}
	var want []batchfmt.Batch
	for _, tt := range tests {
		var group []batchfmt.Batch
		for _, n := range tt.sizes {
			group = append(group, m.batch(t, 1, n))
		}
		writes = 0
		must(t, l.Append(group))
		if writes != tt.writes {
			t.Errorf("%s: %d writes, want %d", tt.name, writes, tt.writes)
		}
		want = append(want, group...)
	}
	if cap(l.buf) > 2*groupBufferBytes {
		t.Errorf("the buffer has %d bytes", cap(l.buf))
	}
	wantBatches(t, scanAll(t, l), want)
	wantBatches(t, readAll(t, l, 1<<20), want)
}

func TestSegmentsRoll(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), small())
	m := newMaker()
	for range 3 { // a segment without an offset used has no successor
		var group []batchfmt.Batch
		for range 10 {
			group = append(group, m.control(t))
		}
		must(t, l.Append(group))
	}
	if got := l.Segments(); len(got) != 1 || got[0].Bytes < 2000 {
		t.Fatalf("control batches alone made %+v", got)
	}
	must(t, l.Append([]batchfmt.Batch{m.batch(t, 1, 10)}))
	large := m.batch(t, 2, 2500) // more than a segment
	must(t, l.Append([]batchfmt.Batch{large}))
	must(t, l.Append([]batchfmt.Batch{m.batch(t, 1, 10)}))
	var got []string
	for _, s := range l.Segments() {
		got = append(got, fmt.Sprintf("[%d,%d)", s.Base, s.Next))
	}
	if want := []string{"[0,1)", "[1,3)", "[3,4)"}; !slices.Equal(got, want) {
		t.Fatalf("segments are %v, want %v", got, want)
	}
}

func TestReadLimits(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), small())
	m := newMaker()
	for range 30 { // batches at 0, 3, 6 ... 87
		must(t, l.Append([]batchfmt.Batch{m.batch(t, 3, 30), m.control(t)}))
	}
	tests := []struct {
		name        string
		from, limit Offset
		maxBytes    int
		first, next Offset // first -1: nothing
		err         error
	}{
		{"from the middle of a batch", 4, 90, 1, 3, 6, nil},
		{"at the limit", 30, 30, 1000, -1, 30, nil},
		{"above the limit", 31, 30, 1000, -1, 31, nil},
		{"a batch over the limit is left out", 3, 5, 1000, -1, 3, nil},
		{"up to the limit", 3, 8, 10000, 3, 6, nil},
		{"limit above the end", 87, math.MaxInt64, 1000, 87, 90, nil},
		{"at the end", 90, math.MaxInt64, 1000, -1, 90, nil},
		{"above the end", 91, math.MaxInt64, 1000, -1, 91, ErrOutOfRange},
		{"below the start", -1, 90, 1000, -1, -1, ErrOutOfRange},
		{"no bytes asked for is one batch", 0, 90, 0, 0, 3, nil},
		{"negative bytes are one batch", 0, 90, -5, 0, 3, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, next, err := l.Read([]byte("before"), tt.from, tt.limit, tt.maxBytes)
			wantErr(t, err, tt.err)
			rest, ok := bytes.CutPrefix(got, []byte("before"))
			if !ok || next != tt.next || (len(rest) == 0) != (tt.first < 0) {
				t.Fatalf("read %d bytes, next %d, want %d", len(rest), next, tt.next)
			}
			if len(rest) > 0 && parse(t, rest).BaseOffset() != tt.first {
				t.Fatalf("the first batch is %d, want %d", parse(t, rest).BaseOffset(), tt.first)
			}
		})
	}
}

func TestReadBytesStayNearMax(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), Config{})
	m := newMaker()
	size := 0
	for range 100 {
		b := m.batch(t, 1, 1000)
		size = b.Size()
		must(t, l.Append([]batchfmt.Batch{b}))
	}
	for _, n := range []int{1, size - 1, size, size + 1, 10*size - 1, 10 * size, 1000 * size} {
		got, next, err := l.Read(nil, 0, l.End(), n)
		must(t, err)
		if want := min(max(n/size, 1), 100); int(next) != want || len(got) != want*size {
			t.Errorf("asked for %d bytes of batches of %d: %d batches, %d bytes", n, size, next, len(got))
		}
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := mustOpen(t, mem, small())
	m := newMaker()
	for range 60 {
		must(t, l.Append([]batchfmt.Batch{m.batch(t, 3, 100)}))
	}
	segments := len(l.Segments())
	if segments < 10 {
		t.Fatalf("only %d segments", segments)
	}
	for range 3 {
		readAll(t, l, 100)
		if got := mem.OpenFiles(); got > 3 {
			t.Fatalf("%d files are open, want 3 at most", got)
		}
	}
	must(t, l.Close())
	if got := mem.OpenFiles(); got != 0 {
		t.Fatalf("%d files are open after Close", got)
	}
}

func TestFindBack(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), small())
	m := newMaker()
	var all []batchfmt.Batch
	for range 40 {
		b := m.batch(t, 3, 100)
		all = append(all, b)
		must(t, l.Append([]batchfmt.Batch{b}))
	}
	big := m.batch(t, 1, 300_000) // its header alone is looked at
	must(t, l.Append([]batchfmt.Batch{big}))
	all = append(all, big)

	find := func(match func(b batchfmt.Batch) (bool, bool)) (batchfmt.Batch, bool) {
		t.Helper()
		b, found, err := l.FindBack(match)
		must(t, err)
		return b, found
	}
	for _, want := range all {
		got, found := find(func(b batchfmt.Batch) (bool, bool) { return b.BaseSequence() == want.BaseSequence(), false })
		if !found || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("batch %d was not found", want.BaseOffset())
		}
	}
	if got, found := find(func(batchfmt.Batch) (bool, bool) { return true, false }); !found || got.BaseOffset() != big.BaseOffset() {
		t.Fatal("the newest of all was not found")
	}
	looked := 0
	if _, found := find(func(batchfmt.Batch) (bool, bool) { looked++; return false, true }); found || looked != 1 {
		t.Fatalf("stop in the newest segment looked at %d batches", looked)
	}
	looked = 0
	if _, found := find(func(batchfmt.Batch) (bool, bool) { looked++; return false, false }); found || looked != len(all) {
		t.Fatalf("a search for nothing looked at %d of %d batches", looked, len(all))
	}
}

func TestScanFrom(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), small())
	m := newMaker()
	var all []batchfmt.Batch
	for range 20 {
		group := []batchfmt.Batch{m.batch(t, 3, 100), m.control(t)}
		all = append(all, group...)
		must(t, l.Append(group))
	}
	for from := Offset(0); from <= m.next; from++ {
		var got []batchfmt.Batch
		must(t, l.Scan(from, func(b batchfmt.Batch) error {
			got = append(got, parse(t, bytes.Clone(b.Bytes())))
			return nil
		}))
		want := slices.DeleteFunc(slices.Clone(all), func(b batchfmt.Batch) bool {
			return b.NextOffset() <= from && !(b.IsControl() && b.BaseOffset() == from)
		})
		wantBatches(t, got, want)
	}
	wantErr(t, l.Scan(0, func(batchfmt.Batch) error { return errTest }), errTest)
	wantErr(t, l.Scan(m.next+1, func(batchfmt.Batch) error { return nil }), ErrOutOfRange)
}

func TestBatchAt(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), small())
	m := newMaker()
	want := m.batch(t, 3, 10)
	must(t, l.Append([]batchfmt.Batch{want}))
	got, err := l.BatchAt(2)
	must(t, err)
	wantBatches(t, []batchfmt.Batch{got}, []batchfmt.Batch{want})
	_, err = l.BatchAt(3)
	wantErr(t, err, ErrOutOfRange)
}

func TestClosed(t *testing.T) {
	for name, shut := range map[string]func(l *Log) error{"close": (*Log).Close, "remove": (*Log).Remove} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			l, _ := mustOpen(t, mem, small())
			m := newMaker()
			must(t, l.Append([]batchfmt.Batch{m.batch(t, 1, 10)}))
			must(t, shut(l))
			must(t, shut(l))
			wantErr(t, l.Append([]batchfmt.Batch{m.batch(t, 1, 10)}), ErrClosed)
			_, err := l.Sync()
			wantErr(t, err, ErrClosed)
			_, _, err = l.Read(nil, 0, 1, 1)
			wantErr(t, err, ErrClosed)
			wantErr(t, l.Scan(0, nil), ErrClosed)
			_, _, err = l.FindBack(nil)
			wantErr(t, err, ErrClosed)
			if got := mem.OpenFiles(); got != 0 {
				t.Fatalf("%d files are open", got)
			}
		})
	}
}

func TestRemoveIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := mustOpen(t, mem, small())
	must(t, l.Remove())
	_, err := mem.CrashClone().Stat(testDir)
	wantErr(t, err, fs.ErrNotExist)
}

func TestNewLogIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/data")) // by someone who was killed before the sync
	mustOpen(t, mem, small())
	crashed := mem.CrashClone()
	if got := files(t, crashed); len(got) != 1 {
		t.Fatalf("after a crash there are %d files", len(got))
	}
}

func TestFillIsAheadAndGoes(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := mustOpen(t, mem, filled())
	m := newMaker()
	for range 100 {
		must(t, l.Append([]batchfmt.Batch{m.batch(t, 1, 100)}))
		size := int64(len(content(t, mem, segName(0))))
		if ahead := size - l.Segments()[0].Bytes; ahead < 1024 || ahead > 4096 {
			t.Fatalf("the fill is %d bytes", ahead)
		}
	}
	must(t, l.Close())
	if size := int64(len(content(t, mem, segName(0)))); size != l.Segments()[0].Bytes {
		t.Fatalf("after Close the file has %d bytes, the segment %d", size, l.Segments()[0].Bytes)
	}
}

func TestFillMayFail(t *testing.T) {
	f := vfs.NewFaulty(vfs.NewMem())
	l, _ := mustOpen(t, f, filled())
	m := newMaker()
	a, b, c := m.batch(t, 1, 100), m.batch(t, 1, 100), m.batch(t, 1, 100)
	f.LimitSpace(int64(a.Size()) + 10) // room for the batch and a bit of the fill
	must(t, l.Append([]batchfmt.Batch{a}))
	wantErr(t, l.Append([]batchfmt.Batch{b}), syscall.ENOSPC)
	f.Heal()
	must(t, l.Append([]batchfmt.Batch{b, c}))
	mustSync(t, l)
	wantBatches(t, scanAll(t, l), []batchfmt.Batch{a, b, c})
}
