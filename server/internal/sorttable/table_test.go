package sorttable

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// goldenTable is a table of version 1. It must be read for ever.
const goldenTable = "" +
	"51544142 01000000 02000000 20000000" + // magic, version, two bytes of meta, 32 of filter
	"0400000000000000 1b00000000000000" + // four rows, 27 bytes of blocks
	"ffffffffffffffff 0000000000000000" + // last key
	"15b0078a1f3e0e1f 34b7a928da429091" + // checks of filter and fences
	"6d65 a81a64e3c794040a" + // meta, check
	"0400" + // four rows
	"07 01 01 61" + // 7,1: a
	"00 ac02 00" + // 7,301: nothing
	"01 00 02 6263" + // 8,0: bc
	"f7ffffffffffffffff01 00 00" + // 2^64-1,0: nothing
	"02004020008000180006400020900000" + // filter, one group
	"048020002001000800043000c0100000" +
	"07000000000000000100000000000000" + // fence 7,1
	"c12c3a47ff59ec7c" + // check of the block
	""

func goldenRows() []Row {
	return []Row{
		{Key{7, 1}, []byte("a")},
		{Key{7, 301}, nil},
		{Key{8, 0}, []byte("bc")},
		{Key{math.MaxUint64, 0}, nil},
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	must(t, err)
	return b
}

func TestGolden(t *testing.T) {
	want := unhex(t, goldenTable)
	mem := vfs.NewMem()
	_, err := Write(mem, testName, []byte("me"), pairs(goldenRows()))
	must(t, err)
	if got := content(t, mem); !bytes.Equal(got, want) {
		t.Fatalf("written %x, want %x", got, want)
	}
	put(t, mem, want)
	table, err := Open(mem, testName)
	must(t, err)
	must(t, table.Verify())
	wantRows(t, table, goldenRows())
	if string(table.Meta()) != "me" || table.First() != (Key{7, 1}) || table.Last() != (Key{math.MaxUint64, 0}) {
		t.Fatalf("meta %q, first %v, last %v", table.Meta(), table.First(), table.Last())
	}
}

func TestNoRows(t *testing.T) {
	_, table := newTable(t, nil)
	wantRows(t, table, nil)
	if _, ok, err := table.Find(Key{}); ok || err != nil || table.MayHave(0) || table.First() != (Key{}) {
		t.Fatalf("%v, %v", ok, err)
	}
}

// A table answers as a sorted slice does.
func TestTableIsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.OneOf(rapid.Uint64Max(30), rapid.Uint64())
		sizes := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, MaxValueBytes))
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Row {
			return Row{Key{keys.Draw(t, "A"), keys.Draw(t, "B")}, bytes.Repeat([]byte{'v'}, sizes.Draw(t, "size"))}
		}), 0, 200).Draw(t, "rows")
		slices.SortFunc(rows, func(a, b Row) int { return a.Key.Compare(b.Key) })
		rows = slices.CompactFunc(rows, func(a, b Row) bool { return a.Key == b.Key })
		mem := vfs.NewMem()
		meta := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "meta")
		if _, err := Write(mem, testName, meta, pairs(rows)); err != nil {
			t.Fatal(err)
		}
		table, err := Open(mem, testName)
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Verify(); err != nil || !bytes.Equal(table.Meta(), meta) {
			t.Fatal(err, table.Meta())
		}
		asked := []Key{{}, {math.MaxUint64, math.MaxUint64}, {keys.Draw(t, "A"), keys.Draw(t, "B")}}
		for _, r := range rows {
			k := r.Key
			asked = append(asked, k, Key{k.A, k.B + 1}, Key{k.A, k.B - 1}, Key{k.A + 1, k.B}, Key{k.A, math.MaxUint64})
			if !table.MayHave(k.A) {
				t.Fatalf("the filter does not know %v", k)
			}
		}
		for _, k := range asked {
			compare(t, table, rows, k)
		}
	})
}

func compare(t *rapid.T, table *Table, rows []Row, k Key) {
	i, exact := slices.BinarySearchFunc(rows, k, func(r Row, k Key) int { return r.Key.Compare(k) })
	value, ok, err := table.Find(k)
	if err != nil || ok != exact || ok && !bytes.Equal(value, rows[i].Value) {
		t.Fatalf("Find(%v) is %x, %v, %v", k, value, ok, err)
	}
	below := i - 1
	if exact {
		below = i
	}
	found, value, ok, err := table.Floor(k)
	switch {
	case err != nil:
		t.Fatal(err)
	case below < 0 || rows[below].Key.A != k.A:
		if ok {
			t.Fatalf("Floor(%v) is %v", k, found)
		}
	case !ok || found != rows[below].Key || !bytes.Equal(value, rows[below].Value):
		t.Fatalf("Floor(%v) is %v, %x, %v", k, found, value, ok)
	}
	got, err := collect(table.From(k))
	if err != nil || !sameRows(got, rows[i:]) {
		t.Fatalf("From(%v) gives %d rows of %d, %v", k, len(got), len(rows)-i, err)
	}
	if k == (Key{}) && !sameRows(got, rows) {
		t.Fatal("not all rows")
	}
}

