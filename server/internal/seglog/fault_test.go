package seglog

import (
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestAppendIsUndone(t *testing.T) {
	tests := []struct {
		name  string
		fault func(f *vfs.Faulty, a batchfmt.Batch)
		cause error
	}{
		{"nothing was written", func(f *vfs.Faulty, _ batchfmt.Batch) { f.FailWrite(1, errTest) }, errTest},
		{"half of a batch was written", func(f *vfs.Faulty, a batchfmt.Batch) { f.ShortWrite(1, a.Size()/2, errTest) }, errTest},
		{"one batch of two was written", func(f *vfs.Faulty, a batchfmt.Batch) { f.ShortWrite(1, a.Size(), errTest) }, errTest},
		{"the disk is full", func(f *vfs.Faulty, a batchfmt.Batch) { f.LimitSpace(int64(a.Size()) + 7) }, syscall.ENOSPC},
	}
	for name, cfg := range map[string]Config{"without fill": small(), "with fill": filled()} {
		for _, tt := range tests {
			t.Run(tt.name+" "+name, func(t *testing.T) {
				mem := vfs.NewMem()
				f := vfs.NewFaulty(mem)
				l, _ := mustOpen(t, f, cfg)
				m := newMaker()
				first, a, b := m.batch(t, 1, 100), m.batch(t, 1, 100), m.batch(t, 1, 100)
				must(t, l.Append([]batchfmt.Batch{first}))
				tt.fault(f, a)
				wantErr(t, l.Append([]batchfmt.Batch{a, b}), tt.cause)
				must(t, l.Err())
				f.Heal()
				wantBatches(t, scanAll(t, l), []batchfmt.Batch{first})
				after, info, err := Open(mem.CrashClone(), testDir, cfg)
				must(t, err)
				if info.Cut != nil {
					t.Errorf("a crash brings back a part: %+v", info.Cut)
				}
				wantBatches(t, scanAll(t, after), []batchfmt.Batch{first})
				must(t, l.Append([]batchfmt.Batch{a}))
				must(t, l.Append([]batchfmt.Batch{b}))
				mustSync(t, l)
				wantBatches(t, scanAll(t, l), []batchfmt.Batch{first, a, b})
			})
		}
	}
}

func TestBrokenForEver(t *testing.T) {
	tests := []struct {
		name string
		ruin func(t *testing.T, f *vfs.Faulty, l *Log, next batchfmt.Batch) error
	}{
		{"a sync fails", func(t *testing.T, f *vfs.Faulty, l *Log, next batchfmt.Batch) error {
			must(t, l.Append([]batchfmt.Batch{next}))
			f.FailSync(1, errTest)
			_, err := l.Sync()
			return err
		}},
		{"an undo cannot cut", func(t *testing.T, f *vfs.Faulty, l *Log, next batchfmt.Batch) error {
			f.ShortWrite(1, 10, errTest)
			f.Fail(vfs.OpTruncate, 0, 1, errTest)
			return l.Append([]batchfmt.Batch{next})
		}},
		{"the sync of an undo fails", func(t *testing.T, f *vfs.Faulty, l *Log, next batchfmt.Batch) error {
			f.ShortWrite(1, 10, errTest)
			f.FailSync(1, errTest)
			return l.Append([]batchfmt.Batch{next})
		}},
		{"the sync of Close fails", func(t *testing.T, f *vfs.Faulty, l *Log, _ batchfmt.Batch) error {
			f.FailSync(1, errTest)
			return l.Close()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			f := vfs.NewFaulty(mem)
			l, _ := mustOpen(t, f, Config{FillBytes: -1})
			m := newMaker()
			first, next := m.batch(t, 1, 100), m.batch(t, 1, 100)
			must(t, l.Append([]batchfmt.Batch{first}))
			mustSync(t, l)
			err := tt.ruin(t, f, l, next)
			wantErr(t, err, ErrBroken)
			wantErr(t, err, errTest)
			wantErr(t, l.Err(), ErrBroken)
			if l.mu.closed {
				return
			}
			for range 3 { // the disk works again, and that changes nothing
				_, err = l.Sync()
				wantErr(t, err, ErrBroken)
				wantErr(t, l.Append([]batchfmt.Batch{next}), ErrBroken)
				got, _, err := l.Read(nil, 0, first.NextOffset(), 1)
				must(t, err)
				wantBatches(t, []batchfmt.Batch{parse(t, got)}, []batchfmt.Batch{first})
			}
			must(t, l.Close())
			after, _, err := Open(mem.CrashClone(), testDir, Config{})
			must(t, err)
			wantBatches(t, scanAll(t, after)[:1], []batchfmt.Batch{first})
		})
	}
}

func TestRollFails(t *testing.T) {
	tests := []struct {
		name   string
		fault  func(f *vfs.Faulty)
		broken bool
	}{
		{"the old segment cannot be synced", func(f *vfs.Faulty) { f.FailSync(1, errTest) }, true},
		{"the index cannot be synced", func(f *vfs.Faulty) { f.Fail(vfs.OpSync, 1, 1, errTest) }, false},
		{"the index cannot be renamed", func(f *vfs.Faulty) { f.Fail(vfs.OpRename, 0, 1, errTest) }, false},
		{"the new segment cannot be made", func(f *vfs.Faulty) { f.Fail(vfs.OpCreate, 1, 1, errTest) }, false},
		{"the header cannot be written", func(f *vfs.Faulty) { f.Fail(vfs.OpWrite, 1, 1, errTest) }, false},
		{"the header cannot be written and not removed", func(f *vfs.Faulty) {
			f.Fail(vfs.OpWrite, 1, 1, errTest)
			f.Fail(vfs.OpRemove, 1, 1, errTest)
		}, true},
		{"the header cannot be synced", func(f *vfs.Faulty) { f.Fail(vfs.OpSync, 2, 1, errTest) }, true},
		{"the name of the index cannot be synced", func(f *vfs.Faulty) { f.FailSyncDir(1, errTest) }, true},
		{"the name cannot be synced", func(f *vfs.Faulty) { f.Fail(vfs.OpSyncDir, 1, 1, errTest) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			f := vfs.NewFaulty(mem)
			l, _ := mustOpen(t, f, small())
			m := newMaker()
			want := []batchfmt.Batch{m.batch(t, 1, 1500)}
			must(t, l.Append(want))
			tt.fault(f)
			next := m.batch(t, 1, 1500)
			err := l.Append([]batchfmt.Batch{next})
			if (l.Err() != nil) != tt.broken {
				t.Fatalf("broken: %v, want %v", l.Err(), tt.broken)
			}
			f.Heal()
			switch {
			case tt.broken:
				wantErr(t, err, ErrBroken)
			case err != nil:
				wantErr(t, err, errTest)
				must(t, l.Append([]batchfmt.Batch{next}))
				want = append(want, next)
			default:
				want = append(want, next)
			}
			wantBatches(t, scanAll(t, l), want)
			if !tt.broken {
				mustSync(t, l)
			}
			after, info, err := Open(mem.CrashClone(), testDir, small())
			must(t, err)
			if got := scanAll(t, after); !tt.broken {
				wantBatches(t, got, want)
			} else if len(got) > 1 {
				t.Fatalf("%d batches, %+v", len(got), info)
			}
		})
	}
}

// A sync that lies is the disk that nothing helps against; recovery must still end in
// order, without what was lost.
func TestSyncLies(t *testing.T) {
	mem := vfs.NewMem()
	f := vfs.NewFaulty(mem)
	l, _ := mustOpen(t, f, Config{})
	m := newMaker()
	first := m.batch(t, 1, 100)
	must(t, l.Append([]batchfmt.Batch{first}))
	mustSync(t, l)
	f.SyncLies(true)
	must(t, l.Append([]batchfmt.Batch{m.batch(t, 1, 100)}))
	mustSync(t, l)
	after, info, err := Open(mem.CrashClone(), testDir, Config{})
	must(t, err)
	wantBatches(t, scanAll(t, after), []batchfmt.Batch{first})
	if info.Cut != nil {
		t.Fatalf("cut is %+v", info.Cut)
	}
}

func TestReadTellsDamage(t *testing.T) {
	s := store(t, small(), 25)
	l, _ := mustOpen(t, s.mem, s.cfg)
	segs := l.Segments()
	second := segs[1]
	bad := s.all[second.Base/2+2] // the third batch of the second segment
	spoil := func(t *testing.T, off int64) {
		edit(t, s.mem, segName(second.Base), func(b []byte) []byte {
			b[segHeaderSize+2*int64(bad.Size())+off] ^= 1
			return b
		})
	}
	read := func(from Offset) (Offset, error) {
		_, next, err := l.Read(nil, from, l.End(), 100_000)
		return next, err
	}
	t.Run("a bad body", func(t *testing.T) {
		spoil(t, 150)
		defer spoil(t, 150)
		l, _, err := Open(s.mem, testDir, s.cfg)
		must(t, err)
		_, err = l.BatchAt(bad.BaseOffset())
		wantCorrupt(t, err)
		c := wantCorrupt(t, l.Scan(0, func(batchfmt.Batch) error { return nil }))
		if c.Offset != bad.BaseOffset() {
			t.Fatalf("scan: %+v", c)
		}
		must(t, l.Close())
	})
	t.Run("a bad front ends a read before it, then is told", func(t *testing.T) {
		spoil(t, 10)
		defer spoil(t, 10)
		next, err := read(second.Base)
		must(t, err)
		if next != bad.BaseOffset() {
			t.Fatalf("read to %d, want %d", next, bad.BaseOffset())
		}
		_, err = read(next)
		c := wantCorrupt(t, err)
		if c.Offset != bad.BaseOffset() || c.Next <= c.Offset || c.Segment != segName(second.Base) {
			t.Fatalf("read: %+v", c)
		}
		if next, err := read(c.Next); err != nil || next <= c.Next {
			t.Fatalf("read from the next offset, %d: %d, %v", c.Next, next, err)
		}
		_, found, err := l.FindBack(func(b batchfmt.Batch) (bool, bool) { return b.BaseOffset() == 0, false })
		if !found || err != nil {
			t.Fatalf("what is there was not found: %v", err)
		}
		_, _, err = l.FindBack(func(b batchfmt.Batch) (bool, bool) { return b.BaseOffset() == bad.BaseOffset(), false })
		if got := wantCorrupt(t, err); *got != *c {
			t.Fatalf("what is damaged: %+v, want %+v", got, c)
		}
		_, found, err = l.FindBack(func(b batchfmt.Batch) (bool, bool) { return false, b.BaseOffset() >= c.Next })
		if found || err != nil {
			t.Fatalf("what cannot be there: %v, %v", found, err)
		}
	})
	t.Run("an error of the disk is no damage", func(t *testing.T) {
		f := vfs.NewFaulty(s.mem)
		l, _, err := Open(f, testDir, s.cfg)
		must(t, err)
		_, _, err = l.Read(nil, second.Base, l.End(), 1) // opens it
		must(t, err)
		f.Fail(vfs.OpRead, 0, 1, errTest)
		_, _, err = l.Read(nil, second.Base, l.End(), 1)
		wantErr(t, err, errTest)
		must(t, l.Close())
	})
	t.Run("an index that goes while the log is open is made again", func(t *testing.T) {
		l, _, err := Open(s.mem, testDir, s.cfg)
		must(t, err)
		must(t, s.mem.Remove(filepath.Join(testDir, idxName(segs[2].Base))))
		wantBatches(t, readAll(t, l, 1), s.all)
		must(t, l.Close())
	})
	t.Run("a segment that goes while the log is open is an error, again and again", func(t *testing.T) {
		l, _, err := Open(s.mem, testDir, s.cfg)
		must(t, err)
		must(t, s.mem.Remove(filepath.Join(testDir, segName(segs[2].Base))))
		for range 2 {
			if _, _, err = l.Read(nil, segs[2].Base, l.End(), 1); err == nil {
				t.Fatal("a missing segment was read")
			}
		}
		must(t, l.Close())
	})
}

// A sync must not hold up appends and reads, and does not cover what comes after its call.
func TestSyncBlocksNobody(t *testing.T) {
	mem := vfs.NewMem()
	f := vfs.NewFaulty(mem)
	l, _ := mustOpen(t, f, Config{})
	m := newMaker()
	a, b := m.batch(t, 1, 10), m.batch(t, 1, 10)
	must(t, l.Append([]batchfmt.Batch{a}))
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync {
			once.Do(func() {
				close(entered)
				<-release
			})
		}
	})
	ends := make(chan Offset, 1)
	go func() { // ends with the sync, for which the test waits below
		end, err := l.Sync()
		if err != nil {
			t.Error(err)
		}
		ends <- end
	}()
	<-entered
	must(t, l.Append([]batchfmt.Batch{b}))
	wantBatches(t, readAll(t, l, 1), []batchfmt.Batch{a, b})
	close(release)
	if end := <-ends; end != a.NextOffset() {
		t.Fatalf("durable end is %d, want %d", end, a.NextOffset())
	}
	if end := mustSync(t, l); end != b.NextOffset() {
		t.Fatalf("durable end is %d, want %d", end, b.NextOffset())
	}
}

