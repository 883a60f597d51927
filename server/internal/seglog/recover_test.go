package seglog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// stored is a log on a disk, closed as a crash closes it: without any goodbye.
type stored struct {
	mem   *vfs.Mem
	m     *maker
	all   []batchfmt.Batch
	cfg   Config
	sizes []int64 // where the batches of the last segment begin, and their end
}

// store appends n batches, synced all, and crashes.
func store(t testing.TB, cfg Config, n int) *stored {
	t.Helper()
	s := &stored{mem: vfs.NewMem(), m: newMaker(), cfg: cfg}
	l, _, err := Open(s.mem, testDir, cfg)
	must(t, err)
	for range n {
		b := s.m.batch(t, 2, 100)
		must(t, l.Append([]batchfmt.Batch{b}))
		s.all = append(s.all, b)
		mustSync(t, l)
	}
	s.mem = s.mem.CrashClone()
	l.fs = s.mem // what the crashed process would still write goes nowhere
	s.sizes = []int64{segHeaderSize}
	for _, b := range s.all {
		s.sizes = append(s.sizes, s.sizes[len(s.sizes)-1]+int64(b.Size()))
	}
	return s
}

// lastName is the last segment.
func (s *stored) lastName(t testing.TB) string {
	t.Helper()
	names, err := s.mem.List(testDir)
	must(t, err)
	for i := len(names) - 1; i >= 0; i-- {
		if strings.HasSuffix(names[i], segSuffix) {
			return names[i]
		}
	}
	t.Fatal("no segment")
	return ""
}

// wantKept opens the log, expects the first n batches and a cut or none, and that
// recovering again, after a crash at once, finds the same without one.
func (s *stored) wantKept(t testing.TB, n int, cut bool) Recovery {
	t.Helper()
	l, info, err := Open(s.mem, testDir, s.cfg)
	must(t, err)
	if (info.Cut != nil) != cut {
		t.Fatalf("cut is %+v, want one: %v", info.Cut, cut)
	}
	wantBatches(t, scanAll(t, l), s.all[:n])
	crashed := s.mem.CrashClone()
	must(t, l.Close())
	for _, mem := range []*vfs.Mem{crashed, s.mem} {
		again, info2, err := Open(mem, testDir, s.cfg)
		must(t, err)
		if info2.Cut != nil || info2.End != info.End || info2.LastTerm != info.LastTerm || info2.MaxAppendTime != info.MaxAppendTime {
			t.Fatalf("recovered %+v, and the second time %+v", info, info2)
		}
		wantBatches(t, scanAll(t, again), s.all[:n])
		m := newMaker()
		m.next, m.term = info.End, info.LastTerm+1
		next := m.batch(t, 1, 10)
		must(t, again.Append([]batchfmt.Batch{next}))
		mustSync(t, again)
		wantBatches(t, scanAll(t, again), append(s.all[:n:n], next))
		must(t, again.Close())
	}
	return info
}

func TestRecoverEveryTruncation(t *testing.T) {
	s := store(t, Config{FillBytes: -1}, 3)
	whole := content(t, s.mem, segName(0))
	fresh := s.mem
	for n := s.sizes[2]; n <= s.sizes[3]; n++ {
		s.mem = fresh.CrashClone()
		edit(t, s.mem, segName(0), func([]byte) []byte { return bytes.Clone(whole[:n]) })
		kept, cut := 2, n > s.sizes[2]
		if n == s.sizes[3] {
			kept, cut = 3, false
		}
		info := s.wantKept(t, kept, cut)
		if cut && (info.Cut.Offset != 4 || info.Cut.Position != s.sizes[2] || info.Cut.Bytes > n-s.sizes[2]) {
			t.Fatalf("cut at %d bytes: %+v", n, info.Cut)
		}
	}
}