func TestFilterIsNotOftenWrong(t *testing.T) {
	const n = 100_000
	mixed := make([]uint64, n)
	for i := range mixed {
		mixed[i] = mix(uint64(i))
	}
	f := newFilter(mixed)
	wrong := 0
	for i := range uint64(n) {
		if !f.has(i) {
			t.Fatalf("%d is not known", i)
		}
		if f.has(n + i) {
			wrong++
		}
	}
	if rate := float64(wrong) / n; rate > 0.015 {
		t.Errorf("wrong for %.2f %%, with %.1f bits a number", 100*rate, 8*float64(len(f))/n)
	}
}

func TestWriteRefuses(t *testing.T) {
	long := make([]byte, MaxValueBytes+1)
	tests := []struct {
		name string
		meta []byte
		rows []Row
		fail error // in place of a last row
		want error
	}{
		{"a key twice", nil, []Row{{Key{1, 1}, nil}, {Key{1, 1}, nil}}, nil, ErrOrder},
		{"a B that falls", nil, []Row{{Key{1, 1}, nil}, {Key{1, 0}, nil}}, nil, ErrOrder},
		{"an A that falls", nil, []Row{{Key{1, 1}, nil}, {Key{0, 2}, nil}}, nil, ErrOrder},
		{"a value that is too long", nil, []Row{{Key{1, 1}, long}}, nil, ErrTooLarge},
		{"meta that is too long", make([]byte, MaxMetaBytes+1), nil, nil, ErrTooLarge},
		{"rows that end in an error", nil, []Row{{Key{1, 1}, nil}}, errTest, errTest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			_, err := WriteRows(mem, testName, tt.meta, func(yield func(Row, error) bool) {
				for _, r := range tt.rows {
					if !yield(r, nil) {
						return
					}
				}
				if tt.fail != nil {
					yield(Row{}, tt.fail)
				}
			})
			wantErr(t, err, tt.want)
			if names, err := mem.List("/"); err != nil || len(names) > 0 {
				t.Fatalf("left behind: %q, %v", names, err)
			}
		})
	}
}

func TestLargestRowsAndMeta(t *testing.T) {
	mem := vfs.NewMem()
	meta := bytes.Repeat([]byte("m"), MaxMetaBytes)
	rows := make([]Row, 100)
	for i := range rows {
		a := uint64(math.MaxUint64) - uint64(len(rows)-i)<<56
		rows[i] = Row{Key{a, math.MaxUint64}, bytes.Repeat([]byte{byte(i)}, MaxValueBytes)}
	}
	_, err := Write(mem, testName, meta, pairs(rows))
	must(t, err)
	table, err := Open(mem, testName)
	must(t, err)
	wantRows(t, table, rows)
	if !bytes.Equal(table.Meta(), meta) {
		t.Fatal("other meta")
	}
}

func TestFileIsOpenOnlyWhileItIsRead(t *testing.T) {
	rows := someRows(1000, 20)
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	var opens, closes int
	faulty.Observe(func(op vfs.Op, _ string) {
		switch op {
		case vfs.OpOpen, vfs.OpCreate:
			opens++
		case vfs.OpClose:
			closes++
		}
	})
	_, err := Write(faulty, testName, nil, pairs(rows))
	must(t, err)
	table, err := Open(faulty, testName)
	must(t, err)
	find := func() error {
		_, ok, err := table.Find(rows[500].Key)
		if err == nil && !ok {
			t.Fatal("not found")
		}
		return err
	}
	must(t, find())
	for range table.All() {
		break
	}
	if opens != closes {
		t.Fatalf("opened %d times, closed %d times", opens, closes)
	}
	must(t, table.Hold())
	must(t, table.Hold())
	held := opens
	must(t, find())
	must(t, table.Verify())
	if opens != held || opens != closes+1 {
		t.Fatalf("opened %d times, closed %d times", opens, closes)
	}
	must(t, table.Close())
	must(t, table.Close())
	if opens != closes {
		t.Fatalf("opened %d times, closed %d times", opens, closes)
	}
	wantErr(t, find(), ErrClosed)
	wantErr(t, table.Hold(), ErrClosed)
	wantErr(t, table.Verify(), ErrClosed)
}

func TestMissingFile(t *testing.T) {
	mem, table := newTable(t, someRows(10, 5))
	must(t, mem.Remove(testName))
	_, _, err := table.Find(Key{0, 7})
	wantErr(t, err, fs.ErrNotExist)
	_, err = Open(mem, testName)
	wantErr(t, err, fs.ErrNotExist)
}

func TestManyReadAtOnce(t *testing.T) {
	rows := someRows(2000, 10)
	_, table := newTable(t, rows)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for g := range cap(errs) {
		wg.Go(func() {
			for i := g; i < len(rows); i += 7 {
				value, ok, err := table.Find(rows[i].Key)
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil || !ok || !bytes.Equal(value, rows[i].Value) {
					errs <- errors.Join(errTest, err)
					return
				}
			}
			if g == 0 {
				errs <- table.Close()
			}
		})
	}
	if err := table.Hold(); err != nil {
		wantErr(t, err, ErrClosed)
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		must(t, err)
	}
}