func TestConcurrentUse(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := mustOpen(t, mem, small())
	const total = 400
	m := newMaker()
	var want []batchfmt.Batch
	for range total {
		want = append(want, m.batch(t, 2, 60))
	}
	var wg sync.WaitGroup
	synced := make(chan Offset, total+1)
	wg.Go(func() {
		for i := 0; i < total; i += 4 {
			if err := l.Append(want[i : i+4]); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		defer close(synced)
		for end := Offset(0); end < 2*total; {
			var err error
			if end, err = l.Sync(); err != nil {
				t.Error(err)
				return
			}
			select {
			case synced <- end:
			default:
			}
		}
	})
	wg.Go(func() { // a consumer behind the durable end
		var got []batchfmt.Batch
		from := Offset(0)
		for limit := range synced {
			for from < limit {
				raw, next, err := l.Read(nil, from, limit, 700)
				if err != nil || next <= from {
					t.Errorf("read from %d: %d, %v", from, next, err)
					return
				}
				for len(raw) > 0 {
					b, err := batchfmt.Parse(raw)
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, b)
					raw = raw[b.Size():]
				}
				from = next
			}
		}
		if err := sameBatches(got, want[:len(got)]); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		wg.Go(func() {
			for l.End() < 2*total {
				end := l.End()
				b, found, err := l.FindBack(func(b batchfmt.Batch) (bool, bool) { return b.NextOffset() == end, false })
				if err != nil || found != (end > 0) || found && b.NextOffset() != end {
					t.Errorf("the batch before %d: found %v, %v", end, found, err)
				}
				var n Offset
				err = l.Scan(0, func(b batchfmt.Batch) error { n = b.NextOffset(); return nil })
				if err != nil || n < end {
					t.Errorf("scan came to %d, the end was %d: %v", n, end, err)
				}
			}
		})
	}
	wg.Wait()
	wantBatches(t, scanAll(t, l), want)
	if !slices.IsSortedFunc(l.Segments(), func(a, b SegmentInfo) int { return int(a.Base - b.Base) }) {
		t.Error("segments are out of order")
	}
	must(t, l.Close())
	if got := mem.OpenFiles(); got != 0 {
		t.Errorf("%d files are open", got)
	}
}
