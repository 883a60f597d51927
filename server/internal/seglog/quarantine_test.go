package seglog

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// wantRefused expects damage, and that nothing was changed.
func (s *stored) wantRefused(t testing.TB) *CorruptError {
	t.Helper()
	before := files(t, s.mem)
	_, _, err := Open(s.mem, testDir, s.cfg)
	c := wantCorrupt(t, err)
	if !maps.Equal(before, files(t, s.mem)) {
		t.Fatal("a refused recovery changed the directory")
	}
	return c
}

// wantAround opens the log, expects just this damage, everything else to be there, and the
// same again after a crash, after a clean close, and after more was appended.
func (s *stored) wantAround(t testing.TB, from, next Offset) {
	t.Helper()
	for i := range 4 {
		l, info, err := Open(s.mem, testDir, s.cfg)
		must(t, err)
		got, damage := replayAll(t, l)
		if info.Cut != nil || len(damage) != 1 || damage[0].From != from || damage[0].Next != next {
			t.Fatalf("opening %d: damage is %+v, cut %+v; want [%d,%d)", i+1, damage, info.Cut, from, next)
		}
		want := slices.DeleteFunc(slices.Clone(s.all), func(b batchfmt.Batch) bool {
			return b.BaseOffset() < next && b.NextOffset() > from
		})
		wantBatches(t, got, want)
		wantReads(t, l, got, damage)
		if !slices.Contains(l.Damaged(), damage[0]) {
			t.Fatalf("known damage is %+v, want %+v in it", l.Damaged(), damage[0])
		}
		switch i {
		case 0: // a crash at once
		case 1:
			must(t, l.Close())
			continue
		default:
			m := newMaker()
			m.next, m.term, m.durable = info.End, info.LastTerm+1, info.End
			b := m.batch(t, 2, 100)
			must(t, l.Append([]batchfmt.Batch{b}))
			mustSync(t, l)
			s.all = append(s.all, b)
		}
		s.mem = s.mem.CrashClone()
	}
}

// replayAll returns copies of all batches of a log, and its damage.
func replayAll(t testing.TB, l *Log) (all []batchfmt.Batch, damage []DamagedRange) {
	t.Helper()
	must(t, l.Replay(l.Start(), func(b batchfmt.Batch) error {
		all = append(all, parse(t, bytes.Clone(b.Bytes())))
		return nil
	}, func(d DamagedRange) error {
		damage = append(damage, d)
		return nil
	}))
	return all, damage
}

// wantReads reads a log as a consumer does that goes on behind damage.
func wantReads(t testing.TB, l *Log, want []batchfmt.Batch, damage []DamagedRange) {
	t.Helper()
	var got []batchfmt.Batch
	for from := l.Start(); from < l.End(); {
		raw, next, err := l.Read(nil, from, l.End(), 700)
		if err != nil {
			c := wantCorrupt(t, err)
			if !slices.ContainsFunc(damage, func(d DamagedRange) bool { return d.From <= from && from < d.Next && c.Next == d.Next }) || c.Offset != from {
				t.Fatalf("a read from %d says %+v, damage is %+v", from, c, damage)
			}
			from = c.Next
			continue
		}
		if next <= from {
			t.Fatalf("a read from %d came to %d", from, next)
		}
		for ; len(raw) > 0; raw = raw[got[len(got)-1].Size():] {
			got = append(got, parse(t, raw))
		}
		from = next
	}
	wantBatches(t, got, withoutControl(want))
}

