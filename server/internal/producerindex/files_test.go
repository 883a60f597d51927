package producerindex

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestNames(t *testing.T) {
	tests := []struct {
		name     string
		base     batchfmt.Offset
		temp, ok bool
	}{
		{"00000000000000000000.pix", 0, false, true},
		{"00000000000000000042.pix.tmp", 42, true, true},
		{Name(math.MaxInt64), math.MaxInt64, false, true},
		{"09223372036854775808.pix", 0, false, false}, // one too many
		{"99999999999999999999.pix", 0, false, false},
		{"0000000000000000000.pix", 0, false, false},
		{"+0000000000000000001.pix", 0, false, false},
		{"0000000000000000000_.pix", 0, false, false},
		{"00000000000000000042.seg", 0, false, false},
		{"00000000000000000042.pix.tmp.tmp", 0, false, false},
		{"", 0, false, false},
	}
	for _, tt := range tests {
		base, temp, ok := ParseName(tt.name)
		if ok != tt.ok || ok && (base != tt.base || temp != tt.temp) {
			t.Errorf("%q is %d, %v, %v", tt.name, base, temp, ok)
		}
	}
}

func TestSweep(t *testing.T) {
	mem := vfs.NewMem()
	keep := []string{"00000000000000000000.seg", Name(10), "other.pix.tmp", "snapshot"}
	stray := []string{Name(10) + ".tmp", Name(20), Name(30), Name(30) + ".tmp"}
	for _, name := range append(stray, keep...) {
		f, err := mem.Create(filepath.Join(testDir, name))
		must(t, err)
		must(t, f.Close())
	}
	bases, err := List(mem, testDir)
	if want := []batchfmt.Offset{10, 20, 30}; err != nil || !slices.Equal(bases, want) {
		t.Fatalf("listed %v, %v", bases, err)
	}
	removed, err := Sweep(mem, testDir, func(base batchfmt.Offset) bool { return base == 10 })
	if err != nil || removed != len(stray) {
		t.Fatalf("removed %d, %v", removed, err)
	}
	names, err := mem.List(testDir)
	must(t, err)
	if slices.Sort(keep); !slices.Equal(names, keep) {
		t.Fatalf("left %q", names)
	}
	must(t, Remove(mem, testDir, 10))
	must(t, Remove(mem, testDir, 10))
	if bases, err := List(mem, testDir); err != nil || len(bases) > 0 {
		t.Fatalf("listed %v, %v", bases, err)
	}
}

func TestFailingDisk(t *testing.T) {
	failed := errors.New("test error")
	disk := vfs.NewFaulty(vfs.NewMem())
	l := newLog(0)
	l.batch(native, 0, 0, 4, 100)
	_, err := l.builder().Write(disk, testDir, l.segment())
	must(t, err)
	x, err := Open(disk, testDir, l.segment())
	must(t, err)
	calls := map[string]func() error{
		"open":   func() error { _, err := Open(disk, testDir, l.segment()); return err },
		"find":   func() error { _, _, err := x.Find(native, 3); return err },
		"miss":   func() error { _, _, err := x.Find(native, 5); return err },
		"newest": func() error { _, _, err := x.Newest(native); return err },
		"verify": x.Verify,
		"list":   func() error { _, err := List(disk, testDir); return err },
		"sweep":  func() error { _, err := Sweep(disk, testDir, func(batchfmt.Offset) bool { return true }); return err },
		"remove": func() error { return Remove(disk, testDir, 0) },
		"write":  func() error { _, err := l.builder().Write(disk, testDir, l.segment()); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			disk.FailCall(0, math.MaxInt, failed)
			defer disk.Heal()
			err := call()
			wantErr(t, err, failed)
			if MustRebuild(err) {
				t.Fatal("a failing disk is no reason to throw an index away")
			}
		})
	}
	must(t, x.Close())
	if _, _, err := x.Find(native, 0); err == nil || MustRebuild(err) {
		t.Fatalf("a closed index says %v", err)
	}
}

// Whatever bit of the file is wrong, an answer is right or an error that says to make the
// index again.
func TestDamage(t *testing.T) {
	l := newLog(50)
	for i := range batchfmt.Seq(40) {
		l.batch(native+batchfmt.ProducerID(i%3), batchfmt.Epoch(i/30), i*2, i*2+1, 90_000)
	}
	mem, right := l.written(t)
	name := filepath.Join(testDir, Name(50))
	f, err := mem.Open(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	for at := range size {
		var b [1]byte
		_, err := f.ReadAt(b[:], at)
		must(t, err)
		_, err = f.WriteAt([]byte{b[0] ^ 1<<(at%8)}, at)
		must(t, err)
		if err := findAll(mem, l, right); err == nil || !MustRebuild(err) {
			t.Fatalf("with byte %d wrong the error is %v", at, err)
		}
		_, err = f.WriteAt(b[:], at)
		must(t, err)
	}
	must(t, findAll(mem, l, right))
	must(t, f.Close())
	if s := strings.Join(mustList(t, mem), " "); s != Name(50) {
		t.Fatal(s)
	}
}

// findAll looks for all batches in the index as it is now, and in the one that was opened
// when it was right.
func findAll(fsys vfs.FS, l *log, opened *Index) error {
	x, err := Open(fsys, testDir, l.segment())
	if err != nil {
		return err
	}
	for _, b := range l.batches {
		for _, x := range []*Index{x, opened} {
			r, ok, err := x.Find(b.PID, b.Last)
			if err != nil {
				return errors.Join(err, x.Verify())
			}
			if !ok || b.Offset < r.FirstOffset || b.Offset > r.LastOffset {
				return errors.New("a wrong run")
			}
		}
	}
	return x.Verify()
}

func mustList(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List(testDir)
	must(t, err)
	return names
}