func TestRecoverLastSegment(t *testing.T) {
	flip := func(pos int64) func(s *stored, b []byte) []byte {
		return func(_ *stored, b []byte) []byte { b[pos] ^= 1; return b }
	}
	at := func(i int, off int64) func(s *stored, b []byte) []byte {
		return func(s *stored, b []byte) []byte { return flip(s.sizes[i]+off)(s, b) }
	}
	add := func(tail ...[]byte) func(s *stored, b []byte) []byte {
		return func(s *stored, b []byte) []byte { return append(b[:s.sizes[4]], bytes.Join(tail, nil)...) }
	}
	garbage := bytes.Repeat([]byte("QBF garbage "), 500)
	tests := []struct {
		name   string
		change func(s *stored, b []byte) []byte
		kept   int // of 4 batches
		cut    bool
	}{
		{"nothing changed, zeros behind", func(_ *stored, b []byte) []byte { return b }, 4, false},
		{"nothing behind", add(), 4, false},
		{"more zeros than the fill", add(make([]byte, 1<<20)), 4, false},
		{"garbage behind", add(garbage), 4, true},
		{"garbage behind zeros", add(make([]byte, 8000), garbage, make([]byte, 100)), 4, true},
		{"one byte behind many zeros", add(make([]byte, 1<<20), []byte{1}), 4, true},
		{"the last body is wrong", at(3, 100), 3, true},
		{"the last body is zeros", func(s *stored, b []byte) []byte { clear(b[s.sizes[3]+200:]); return b }, 3, true},
		{"the last front is wrong", at(3, 8), 3, true},
		{"the last front is zeros", func(s *stored, b []byte) []byte { clear(b[s.sizes[3] : s.sizes[3]+48]); return b }, 3, true},
		{"the last batch is zeros", func(s *stored, b []byte) []byte { clear(b[s.sizes[3]:]); return b }, 3, false},
		{"the last size is huge", func(s *stored, b []byte) []byte {
			copy(b[s.sizes[3]+4:], "\xff\xff\xff\xff")
			return b
		}, 3, true},
		{"only the header of the segment", func(_ *stored, b []byte) []byte { return b[:segHeaderSize] }, 0, false},
		{"the last two are bad, nothing says they were synced", func(s *stored, b []byte) []byte {
			return at(3, 100)(s, at(2, 100)(s, b))
		}, 2, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, filled(), 4)
			edit(t, s.mem, segName(0), func(b []byte) []byte { return tt.change(s, b) })
			s.wantKept(t, tt.kept, tt.cut)
		})
	}
}

