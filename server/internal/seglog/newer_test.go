package seglog

import (
	"encoding/binary"
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// A log into which a newer release has written is left alone, wherever that was and whether or
// not the log was closed: an older one would take the batch for damage, or cut it. The same
// bytes with a check that is wrong are damage, as ever.
func TestNewerReleaseIsLeftAlone(t *testing.T) {
	front := func(b []byte) { // of a batch: version 3, and a check that fits
		b[3] = 3
		binary.LittleEndian.PutUint32(b[28:], uint32(xxhash.Sum64(append(append([]byte(nil), b[:28]...), b[32:48]...))))
	}
	tests := []struct {
		name    string
		at      func(size []int64) (segment int, pos int64) // where the newer release wrote
		change  func(b []byte)
		refused bool
	}{
		{"the last batch", func(s []int64) (int, int64) { return 1, s[1] }, front, true},
		{"a batch in the middle", func([]int64) (int, int64) { return 1, segHeaderSize }, front, true},
		{"the last batch, its check is wrong", func(s []int64) (int, int64) { return 1, s[1] }, func(b []byte) { front(b); b[28]++ }, false},
		{"the last segment", func([]int64) (int, int64) { return 1, 0 }, newerHeader, true},
		{"a segment in the middle", func([]int64) (int, int64) { return 0, 0 }, newerHeader, true},
		{"the last segment, its check is wrong", func([]int64) (int, int64) { return 1, 0 }, func(b []byte) { newerHeader(b); b[24]++ }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			mem := vfs.NewMem()
			l, _ := mustOpen(t, mem, small())
			m := newMaker()
			bases, last := []Offset{0}, []int64{0, 0}
			for len(bases) < 2 || last[1] == segHeaderSize {
				size := l.mu.tail.size
				must(t, l.Append([]batchfmt.Batch{m.batch(t, 2, 100)}))
				if l.ActiveBase() != bases[len(bases)-1] {
					bases, size = append(bases, l.ActiveBase()), segHeaderSize
				}
				last[len(bases)-1] = size
			}
			mustSync(t, l)
			must(t, l.shut())
			segment, pos := test.at(last)
			name := filepath.Join(testDir, segName(bases[segment]))
			f, err := mem.Open(name)
			must(t, err)
			b := make([]byte, 48)
			must(t, readFull(f, b, pos))
			test.change(b)
			_, err = f.WriteAt(b, pos)
			must(t, errors.Join(err, f.Sync(), f.Close()))

			before := contents(t, mem)
			l, _, err = Open(mem, testDir, small())
			if !test.refused {
				if isNewer(err) {
					t.Fatalf("taken for the future: %v", err)
				}
				if l != nil {
					l.Close()
				}
				return
			}
			var newer *VersionError
			if !errors.As(err, &newer) || newer.Version < 2 || newer.Known >= newer.Version {
				t.Fatalf("opened: %v", err)
			}
			if after := contents(t, mem); !maps.Equal(before, after) {
				t.Error("the files were changed")
			}
			if _, err := Verify(mem, testDir, nil); !isNewer(err) {
				t.Errorf("verified: %v", err)
			}
		})
	}
}

// contents are the files of the log.
func contents(t *testing.T, mem *vfs.Mem) map[string]string {
	t.Helper()
	names, err := mem.List(testDir)
	must(t, err)
	files := make(map[string]string)
	for _, name := range names {
		f, err := mem.Open(filepath.Join(testDir, name))
		must(t, err)
		size, err := f.Size()
		must(t, err)
		b := make([]byte, size)
		must(t, errors.Join(readFull(f, b, 0), f.Close()))
		files[name] = string(b)
	}
	return files
}

// newerHeader makes the header of a segment one of format version 2.
func newerHeader(b []byte) {
	binary.LittleEndian.PutUint32(b[4:], 2)
	binary.LittleEndian.PutUint64(b[24:], xxhash.Sum64(b[:24]))
}

// Of what a newer release wrote at the end of the log the first front is damaged, and what
// follows is whole: it must not be cut off.
func TestNewerBehindADamagedFront(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := mustOpen(t, mem, small())
	m := newMaker()
	var at []int64
	for range 3 {
		at = append(at, l.mu.tail.size)
		must(t, l.Append([]batchfmt.Batch{m.batch(t, 2, 20)}))
	}
	if l.ActiveBase() != 0 {
		t.Fatal("they are not in one segment")
	}
	mustSync(t, l)
	must(t, l.shut())
	f, err := mem.Open(filepath.Join(testDir, segName(0)))
	must(t, err)
	for i, pos := range at[1:] {
		b := make([]byte, 48)
		must(t, readFull(f, b, pos))
		b[3] = 3
		binary.LittleEndian.PutUint32(b[28:], uint32(xxhash.Sum64(append(append([]byte(nil), b[:28]...), b[32:48]...))))
		if i == 0 {
			b[28]++ // the first one is damaged
		}
		_, err = f.WriteAt(b, pos)
		must(t, err)
	}
	must(t, errors.Join(f.Sync(), f.Close()))
	before := contents(t, mem)
	l, _, err = Open(mem, testDir, small())
	if err == nil {
		l.Close()
	}
	if !isNewer(err) {
		t.Errorf("opened: %v", err)
	}
	after := contents(t, mem)
	if !maps.Equal(before, after) {
		for name := range before {
			if before[name] != after[name] {
				t.Errorf("%s was changed: %d bytes, %d before", name, len(after[name]), len(before[name]))
			}
		}
	}
}
