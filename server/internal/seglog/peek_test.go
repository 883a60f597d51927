package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// peekAt tells what Peek shows from an offset on, shortly, up to count batches.
func peekAt(fsys vfs.FS, from Offset, count int) (got []string, err error) {
	err = Peek(fsys, testDir, from, func(p Piece, b []byte) (bool, error) {
		if int64(len(b)) != min(p.Size, batchfmt.MaxBatchBytes) {
			return false, fmt.Errorf("%+v comes with %d bytes", p, len(b))
		}
		s := fmt.Sprintf("[%d,%d)", p.From, p.Next)
		if p.Fault != "" {
			s += " bad"
		}
		if p.Torn {
			s += " torn"
		}
		if p.Size == 0 {
			s += " no bytes"
		}
		got = append(got, s)
		if p.From < p.Next {
			count--
		}
		return count > 0, nil
	})
	return got, err
}

func TestPeek(t *testing.T) {
	body := func(base Offset, n int) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			at := segHeaderSize + n*s.all[0].Size() + s.all[0].Size() - 1
			edit(t, s.mem, segName(base), func(b []byte) []byte { b[at] ^= 1; return b })
		}
	}
	front := func(base Offset, n int) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			at := segHeaderSize + n*s.all[0].Size() + 9
			edit(t, s.mem, segName(base), func(b []byte) []byte { b[at] ^= 1; return b })
		}
	}
	all := func(changes ...func(t *testing.T, s *stored)) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			for _, change := range changes {
				change(t, s)
			}
		}
	}
	without := func(names ...string) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			for _, name := range names {
				must(t, s.mem.Remove(filepath.Join(testDir, name)))
			}
		}
	}
	// 20 batches of 2 records in segments of 6 batches: [0,12) [12,24) [24,36) [36,40)
	tests := []struct {
		name   string
		change func(t *testing.T, s *stored)
		from   Offset
		count  int
		want   string
	}{
		{"the first record of a batch", all(), 14, 1, "[14,16)"},
		{"the last record of a batch", all(), 15, 1, "[14,16)"},
		{"over the end of a segment", all(), 22, 2, "[22,24) [24,26)"},
		{"to the end", all(), 37, 99, "[36,38) [38,40)"},
		{"no index is needed", without(idxName(0), idxName(12)), 14, 1, "[14,16)"},
		{"a bad header of the segment", func(t *testing.T, s *stored) {
			edit(t, s.mem, segName(12), func(b []byte) []byte { b[9] ^= 1; return b })
		}, 14, 1, "[14,16)"},
		{"a bad body", body(12, 1), 15, 2, "[14,16) bad [16,18)"},
		{"in front of a bad body", body(12, 1), 13, 1, "[12,14)"},
		{"behind a bad body", body(12, 1), 16, 1, "[16,18)"},
		{"a bad front", front(12, 1), 15, 2, "[14,16) bad [16,18)"},
		{"bad bodies in a row", all(body(12, 1), body(12, 2)), 17, 1, "[16,18) bad"},
		{"a bad front and a bad body", all(front(12, 1), body(12, 2)), 14, 3, "[14,16) bad [16,18) bad [18,20)"},
		{"bad fronts in a row", all(front(12, 1), front(12, 2)), 17, 1, "[14,18) bad"},
		{"the last of a segment", front(12, 5), 22, 2, "[22,24) bad [24,26)"},
		{"a whole segment", without(segName(12)), 13, 1, "[12,24) bad no bytes"},
		{"the first segment, and its index tells", without(segName(0)), 3, 2, "[0,12) bad no bytes [12,14)"},
		{"the first segment is removed", without(segName(0), idxName(0)), 3, 1, "out of range: 3 is below the start of the log, 12"},
		{"the last segment, and its index tells", without(segName(36)), 37, 1, "[36,40) bad no bytes"},
		{"the end", all(), 40, 1, "out of range: 40 is not below the end of the log, 40"},
		{"an end that an index vouches for", body(36, 1), 39, 1, "[38,40) bad"},
		{"an end that nothing vouches for", all(without(idxName(36)), body(36, 1)), 39, 1, "[38,40) bad torn"},
		{"a torn front", all(without(idxName(36)), front(36, 1)), 38, 1, "[38,39) bad torn"},
		{"behind a torn end", all(without(idxName(36)), body(36, 1)), 40, 1, "out of range: 40 is not below the end of the log, 38"},
		{"a torn end is not gone on to", all(without(idxName(36)), body(36, 1)), 36, 9, "[36,38)"},
		{"no end is known", func(t *testing.T, s *stored) {
			must(t, s.mem.Remove(filepath.Join(testDir, segName(36))))
			edit(t, s.mem, idxName(36), func(b []byte) []byte { b[60] ^= 1; return b })
		}, 37, 1, "nothing tells how far it went"},
	}
	for _, row := range tests {
		t.Run(row.name, func(t *testing.T) {
			s := store(t, small(), 20)
			cleanClose(t, s)
			row.change(t, s)
			before := files(t, s.mem)
			got, err := peekAt(s.mem, row.from, row.count)
			if err != nil {
				got = append(got, err.Error())
			}
			if text := strings.Join(got, " "); text != row.want && (err == nil || !strings.Contains(text, row.want)) {
				t.Errorf("got %q, want %q", text, row.want)
			}
			if !maps.Equal(before, files(t, s.mem)) {
				t.Error("files were changed")
			}
		})
	}
}