// Batches that verify by themselves but are not the next ones: of a recycled file, of an
// older owner, or put into a record by a producer.
func TestRecoverForeignBatches(t *testing.T) {
	tests := []struct {
		name string
		tail func(t *testing.T, s *stored) []byte
		kept int
		cut  bool
	}{
		{"an old batch again", func(t *testing.T, s *stored) []byte { return s.all[0].Bytes() }, 4, true},
		{"a batch that leaves a gap", func(t *testing.T, s *stored) []byte {
			s.m.next++
			return s.m.batch(t, 1, 10).Bytes()
		}, 4, true},
		{"a batch of an older term", func(t *testing.T, s *stored) []byte {
			s.m.term--
			return s.m.batch(t, 1, 10).Bytes()
		}, 4, true},
		{"a batch of a newer term follows on", func(t *testing.T, s *stored) []byte {
			s.m.term++
			b := s.m.batch(t, 1, 10)
			s.all = append(s.all, b)
			return b.Bytes()
		}, 5, false},
		{"a front on another body", func(t *testing.T, s *stored) []byte {
			b := bytes.Clone(s.m.batch(t, 1, 10).Bytes())
			copy(b[40:48], s.all[0].Bytes()[40:48]) // the checksum of another one
			return b
		}, 4, true},
		{"a torn batch whose record holds a batch that claims to be synced", func(t *testing.T, s *stored) []byte {
			inner := stamp(t, s.m.batch(t, 1, 10), func(x *batchfmt.Stamp) { x.BaseOffset, x.Durable, x.Term = 1000, 1000, 99 })
			s.m.next--
			outer := s.m.sealValue(t, inner.Bytes())
			return outer.Bytes()[:outer.Size()-10] // the inner one is whole
		}, 4, true},
		{"the same, its body wrong and zeros behind", func(t *testing.T, s *stored) []byte {
			inner := stamp(t, s.m.batch(t, 1, 10), func(x *batchfmt.Stamp) { x.BaseOffset, x.Durable, x.Term = 1000, 1000, 99 })
			s.m.next--
			outer := bytes.Clone(s.m.sealValue(t, inner.Bytes()).Bytes())
			clear(outer[len(outer)-10:])
			return append(outer, make([]byte, 5000)...)
		}, 4, true},
		{"a later batch that says less was synced", func(t *testing.T, s *stored) []byte {
			s.m.durable = 8
			bad := bytes.Clone(s.m.batch(t, 1, 50).Bytes())
			bad[len(bad)-1] ^= 1
			return append(bad, s.m.batch(t, 1, 10).Bytes()...)
		}, 4, true},
		{"a later batch of an older term says that it was synced", func(t *testing.T, s *stored) []byte {
			bad := bytes.Clone(s.m.batch(t, 1, 50).Bytes())
			bad[len(bad)-1] ^= 1
			s.m.durable, s.m.term = 9, 0
			return append(bad, s.m.batch(t, 1, 10).Bytes()...)
		}, 4, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, Config{FillBytes: -1}, 4)
			tail := tt.tail(t, s)
			edit(t, s.mem, segName(0), func(b []byte) []byte { return append(b, tail...) })
			s.wantKept(t, tt.kept, tt.cut)
		})
	}
}

// sealValue is a batch of one record with this value, in a place where the rest of it is
// long enough that cutting off its end leaves the value whole.
func (m *maker) sealValue(t testing.TB, value []byte) batchfmt.Batch {
	t.Helper()
	m.builder.Reset()
	must(t, m.builder.Add(&batchfmt.Record{Timestamp: testTime, Value: value}))
	must(t, m.builder.Add(&batchfmt.Record{Timestamp: testTime, Value: bytes.Repeat([]byte("z"), 50)}))
	raw, err := m.builder.Seal(nil, batchfmt.Seal{ProducerID: 9})
	must(t, err)
	return m.stamped(t, raw)
}

func cleanClose(t *testing.T, s *stored) {
	t.Helper()
	l, _, err := Open(s.mem, testDir, s.cfg)
	must(t, err)
	must(t, l.Close())
}

func secondName(t *testing.T, s *stored) string {
	t.Helper()
	names, err := s.mem.List(testDir)
	must(t, err)
	for _, name := range names {
		if base, ok := parseName(name, segSuffix); ok && base > 0 {
			must(t, removeIfThere(s.mem, filepath.Join(testDir, idxName(base))))
			return name
		}
	}
	t.Fatal("one segment only")
	return ""
}