func TestRecoverQuarantines(t *testing.T) {
	body := func(t *testing.T, s *stored, i int) { // spoils batch i of a single segment
		edit(t, s.mem, segName(0), func(b []byte) []byte { b[s.sizes[i]+100] ^= 1; return b })
	}
	// later appends a batch that says that all before it was synced.
	later := func(t *testing.T, s *stored) {
		s.m.durable = s.m.next
		s.all = append(s.all, s.m.batch(t, 1, 10))
		tail := s.all[len(s.all)-1].Bytes()
		edit(t, s.mem, segName(0), func(b []byte) []byte { return append(b[:s.sizes[4]], tail...) })
	}
	one := Config{FillBytes: -1}
	tests := []struct {
		name       string
		cfg        Config
		damage     func(t *testing.T, s *stored)
		from, next Offset
	}{
		{"a later batch says that it was synced", one, func(t *testing.T, s *stored) { later(t, s); body(t, s, 2) }, 4, 6},
		{"the same with the front lost", one, func(t *testing.T, s *stored) {
			later(t, s)
			edit(t, s.mem, segName(0), func(b []byte) []byte { clear(b[s.sizes[2] : s.sizes[2]+60]); return b })
		}, 4, 6},
		{"the same with two batches gone, garbage instead", one, func(t *testing.T, s *stored) {
			later(t, s)
			edit(t, s.mem, segName(0), func(b []byte) []byte {
				copy(b[s.sizes[1]:s.sizes[3]], bytes.Repeat([]byte("QBF"), 1000))
				return b
			})
		}, 2, 6},
		{"the first batch, and the header of the segment with it", one, func(t *testing.T, s *stored) {
			later(t, s)
			edit(t, s.mem, segName(0), func(b []byte) []byte { clear(b[:s.sizes[1]]); return b })
		}, 0, 2},
		{"the beginning of an older batch that was longer is in its place", one, func(t *testing.T, s *stored) {
			later(t, s)
			older := newMaker().batch(t, 1, 700).Bytes()
			edit(t, s.mem, segName(0), func(b []byte) []byte { copy(b[s.sizes[1]:], older[:200]); return b })
		}, 2, 4},
		{"its index says that it was synced", one, func(t *testing.T, s *stored) {
			cleanClose(t, s)
			edit(t, s.mem, segName(0), func(b []byte) []byte { b[s.sizes[3]+100] ^= 1; return b })
		}, 6, 8},
		{"the file is shorter than its index says", one, func(t *testing.T, s *stored) {
			cleanClose(t, s)
			edit(t, s.mem, segName(0), func(b []byte) []byte { return b[:s.sizes[3]-1] })
		}, 4, 8},
		{"the file is empty, its index is there", one, func(t *testing.T, s *stored) {
			cleanClose(t, s)
			edit(t, s.mem, segName(0), func(b []byte) []byte { return nil })
		}, 0, 8},
		{"an earlier segment is bad, without index", small(), func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, idxName(0))))
			edit(t, s.mem, segName(0), func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, 10, 12},
		{"an earlier segment is bad at its end, with index", small(), func(t *testing.T, s *stored) {
			edit(t, s.mem, segName(0), func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, 10, 12},
		{"an earlier segment is bad where its index is trusted", small(), func(t *testing.T, s *stored) {
			edit(t, s.mem, segName(0), func(b []byte) []byte { b[s.sizes[1]+120] ^= 1; return b })
		}, 2, 4},
		{"an earlier segment is shorter by a batch", small(), func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, idxName(0))))
			edit(t, s.mem, segName(0), func(b []byte) []byte { return b[:len(b)-s.all[0].Size()] })
		}, 10, 12},
		{"an earlier segment is shorter by a batch, with index", small(), func(t *testing.T, s *stored) {
			edit(t, s.mem, segName(0), func(b []byte) []byte { return b[:len(b)-s.all[0].Size()] })
		}, 10, 12},
		{"an earlier segment is missing", small(), func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, secondName(t, s))))
		}, 12, 24},
		{"an earlier segment is missing, its index is there", small(), func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, segName(12))))
		}, 12, 24},
		{"the first segment is missing, its index is there", small(), func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, segName(0))))
		}, 0, 12},
		{"the last segment is missing, its index is there", small(), func(t *testing.T, s *stored) {
			cleanClose(t, s)
			must(t, s.mem.Remove(filepath.Join(testDir, s.lastName(t))))
		}, 36, 40},
		{"the only segment is missing, its index is there", one, func(t *testing.T, s *stored) {
			cleanClose(t, s)
			must(t, s.mem.Remove(filepath.Join(testDir, segName(0))))
		}, 0, 8},
		{"an earlier segment is zeros", small(), func(t *testing.T, s *stored) {
			edit(t, s.mem, segName(0), func(b []byte) []byte { return make([]byte, len(b)) })
		}, 0, 12},
		{"an earlier segment is empty, without index", small(), func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, idxName(0))))
			edit(t, s.mem, segName(0), func(b []byte) []byte { return nil })
		}, 0, 12},
		{"a roll that does not follow on", one, func(t *testing.T, s *stored) {
			must(t, writeFile(s.mem, filepath.Join(testDir, segName(9)), nil))
		}, 8, 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := 4
			if tt.cfg.SegmentBytes != 0 {
				n = 20
			}
			s := store(t, tt.cfg, n)
			tt.damage(t, s)
			must(t, s.mem.SyncDir(testDir))
			s.wantAround(t, tt.from, tt.next)
		})
	}
}

