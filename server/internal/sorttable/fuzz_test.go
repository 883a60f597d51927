package sorttable

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// fuzzMemory is what a table may take besides its file: a scan of it, buffers, the disk.
const fuzzMemory = 4 << 20

// FuzzTable opens any bytes, with the checks as they are or made right, and asks for what is
// in them. All that is said must agree.
func FuzzTable(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte, seal bool, a, b uint64) {
		if seal {
			data = sealTable(data)
		}
		mem := vfs.NewMem()
		put(t, mem, data)
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		allocated := stats.TotalAlloc
		fuzzUse(t, mem, Key{a, b})
		runtime.ReadMemStats(&stats)
		if n := stats.TotalAlloc - allocated; n > fuzzMemory+64*uint64(len(data)) {
			t.Fatalf("%d bytes took %d bytes of memory", len(data), n)
		}
	})
}

func fuzzUse(t *testing.T, fsys vfs.FS, k Key) {
	table, err := Open(fsys, testName)
	if err != nil {
		wantFormat(t, err)
		return
	}
	verifyErr := table.Verify()
	if verifyErr != nil {
		wantFormat(t, verifyErr)
	}
	rows, err := collect(table.All())
	if err != nil {
		wantFormat(t, err)
		if verifyErr == nil {
			t.Fatalf("Verify found nothing, All %v", err)
		}
	}
	if !slices.IsSortedFunc(rows, func(a, b Row) int { return a.Key.Compare(b.Key) }) {
		t.Fatal("rows that do not rise")
	}
	for _, k := range []Key{k, {}, {math.MaxUint64, math.MaxUint64}, table.First(), table.Last()} {
		found, _, ok, err := table.Floor(k)
		if err != nil {
			wantFormat(t, err)
		}
		if ok && (k.less(found) || found.A != k.A) {
			t.Fatalf("Floor(%v) is %v", k, found)
		}
		if verifyErr != nil {
			continue
		}
		_, exact := slices.BinarySearchFunc(rows, k, func(r Row, k Key) int { return r.Key.Compare(k) })
		if _, ok, err := table.Find(k); err != nil || ok != exact {
			t.Fatalf("Find(%v) is %v, %v", k, ok, err)
		}
	}
	if verifyErr == nil {
		fuzzRewrite(t, table, rows)
	}
}

// fuzzRewrite makes a table of what is right: it must hold the same.
func fuzzRewrite(t *testing.T, table *Table, rows []Row) {
	mem := vfs.NewMem()
	_, err := WriteRows(mem, testName, table.Meta(), table.All())
	must(t, err)
	again, err := Open(mem, testName)
	must(t, err)
	wantRows(t, again, rows)
}

// sealTable puts right checks on bytes that have the parts of a table.
func sealTable(data []byte) []byte {
	data = slices.Clone(data)
	le := binary.LittleEndian
	if len(data) < headFixedSize+checkSize {
		return data
	}
	metaSize := le.Uint32(data[offMetaSize:])
	if metaSize > MaxMetaBytes || headSize(int(metaSize)) > int64(len(data)) {
		return data
	}
	h := header{
		meta:       make([]byte, metaSize),
		filterSize: int64(le.Uint32(data[offFilterSize:])),
		rows:       int64(le.Uint64(data[offRows:])),
		blocksSize: int64(le.Uint64(data[offBlocksSize:])),
		last:       Key{1, 1},
	}
	if reason := h.contradiction(); reason == "" && h.fileSize() == int64(len(data)) {
		for i := range h.blocks() {
			from := h.blocksAt() + i*blockSize
			to := min(from+blockSize, h.filterAt())
			le.PutUint64(data[h.fencesAt()+i*fenceSize+16:], xxhash.Sum64(data[from:to]))
		}
		le.PutUint64(data[offFilterCheck:], xxhash.Sum64(data[h.filterAt():h.fencesAt()]))
		le.PutUint64(data[offFencesCheck:], xxhash.Sum64(data[h.fencesAt():]))
	}
	at := headFixedSize + int(metaSize)
	le.PutUint64(data[at:], xxhash.Sum64(data[:at]))
	return data
}

// A table whose checks are right and whose contents are not is refused all the same.
func TestSealedAndWrong(t *testing.T) {
	rows := someRows(110, 30)
	mem, table := newTable(t, rows)
	h := &table.head
	at := func(i int64, b byte) func([]byte) { return func(file []byte) { file[i] = b } }
	tests := []struct {
		name, what string
		change     func(file []byte)
	}{
		{"an unknown version", "header", at(offVersion, 2)},
		{"more rows than there are", "header", at(offRows, 111)},
		{"fewer rows than blocks", "header", at(offRows, 1)},
		{"a last key before the last block", "fences", at(offLast, 0)},
		{"a last key that is another", "row", at(offLast, 62)},
		{"a last key that is not there", "header", at(offLast+1, 1)},
		{"a filter that is no whole number of groups", "header", at(offFilterSize, 33)},
		{"a filter that knows nothing", "filter", func(file []byte) { clear(file[h.filterAt():h.fencesAt()]) }},
		{"fences that do not rise", "fences", func(file []byte) { clear(file[h.fencesAt()+fenceSize:][:16]) }},
		{"a fence that is not the first key", "row", at(h.fencesAt()+fenceSize, 1)},
		{"a block of no rows", "row", func(file []byte) { clear(file[h.blocksAt():][:2]) }},
		{"a row too many", "row", func(file []byte) { file[h.blocksAt()]++ }},
		{"a row too few", "row", func(file []byte) { file[h.blocksAt()]-- }},
		{"a value that is too long", "row", func(file []byte) { copy(file[h.blocksAt()+4:], []byte{0xff, 0x7f}) }},
		{"a key twice", "row", func(file []byte) { file[h.blocksAt()+5+int64(len(rows[0].Value))+1] = 0 }},
		{"a number in more bytes than it takes", "row", func(file []byte) { copy(file[h.blocksAt()+2:], []byte{0x80, 0}) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := content(t, mem)
			tt.change(file)
			file = sealTable(file)
			put(t, mem, file)
			defer func() { newMem, _ := newTable(t, rows); mem = newMem }()
			opened, err := Open(mem, testName)
			if err == nil {
				err = opened.Verify()
			}
			if bad := wantFormat(t, err); bad.What != tt.what {
				t.Fatalf("it is the %s: %v", bad.What, err)
			}
		})
	}
}