func TestRecoverIndexes(t *testing.T) {
	idx := filepath.Join(testDir, idxName(0))
	forge := func(t *testing.T, s *stored, change func(x *index)) {
		x, err := readIndex(s.mem, testDir, 0)
		must(t, err)
		change(&x)
		edit(t, s.mem, idxName(0), func([]byte) []byte { return x.append(nil) })
	}
	tests := []struct {
		name      string
		change    func(t *testing.T, s *stored)
		reindexed int
	}{
		{"as they were written", func(*testing.T, *stored) {}, 0},
		{"missing", func(t *testing.T, s *stored) { must(t, s.mem.Remove(idx)) }, 1},
		{"empty", func(t *testing.T, s *stored) { edit(t, s.mem, idxName(0), func([]byte) []byte { return nil }) }, 1},
		{"torn", func(t *testing.T, s *stored) { edit(t, s.mem, idxName(0), func(b []byte) []byte { return b[:60] }) }, 1},
		{"wrong", func(t *testing.T, s *stored) {
			edit(t, s.mem, idxName(0), func(b []byte) []byte { b[60] ^= 1; return b })
		}, 1},
		{"of another file of that name", func(t *testing.T, s *stored) { forge(t, s, func(x *index) { x.check++; x.end.next = 1000 }) }, 1},
		{"of another segment", func(t *testing.T, s *stored) { forge(t, s, func(x *index) { x.base = 1 }) }, 1},
		{"stale: it describes less than there is", func(t *testing.T, s *stored) {
			forge(t, s, func(x *index) {
				x.entries = x.entries[:1]
				x.end.next, x.end.size = s.all[0].NextOffset(), segHeaderSize+int64(s.all[0].Size())
				x.end.lastTime = s.all[0].AppendTime()
			})
		}, 1},
		{"an entry leads into a batch", func(t *testing.T, s *stored) {
			forge(t, s, func(x *index) { x.entries[len(x.entries)-1].pos++ })
		}, 1},
		{"an entry leads to another batch", func(t *testing.T, s *stored) {
			forge(t, s, func(x *index) { x.entries[len(x.entries)-1].offset++ })
		}, 1},
		{"the term is another", func(t *testing.T, s *stored) { forge(t, s, func(x *index) { x.end.term++ }) }, 1},
		{"left half written", func(t *testing.T, s *stored) {
			must(t, s.mem.Rename(idx, idx+tmpSuffix))
		}, 1},
		{"all missing", func(t *testing.T, s *stored) {
			for name := range files(t, s.mem) {
				if strings.HasSuffix(name, idxSuffix) {
					must(t, s.mem.Remove(filepath.Join(testDir, name)))
				}
			}
		}, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, small(), 25)
			tt.change(t, s)
			info := s.wantKept(t, 25, false)
			if info.Segments != 5 || info.Reindexed != tt.reindexed {
				t.Fatalf("%d indexes of %d segments were made again, want %d", info.Reindexed, info.Segments, tt.reindexed)
			}
			for name := range files(t, s.mem) {
				if strings.HasSuffix(name, tmpSuffix) {
					t.Errorf("%s was left", name)
				}
			}
			_, info, err := Open(s.mem, testDir, s.cfg)
			must(t, err)
			if info.Reindexed != 0 {
				t.Fatalf("%d indexes were made again the second time", info.Reindexed)
			}
		})
	}
}

func TestRecoverTornRoll(t *testing.T) {
	header := appendSegHeader(nil, 8, testTime)
	tests := []struct {
		name string
		file []byte
	}{
		{"empty file", nil},
		{"header of zeros", make([]byte, segHeaderSize)},
		{"zeros only, more than a header", make([]byte, 9000)},
		{"whole header", header},
		{"whole header and zeros", append(bytes.Clone(header), make([]byte, 5000)...)},
	}
	for n := 1; n < segHeaderSize; n++ {
		tests = append(tests,
			struct {
				name string
				file []byte
			}{fmt.Sprintf("header cut at %d", n), header[:n]},
			struct {
				name string
				file []byte
			}{fmt.Sprintf("zeros in front of byte %d", n), append(make([]byte, n), header[n:]...)})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, Config{FillBytes: -1}, 4)
			must(t, writeFile(s.mem, filepath.Join(testDir, segName(8)), tt.file))
			must(t, s.mem.SyncDir(testDir))
			info := s.wantKept(t, 4, false)
			if info.Segments != 2 || info.End != 8 || info.LastTerm != 1 {
				t.Fatalf("recovered %+v", info)
			}
		})
	}
	t.Run("a first segment is begun again", func(t *testing.T) {
		s := store(t, Config{FillBytes: -1}, 0)
		edit(t, s.mem, segName(0), func(b []byte) []byte { return b[:5] })
		s.wantKept(t, 0, false)
	})
}