// What is wrong costs no record here, and is said nevertheless.
func TestRecoverDamagedHeaders(t *testing.T) {
	for _, last := range []bool{false, true} {
		t.Run(fmt.Sprint("of the last segment ", last), func(t *testing.T) {
			s := store(t, small(), 20)
			name := segName(0)
			if last {
				name = s.lastName(t)
			}
			edit(t, s.mem, name, func(b []byte) []byte { b[20] ^= 1; return b })
			for range 2 {
				l, info, err := Open(s.mem, testDir, s.cfg)
				must(t, err)
				wantBatches(t, scanAll(t, l), s.all)
				// The last one was not known to be synced, so it was written anew.
				if damage := info.Damage; (len(damage) == 0) != last || !last && (damage[0].Segment != name || damage[0].From != damage[0].Next) {
					t.Fatalf("damage is %+v", damage)
				}
				s.mem = s.mem.CrashClone()
			}
		})
	}
}

// Where nothing tells how far what was stored went, there is no offset to go on at.
func TestRecoverRefuses(t *testing.T) {
	one := Config{FillBytes: -1}
	tests := []struct {
		name   string
		cfg    Config
		damage func(t *testing.T, s *stored)
	}{
		{"the header of the last segment and all its batches are bad", small(), func(t *testing.T, s *stored) {
			edit(t, s.mem, s.lastName(t), func(b []byte) []byte { return bytes.Repeat([]byte{1}, len(b)) })
		}},
		{"the last segment has the name of another", one, func(t *testing.T, s *stored) {
			must(t, s.mem.Rename(filepath.Join(testDir, segName(0)), filepath.Join(testDir, segName(5))))
		}},
		{"the last segment is missing, its index does not verify", one, func(t *testing.T, s *stored) {
			cleanClose(t, s)
			edit(t, s.mem, idxName(0), func(b []byte) []byte { b[10] ^= 1; return b })
			must(t, s.mem.Remove(filepath.Join(testDir, segName(0))))
		}},
		{"the last segment is torn, and none is before it", one, func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, segName(0))))
			must(t, writeFile(s.mem, filepath.Join(testDir, segName(9)), nil))
		}},
		{"two segments have different batches for the same offsets", one, func(t *testing.T, s *stored) {
			other := newMaker()
			other.next = 4
			raw := appendSegHeader(nil, 4, testTime)
			must(t, writeFile(s.mem, filepath.Join(testDir, segName(4)), append(raw, other.batch(t, 1, 99).Bytes()...)))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, tt.cfg, 20)
			tt.damage(t, s)
			must(t, s.mem.SyncDir(testDir))
			s.wantRefused(t)
		})
	}
}

// What the caller knows to have been synced keeps its offsets, although the log knows nothing
// of it any more.
func TestRecoverKeepsOffsetsThatTheCallerKnows(t *testing.T) {
	tests := []struct {
		name       string
		damage     func(t *testing.T, s *stored)
		durable    Offset
		from, next Offset // equal: no hole
	}{
		{"less than there is", func(*testing.T, *stored) {}, 6, 0, 0},
		{"just what there is", func(*testing.T, *stored) {}, 8, 0, 0},
		{"the last batch is bad", func(t *testing.T, s *stored) {
			edit(t, s.mem, segName(0), func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, 8, 6, 8},
		{"all files are gone", func(t *testing.T, s *stored) { must(t, s.mem.Remove(filepath.Join(testDir, segName(0)))) }, 8, 0, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, Config{FillBytes: -1}, 4)
			s.cfg.Durable = tt.durable
			tt.damage(t, s)
			must(t, s.mem.SyncDir(testDir))
			if tt.from < tt.next {
				s.wantAround(t, tt.from, tt.next)
			} else {
				s.wantKept(t, 4, false)
			}
		})
	}
}