// Control batches are shown in front of the batch behind which they have no offset, also over
// the end of a segment, and at the end of the log.
func TestPeekShowsControlBatches(t *testing.T) {
	mem, m := vfs.NewMem(), newMaker()
	l, _ := mustOpen(t, mem, filled())
	for _, b := range []batchfmt.Batch{m.control(t), m.batch(t, 2, 10), m.control(t), m.control(t), m.batch(t, 2, 10), m.control(t)} {
		must(t, l.Append([]batchfmt.Batch{b}))
	}
	mustSync(t, l) // and the log stays open
	for from, want := range [][]string{
		{"[0,0)", "[0,2)"}, {"[0,0)", "[0,2)"},
		{"[2,2)", "[2,2)", "[2,4)"}, {"[2,2)", "[2,2)", "[2,4)"},
		{"[4,4)"},
	} {
		got, err := peekAt(mem, Offset(from), 1)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("from %d: %q, want %q", from, got, want)
		}
	}
	_, err := peekAt(mem, 5, 1)
	wantErr(t, err, ErrOutOfRange)
}

func TestPeekPassesErrorsOn(t *testing.T) {
	_, err := peekAt(vfs.NewMem(), 0, 1)
	wantErr(t, err, fs.ErrNotExist)
	s := store(t, small(), 20)
	cleanClose(t, s)
	wantErr(t, Peek(s.mem, testDir, 3, func(Piece, []byte) (bool, error) { return true, errTest }), errTest)
	f := vfs.NewFaulty(s.mem)
	for n := range 20 {
		f.Heal()
		f.Fail(vfs.OpRead, n, 1, errTest)
		if _, err := peekAt(f, 14, 1); err != nil {
			wantErr(t, err, errTest)
		}
	}
}

// FuzzPeek: whatever stands in the last segment and its index, each offset that the log has
// after Open is shown, as a batch if it can be read and as damage if not; and nothing is
// changed.
func FuzzPeek(f *testing.F) {
	f.Fuzz(func(t *testing.T, segment, idx []byte, from uint16) {
		mem := vfs.NewMem()
		base := goodSegment(t, mem, newMaker())
		must(t, writeFile(mem, filepath.Join(testDir, segName(base)), segment))
		if len(idx) > 0 {
			must(t, writeFile(mem, filepath.Join(testDir, idxName(base)), idx))
		}
		peekAgrees(t, mem, Offset(from))
	})
}

// peekAgrees compares what Peek shows of an offset with what Open makes of the log.
func peekAgrees(t *testing.T, mem *vfs.Mem, at Offset) {
	t.Helper()
	before := files(t, mem)
	var shown *Piece
	err := Peek(mem, testDir, at, func(p Piece, b []byte) (bool, error) {
		if p.From > p.Next || p.Size < 0 || p.Position < 0 || int64(len(b)) != min(p.Size, batchfmt.MaxBatchBytes) {
			t.Fatalf("%+v with %d bytes", p, len(b))
		}
		if p.From <= at && at < p.Next && shown == nil {
			shown = &p
		}
		return shown == nil, nil
	})
	var corrupt *CorruptError
	if err != nil && !errors.Is(err, ErrOutOfRange) && !errors.As(err, &corrupt) {
		t.Fatal(err)
	}
	if !maps.Equal(before, files(t, mem)) {
		t.Fatal("files were changed")
	}
	// An index says where batches begin, so the log takes nothing between for one.
	indexed := false
	if shown != nil {
		base, _ := parseName(shown.File, segSuffix)
		_, err := readIndex(mem, testDir, base)
		indexed = err == nil
	}
	l, _, err := Open(mem, testDir, small())
	if err != nil {
		return // it knows not more
	}
	defer l.Close()
	if err = ErrOutOfRange; at < l.End() {
		_, _, err = l.Read(nil, at, l.End(), 1)
	}
	switch {
	case err == nil && (shown == nil || shown.Fault != ""):
		t.Fatalf("offset %d can be read, and what was shown is %+v", at, shown)
	case errors.As(err, &corrupt) && (shown == nil || shown.Fault == "" && !indexed || shown.Torn):
		t.Fatalf("offset %d is damaged (%v), and what was shown is %+v", at, err, shown)
	case errors.Is(err, ErrOutOfRange) && shown != nil && !shown.Torn:
		t.Fatalf("offset %d is not there, and what was shown is %+v", at, shown)
	}
}

// TestPeekAgrees damages a log in several places at once, at random.
func TestPeekAgrees(t *testing.T) {
	s := store(t, small(), 20)
	cleanClose(t, s)
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for range rounds {
		mem := s.mem.CrashClone()
		names, err := mem.List(testDir)
		must(t, err)
		var told []string
		for range 1 + random.IntN(4) {
			name := names[random.IntN(len(names))]
			at, how := random.IntN(2200), random.IntN(8)
			told = append(told, fmt.Sprint(name, at, how))
			if _, err := mem.Stat(filepath.Join(testDir, name)); err != nil {
				continue // it is gone already
			}
			if how == 0 {
				must(t, mem.Remove(filepath.Join(testDir, name)))
				continue
			}
			edit(t, mem, name, func(b []byte) []byte {
				at %= max(1, len(b))
				switch {
				case how == 1:
					return b[:at]
				case how == 2:
					clear(b[at:min(len(b), at+512)])
				case how == 3:
					copy(b[at:], b[min(segHeaderSize, len(b)):])
				case len(b) > 0:
					b[at] ^= 1 << random.IntN(8)
				}
				return b
			})
		}
		t.Log(told)
		peekAgrees(t, mem, Offset(random.IntN(42)))
	}
}