func TestRecoverLeavesForeignFiles(t *testing.T) {
	s := store(t, small(), 5)
	for _, name := range []string{"notes.txt", "1.seg", "99999999999999999999.seg", "0000000000000000000x.seg", "snapshot.tmp"} {
		must(t, writeFile(s.mem, filepath.Join(testDir, name), []byte("mine")))
	}
	must(t, s.mem.SyncDir(testDir))
	s.wantKept(t, 5, false)
	for _, name := range []string{"notes.txt", "1.seg", "99999999999999999999.seg", "0000000000000000000x.seg", "snapshot.tmp"} {
		if got := string(content(t, s.mem, name)); got != "mine" {
			t.Errorf("%s holds %q", name, got)
		}
	}
}

// A read error is no torn end: recovery must not cut what it could not read.
func TestRecoverDoesNotCutOnReadErrors(t *testing.T) {
	s := store(t, small(), 25)
	for n := range 60 {
		before := files(t, s.mem)
		f := vfs.NewFaulty(s.mem)
		f.Fail(vfs.OpRead, n, 1, errTest)
		l, info, err := Open(f, testDir, s.cfg)
		if err != nil {
			wantErr(t, err, errTest)
			if !maps.Equal(before, files(t, s.mem)) {
				t.Fatalf("read %d failed and the directory was changed", n)
			}
			continue
		}
		f.Heal()
		if info.Cut != nil || info.End != s.m.next {
			t.Fatalf("read %d failed: %+v", n, info)
		}
		wantBatches(t, scanAll(t, l), s.all)
		s.mem = s.mem.CrashClone()
	}
}

// Every write and sync of recovery may fail; nothing is lost, and the next try succeeds.
func TestRecoverFailsAndIsRepeated(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpSync, vfs.OpSyncDir, vfs.OpTruncate, vfs.OpWrite, vfs.OpCreate, vfs.OpRename, vfs.OpRemove} {
		t.Run(string(op), func(t *testing.T) {
			for n := range 12 {
				s := store(t, small(), 25)
				must(t, s.mem.Remove(filepath.Join(testDir, idxName(0))))
				edit(t, s.mem, s.lastName(t), func(b []byte) []byte { return append(b, "garbage"...) })
				must(t, s.mem.SyncDir(testDir))
				f := vfs.NewFaulty(s.mem)
				f.Fail(op, n, 1, errTest)
				_, info, err := Open(f, testDir, s.cfg)
				if err == nil && info.IndexError != nil {
					err = info.IndexError
				}
				if err != nil {
					wantErr(t, err, errTest)
				}
				s.mem = s.mem.CrashClone()
				l, info, err := Open(s.mem, testDir, s.cfg)
				must(t, err)
				if info.End != s.m.next {
					t.Fatalf("recovered %+v", info)
				}
				wantBatches(t, scanAll(t, l), s.all)
			}
		})
	}
}

// Bytes that look like beginnings of batches everywhere must not make recovery slow
// beyond reason, nor make it take memory for each.
func TestRecoverHostileTail(t *testing.T) {
	claim := func(size uint32) []byte {
		return binary.LittleEndian.AppendUint32([]byte("QBF\x01"), size)
	}
	tests := []struct {
		name string
		unit []byte
	}{
		{"magic after magic", []byte("QBF")},
		{"fronts that claim the most", claim(batchfmt.MaxBatchBytes)},
		{"fronts that claim the least", claim(batchfmt.FrontSize)},
		{"the first letter", []byte("Q")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, Config{FillBytes: -1}, 2)
			tail := bytes.Repeat(tt.unit, (1<<20)/len(tt.unit))
			edit(t, s.mem, segName(0), func(b []byte) []byte { return append(b, tail...) })
			f := vfs.NewFaulty(s.mem)
			reads := 0
			f.Observe(func(op vfs.Op, _ string) {
				if op == vfs.OpRead {
					reads++
				}
			})
			l, info, err := Open(f, testDir, s.cfg)
			must(t, err)
			if info.Cut == nil || info.Cut.Bytes < int64(len(tail))-8 || info.End != 4 {
				t.Fatalf("recovered %+v, %+v", info, info.Cut)
			}
			if reads > 200 {
				t.Errorf("%d reads for %d bytes", reads, len(tail))
			}
			must(t, l.Close())
		})
	}
	t.Run("whole fronts that verify, with bodies that do not", func(t *testing.T) {
		s := store(t, Config{FillBytes: -1}, 2)
		s.m.durable, s.m.next = 5, 1000
		big := bytes.Clone(s.m.batch(t, 1, 1<<20).Bytes())
		// In the body of a batch whose own front is lost, fronts of 1 MiB every 100 bytes.
		tail := make([]byte, 0, 2<<20)
		tail = append(tail, "lost"...)
		for len(tail) < 1<<20 {
			tail = append(tail, big[:104]...)
		}
		tail = append(tail, bytes.Repeat([]byte("x"), 1<<20)...)
		edit(t, s.mem, segName(0), func(b []byte) []byte { return append(b, tail...) })
		c := s.wantRefused(t) // it cannot be told within reason, so nothing is lost
		if !strings.Contains(c.Reason, "too many") {
			t.Fatal(c)
		}
	})
}

