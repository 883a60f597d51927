package seglog

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestVerify(t *testing.T) {
	flip := func(name string, pos int) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			edit(t, s.mem, name, func(b []byte) []byte { b[(pos+len(b))%len(b)] ^= 1; return b })
		}
	}
	forge := func(change func(x *index)) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			x, err := readIndex(s.mem, testDir, 0)
			must(t, err)
			change(&x)
			edit(t, s.mem, idxName(0), func([]byte) []byte { return x.append(nil) })
		}
	}
	put := func(name string, content []byte) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			must(t, writeFile(s.mem, filepath.Join(testDir, name), content))
		}
	}
	remove := func(name string) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) { must(t, s.mem.Remove(filepath.Join(testDir, name))) }
	}
	more := func(change func(st *batchfmt.Stamp)) func(t *testing.T, s *stored) {
		return func(t *testing.T, s *stored) {
			b := stamp(t, s.m.batch(t, 1, 10), change)
			edit(t, s.mem, s.lastName(t), func(old []byte) []byte { return append(old, b.Bytes()...) })
		}
	}
	// 20 batches of 2 records in segments of 6 batches: [0,12) [12,24) [24,36) [36,40)
	tests := []struct {
		name   string
		change func(t *testing.T, s *stored)
		want   []string // kind, file, offsets
	}{
		{"nothing is wrong", func(*testing.T, *stored) {}, nil},
		{"a body", flip(segName(12), 332), []string{"damage 12.seg [12,14)"}},
		{"a front", flip(segName(12), 40), []string{"damage 12.seg [12,14)"}},
		{"the header of a segment", flip(segName(12), 10), []string{"damage 12.seg [12,12)"}},
		{"the last batch", flip(segName(36), -1), []string{"torn end 36.seg [38,38)"}},
		{"garbage behind the last batch", func(t *testing.T, s *stored) {
			edit(t, s.mem, segName(36), func(b []byte) []byte { return append(b, "garbage"...) })
		}, []string{"torn end 36.seg [40,40)"}},
		{"an index", flip(idxName(12), 70), []string{"index 12.idx [12,12)"}},
		{"an index is missing", remove(idxName(12)), []string{"index 12.idx [12,12)"}},
		{"an index entry leads into a batch", forge(func(x *index) { x.entries[1].pos++ }), []string{"index 0.idx [4,4)"}},
		{"an index entry leads to another batch", forge(func(x *index) { x.entries[1].offset++ }), []string{"index 0.idx [5,5)"}},
		{"an index ends too early", forge(func(x *index) {
			x.entries, x.end.next, x.end.size = x.entries[:1], 2, 354
		}), []string{"index 0.idx [2,2)"}},
		{"an index is of another file", forge(func(x *index) { x.check++ }), []string{"index 0.idx [0,0)"}},
		{"a segment is missing", remove(segName(12)), []string{"index 12.idx [12,12)", "damage 0.seg [12,24)"}},
		{"the first segment is missing", remove(segName(0)), []string{"index 0.idx [0,0)", "damage 0.seg [0,12)"}},
		{"a file was being written", put(segName(40)+tmpSuffix, nil), []string{"leftover 40.seg.tmp [0,0)"}},
		{"a foreign file", put("notes.txt", []byte("mine")), nil},
		{"the durable offset falls", func(t *testing.T, s *stored) {
			s.m.durable = 39
			more(func(*batchfmt.Stamp) {})(t, s)
			more(func(st *batchfmt.Stamp) { st.Durable = 3 })(t, s)
		}, []string{"order 36.seg [41,42)"}},
		{"the term falls", more(func(st *batchfmt.Stamp) { st.Term = 0 }), []string{"torn end 36.seg [40,40)"}},
		{"two segments disagree", func(t *testing.T, s *stored) {
			other := newMaker()
			other.next = 38
			put(segName(38), append(appendSegHeader(nil, 38, testTime), other.batch(t, 1, 99).Bytes()...))(t, s)
		}, []string{"index 36.idx [36,36)", "damage 36.seg [38,38)"}},
		{"a recovery was killed", func(t *testing.T, s *stored) {
			put(segName(38), append(appendSegHeader(nil, 38, testTime), s.all[19].Bytes()...))(t, s)
		}, []string{"index 36.idx [36,36)", "leftover 36.seg [38,38)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, small(), 20)
			tt.change(t, s)
			before := files(t, s.mem)
			var got []string
			report, err := Verify(s.mem, testDir, func(f Finding) {
				text := f.String()
				kind, rest, _ := strings.Cut(text, ": ")
				file, rest, _ := strings.Cut(rest, ", byte")
				_, offsets, _ := strings.Cut(rest, "offsets ")
				offsets, _, _ = strings.Cut(offsets, ":")
				file = strings.TrimLeft(file, "0")
				if strings.HasPrefix(file, ".") {
					file = "0" + file
				}
				got = append(got, kind+" "+file+" "+offsets)
			})
			must(t, err)
			if !slices.Equal(got, tt.want) || report.Findings != len(got) {
				t.Fatalf("found %q, want %q", got, tt.want)
			}
			for name, was := range before {
				if string(content(t, s.mem, name)) != was {
					t.Fatalf("%s was changed", name)
				}
			}
			if len(report.Files) != len(before) {
				t.Fatalf("files are %+v", report.Files)
			}
		})
	}
}

func TestVerifyCounts(t *testing.T) {
	s := store(t, small(), 20)
	cleanClose(t, s)
	report, err := Verify(s.mem, testDir, nil)
	must(t, err)
	size := int64(s.all[0].Size())
	roles := map[string]int{}
	for _, f := range report.Files {
		roles[f.Role]++
	}
	if report.Start != 0 || report.End != 40 || report.Durable != 40 || report.LastTerm != 1 || report.Batches != 20 ||
		report.Records != 40 || report.Bytes != 20*size || report.Findings != 0 || roles["segment"] != roles["index"] || roles["segment"] < 4 {
		t.Fatalf("%+v", report)
	}
	_, err = Verify(vfs.NewMem(), testDir, nil)
	wantErr(t, err, fs.ErrNotExist)
	f := vfs.NewFaulty(s.mem)
	for n := range 20 {
		f.Heal()
		f.Fail(vfs.OpRead, n, 1, errTest)
		if _, err = Verify(f, testDir, nil); err != nil {
			wantErr(t, err, errTest)
		}
	}
}

// FuzzVerify: any bytes in any two files are told about or not, but nothing is changed, and
// what Open makes of them is what Verify said.
func FuzzVerify(f *testing.F) {
	f.Fuzz(func(t *testing.T, segment, idx []byte, tmp bool) {
		mem := vfs.NewMem()
		base := goodSegment(t, mem, newMaker())
		must(t, writeFile(mem, filepath.Join(testDir, segName(base)), segment))
		must(t, writeFile(mem, filepath.Join(testDir, idxName(base)), idx))
		if tmp {
			must(t, writeFile(mem, filepath.Join(testDir, segName(base)+tmpSuffix), segment))
		}
		before := files(t, mem)
		report, err := Verify(mem, testDir, func(x Finding) {
			if x.From > x.Next || x.File == "" || x.Reason == "" {
				t.Fatalf("%+v", x)
			}
		})
		must(t, err)
		for name, was := range before {
			if !bytes.Equal(content(t, mem, name), []byte(was)) {
				t.Fatalf("%s was changed", name)
			}
		}
		_, info, err := Open(mem, testDir, small())
		if err == nil && info.End != report.End {
			t.Fatalf("Verify says that the log ends at %d, Open %d", report.End, info.End)
		}
	})
}
