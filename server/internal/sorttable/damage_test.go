package sorttable

import (
	"bytes"
	"slices"
	"testing"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// noticed fails unless something says that a file is not what was written.
func noticed(t *testing.T, file []byte) *Table {
	t.Helper()
	mem := vfs.NewMem()
	put(t, mem, file)
	table, err := Open(mem, testName)
	if err != nil {
		wantFormat(t, err)
		return nil
	}
	wantFormat(t, table.Verify())
	return table
}

// damaged looks at a file that is not what was written. Something has to say so, and
// whatever is read until then has to be right.
func damaged(t *testing.T, file []byte, rows []Row) {
	t.Helper()
	table := noticed(t, file)
	if table == nil {
		return
	}
	got, err := collect(table.All())
	wantFormat(t, err)
	if len(got) > len(rows) || !sameRows(got, rows[:len(got)]) {
		t.Fatalf("%d rows were read that were not written", len(got))
	}
	for i := 0; i < len(rows); i += len(rows)/8 + 1 {
		value, ok, err := table.Find(rows[i].Key)
		if err != nil {
			wantFormat(t, err)
		} else if !ok || !bytes.Equal(value, rows[i].Value) {
			t.Fatalf("row %v is %x, %v", rows[i].Key, value, ok)
		}
	}
}

func TestEveryBitFlips(t *testing.T) {
	rows := someRows(64, 30)
	mem, table := newTable(t, rows)
	if len(table.fences) < 2 {
		t.Fatal("the table has one block")
	}
	file := content(t, mem)
	for i := range file {
		for bit := range 8 {
			file[i] ^= 1 << bit
			if bit == i%8 {
				damaged(t, file, rows)
			} else {
				noticed(t, file)
			}
			file[i] ^= 1 << bit
		}
	}
}

func TestEveryPrefix(t *testing.T) {
	rows := someRows(110, 30)
	mem, _ := newTable(t, rows)
	file := content(t, mem)
	for n := range file {
		damaged(t, file[:n], rows)
	}
	damaged(t, append(slices.Clone(file), 0), rows)
}

// The parts of two tables with the same layout do not go together.
func TestPartOfAnotherTable(t *testing.T) {
	rows := someRows(110, 30)
	mem, table := newTable(t, rows)
	other := slices.Clone(rows)
	for i := range other {
		other[i].Key.A++
		other[i].Value = bytes.Repeat([]byte("o"), len(other[i].Value))
	}
	otherMem, _ := newTable(t, other)
	file, otherFile := content(t, mem), content(t, otherMem)
	if len(file) != len(otherFile) {
		t.Fatal("the tables have different layouts")
	}
	h := &table.head
	cuts := []int64{0, h.blocksAt(), h.blocksAt() + blockSize, h.filterAt(), h.fencesAt(), h.fileSize()}
	for i, from := range cuts[:len(cuts)-1] {
		mixed := slices.Clone(file)
		copy(mixed[from:cuts[i+1]], otherFile[from:cuts[i+1]])
		damaged(t, mixed, rows)
	}
}

// A file that is cut while the table is open is damage, not an end.
func TestCutWhileOpen(t *testing.T) {
	mem, table := newTable(t, someRows(110, 30))
	f, err := mem.Open(testName)
	must(t, err)
	must(t, f.Truncate(table.head.blocksAt()+10))
	must(t, f.Close())
	_, _, err = table.Find(table.Last())
	if bad := wantFormat(t, err); bad.What != "block" || bad.At != table.blockAt(len(table.fences)-1) {
		t.Fatalf("%+v", bad)
	}
	wantFormat(t, table.Verify())
}

// Another table under the name of one that is open is not taken for it.
func TestReplacedWhileOpen(t *testing.T) {
	mem, table := newTable(t, someRows(110, 30))
	_, err := Write(mem, testName, nil, pairs(someRows(200, 30)))
	must(t, err)
	_, _, err = table.Find(table.Last())
	wantFormat(t, err)
	wantFormat(t, table.Verify())
}

// Whatever the disk made of a file until it is read back, Write does not let it have the
// name.
func TestWriteReadsBack(t *testing.T) {
	rows := someRows(110, 30)
	size := int64(len(content(t, func() vfs.FS { mem, _ := newTable(t, rows); return mem }())))
	for at := int64(0); at < size; at += 41 {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		faulty.Observe(func(op vfs.Op, name string) {
			if op != vfs.OpSync {
				return
			}
			f, err := mem.Open(name)
			must(t, err)
			var b [1]byte
			_, err = f.ReadAt(b[:], at)
			must(t, err)
			b[0] ^= 4
			_, err = f.WriteAt(b[:], at)
			must(t, err)
			must(t, f.Close())
		})
		if _, err := Write(faulty, testName, nil, pairs(rows)); err == nil {
			t.Fatalf("byte %d is wrong, and was not read back", at)
		}
		if names, err := mem.List("/"); err != nil || len(names) > 0 {
			t.Fatalf("left behind: %q, %v", names, err)
		}
	}
}