// A control batch (a fence) that was synced stands behind the end that an older index of the
// segment tells, and the index that the roll should have written could not be: that is allowed.
func TestStaleIndexDoesNotCutControlBatches(t *testing.T) {
	mem := vfs.NewMem()
	f := vfs.NewFaulty(mem)
	m := newMaker()
	l, _ := mustOpen(t, f, small())
	first := m.batch(t, 1, 1500)
	must(t, l.Append([]batchfmt.Batch{first}))
	must(t, l.Close()) // writes an index that ends here
	l, _ = mustOpen(t, f, small())
	fence := m.control(t)
	must(t, l.Append([]batchfmt.Batch{fence}))
	mustSync(t, l) // "not stored, final" is told now
	f.Fail(vfs.OpRename, 0, 1, errTest)
	next := m.batch(t, 1, 1500)
	must(t, l.Append([]batchfmt.Batch{next})) // rolls, without a new index
	mustSync(t, l)
	must(t, l.Err())
	want := []batchfmt.Batch{first, fence, next}
	wantBatches(t, scanAll(t, l), want)
	after, _, err := Open(mem.CrashClone(), testDir, small())
	must(t, err)
	defer after.Close()
	wantBatches(t, scanAll(t, after), want)
}

// The same, where the older index is the mark that a recovery wrote before its copy failed for
// want of room: the log went on in the old segment.
func TestMarkOfFailedCopyDoesNotCutControlBatches(t *testing.T) {
	mem := vfs.NewMem()
	m := newMaker()
	l, _ := mustOpen(t, mem, small())
	first := m.batch(t, 1, 1400)
	must(t, l.Append([]batchfmt.Batch{first}))
	mustSync(t, l)
	m.durable = m.next
	fence := m.control(t)
	must(t, l.Append([]batchfmt.Batch{fence}))
	mustSync(t, l) // told
	mem = mem.CrashClone()
	f := vfs.NewFaulty(mem)
	f.Observe(func(op vfs.Op, name string) { // no room for the copy, but for the index
		if op == vfs.OpRename && strings.Contains(name, ".idx") {
			f.Fail(vfs.OpCreate, 0, 1, syscall.ENOSPC)
		}
	})
	l, _ = mustOpen(t, f, small())
	f.Heal()
	wantBatches(t, scanAll(t, l), []batchfmt.Batch{first, fence})
	if len(l.Segments()) != 1 {
		t.Fatalf("not written in place: %+v", l.Segments())
	}
	f.Observe(nil)
	f.Fail(vfs.OpRename, 0, 1, errTest) // no index at the roll
	next := m.batch(t, 1, 1500)
	must(t, l.Append([]batchfmt.Batch{next}))
	mustSync(t, l)
	after, _, err := Open(mem.CrashClone(), testDir, small())
	must(t, err)
	defer after.Close()
	wantBatches(t, scanAll(t, after), []batchfmt.Batch{first, fence, next})
}
