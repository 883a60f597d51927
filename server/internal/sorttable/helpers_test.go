package sorttable

import (
	"bytes"
	"errors"
	"iter"
	"testing"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

const testName = "/t"

var errTest = errors.New("test error")

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

// wantFormat fails unless the error is one about the format.
func wantFormat(t testing.TB, err error) *FormatError {
	t.Helper()
	bad, ok := errors.AsType[*FormatError](err)
	if !ok || bad.Name != testName || bad.What == "" || bad.Reason == "" || bad.At < 0 {
		t.Fatalf("error is %v (%+v), want a complete FormatError", err, bad)
	}
	return bad
}

// pairs gives rows as Write takes them.
func pairs(rows []Row) iter.Seq2[Key, []byte] {
	return func(yield func(Key, []byte) bool) {
		for _, r := range rows {
			if !yield(r.Key, r.Value) {
				return
			}
		}
	}
}

// someRows makes n rows of about size bytes, five to an A, with gaps between them.
func someRows(n, size int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		value := bytes.Repeat([]byte{byte(i)}, (size+i)%(MaxValueBytes+1))
		rows[i] = Row{Key{uint64(i/5) * 3, uint64(i%5)*1000 + 7}, value}
	}
	return rows
}

// newTable writes rows to a new disk and opens them.
func newTable(t testing.TB, rows []Row) (*vfs.Mem, *Table) {
	t.Helper()
	mem := vfs.NewMem()
	stats, err := Write(mem, testName, []byte("meta"), pairs(rows))
	must(t, err)
	must(t, mem.SyncDir("/"))
	table, err := Open(mem, testName)
	must(t, err)
	must(t, table.Verify())
	if stats.Rows != int64(len(rows)) || stats.Rows != table.Rows() || stats.FileBytes != table.FileBytes() || stats.FileBytes != int64(len(content(t, mem))) {
		t.Fatalf("written: %+v, opened: %d rows, %d bytes", stats, table.Rows(), table.FileBytes())
	}
	return mem, table
}

// content is the file.
func content(t testing.TB, fsys vfs.FS) []byte {
	t.Helper()
	f, err := fsys.Open(testName)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	must(t, f.Close())
	return b
}

// put makes the file one with this content.
func put(t testing.TB, fsys vfs.FS, content []byte) {
	t.Helper()
	must(t, fsys.RemoveAll(testName))
	f, err := fsys.Create(testName)
	must(t, err)
	_, err = f.WriteAt(content, 0)
	must(t, err)
	must(t, f.Close())
}

// collect gives the rows up to an error.
func collect(rows iter.Seq2[Row, error]) (all []Row, err error) {
	for row, err := range rows {
		if err != nil {
			return all, err
		}
		all = append(all, row)
	}
	return all, nil
}

func sameRows(a, b []Row) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !bytes.Equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func wantRows(t testing.TB, table *Table, want []Row) {
	t.Helper()
	got, err := collect(table.All())
	must(t, err)
	if !sameRows(got, want) {
		t.Fatalf("%d rows, want %d, or others", len(got), len(want))
	}
}
