package seglog

import (
	"slices"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

func TestHeaders(t *testing.T) {
	s := store(t, small(), 25) // batches of two records, six to a segment
	edit(t, s.mem, segName(12), func(b []byte) []byte {
		b[segHeaderSize+int64(3*s.all[0].Size())+5] ^= 1 // the front of [18,20)
		return b
	})
	l, _ := mustOpen(t, s.mem, s.cfg)
	defer l.Close()
	rows := []struct {
		name     string
		from, to Offset
		stop     int // batches after which fn has enough; 0 for never
		want     []Offset
		next     Offset
		damaged  bool
	}{
		{"a whole segment", 0, noLimit, 0, []Offset{0, 2, 4, 6, 8, 10}, 12, false},
		{"from within a batch", 3, noLimit, 0, []Offset{2, 4, 6, 8, 10}, 12, false},
		{"up to an offset", 0, 4, 0, []Offset{0, 2}, 4, false},
		{"until it is enough", 0, noLimit, 2, []Offset{0, 2}, 2, false},
		{"over a damaged place, each batch once", 12, noLimit, 0, []Offset{12, 14, 16, 20, 22}, 24, true},
		{"behind the damage", 20, noLimit, 0, []Offset{20, 22}, 24, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var got []Offset
			next, damaged, err := l.Headers(row.from, row.to, func(b batchfmt.Batch, pos int64) bool {
				if want := int64(segHeaderSize) + int64(b.BaseOffset()%12/2)*int64(s.all[0].Size()); pos != want {
					t.Errorf("batch %d stands at byte %d, not %d", b.BaseOffset(), pos, want)
				}
				got = append(got, b.BaseOffset())
				return row.stop == 0 || len(got) < row.stop
			})
			must(t, err)
			if len(got) != len(row.want) || next != row.next || damaged != row.damaged {
				t.Fatalf("got %v up to %d, damaged %v", got, next, damaged)
			}
			for i := range got {
				if got[i] != row.want[i] {
					t.Fatalf("got %v", got)
				}
			}
		})
	}
	_, _, err := l.Headers(l.End()+1, noLimit, nil)
	wantErr(t, err, ErrOutOfRange)
	if b, err := l.BatchAt(20); err != nil || b.BaseOffset() != 20 { // right behind the damage
		t.Errorf("BatchAt(20) is %d, %v", b.BaseOffset(), err)
	}
	if _, err := l.BatchAt(19); wantCorrupt(t, err).Next != 20 {
		t.Errorf("BatchAt(19): %v", err)
	}
	if base := l.ActiveBase(); base != 48 {
		t.Errorf("the active segment is %d", base)
	}
}

// Of a batch whose body is bad the front is left, and of one whose front is bad nothing.
func TestRemains(t *testing.T) {
	s := store(t, small(), 25) // batches of two records, six to a segment
	size := s.all[0].Size()
	edit(t, s.mem, segName(12), func(b []byte) []byte {
		b[int(segHeaderSize)+1*size-1] ^= 1 // the body of [12,14)
		b[int(segHeaderSize)+3*size-1] ^= 1 // the body of [16,18)
		b[int(segHeaderSize)+4*size-1] ^= 1 // the body of [18,20)
		b[int(segHeaderSize)+5*size+5] ^= 1 // the front of [22,24)
		return b
	})
	l, _ := mustOpen(t, s.mem, s.cfg)
	defer l.Close()
	remains := func(from, to Offset, most int) (got []Offset) {
		t.Helper()
		must(t, l.Remains(from, to, func(at Offset, digest batchfmt.Digest) bool {
			if want := s.all[at/2]; want.BaseOffset() != at || want.Digest() != digest {
				t.Errorf("at %d: digest %x", at, digest)
			}
			got = append(got, at)
			return len(got) != most
		}))
		return got
	}
	for at := Offset(12); at < 24; at += 2 {
		if _, err := l.BatchAt(at); err != nil {
			wantCorrupt(t, err)
		}
	}
	rows := []struct {
		name     string
		from, to Offset
		most     int
		want     []Offset
	}{
		{"of a segment", 12, 24, 0, []Offset{12, 16, 18}},
		{"from an offset on", 14, 24, 0, []Offset{16, 18}},
		{"up to an offset", 12, 18, 0, []Offset{12, 16}},
		{"until it is enough", 12, 24, 2, []Offset{12, 16}},
		{"of a bad front", 20, 24, 0, nil},
		{"of a segment without damage", 24, 36, 0, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := remains(row.from, row.to, row.most); !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
	wantErr(t, l.Remains(l.End()+1, noLimit, nil), ErrOutOfRange)
}
