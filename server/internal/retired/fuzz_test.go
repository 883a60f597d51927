package retired

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// FuzzHead reads any bytes as a head, twice, also with a check that agrees. What is taken is
// written again as the same bytes.
func FuzzHead(f *testing.F) {
	f.Fuzz(func(t *testing.T, one []byte, repair bool) {
		b := make([]byte, headCopyBytes)
		copy(b, one)
		if n := binary.LittleEndian.Uint32(b[offRunCount:]); repair && n <= mostRuns {
			copy(b, headMagic)
			end := headFixedSize + int(n)*entrySize
			binary.LittleEndian.PutUint64(b[end:], xxhash.Sum64(b[:end]))
			clear(b[end+checkSize:])
		}
		b = append(b, b...)
		h, notes, err := parseHeadFile(b)
		if err != nil {
			wantErr(t, err, ErrDamaged)
			return
		}
		if err := h.check(); err != nil || len(notes) > 0 {
			t.Fatalf("what cannot be was taken: %v %v", err, notes)
		}
		if !bytes.Equal(h.file(), b) {
			t.Fatal("it is written as something else")
		}
	})
}

// FuzzMeta reads any bytes as the meta of a run.
func FuzzMeta(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := parseMeta(b); err == nil && !bytes.Equal(e.bytes(), b) {
			t.Fatalf("%x is read as %+v", b, e)
		}
	})
}

// FuzzOpen puts any bytes where head and second run of a table should be. It opens, and what
// was put is there, or stale, or may be forgotten.
func FuzzOpen(f *testing.F) {
	f.Fuzz(func(t *testing.T, headBytes, runBytes []byte) {
		mem := vfs.NewMem()
		must(t, vfs.MakeDir(mem, testDir))
		table := mustOpenWhole(t, mem, Options{})
		must(t, table.Put([]Row{row(1, "a"), row(3, "a")}))
		must(t, table.Put([]Row{row(2, "b"), row(3, "b")}))
		base := runName(table.view.Load().runs[1].number)
		must(t, table.Close())
		if len(headBytes) > 0 {
			writeFile(t, mem, headName, headBytes)
		}
		if len(runBytes) > 0 {
			writeFile(t, mem, base, runBytes)
		}
		_, err := Verify(mem, testDir, nil)
		must(t, err)
		table, report := mustOpen(t, mem, Options{Issued: 9})
		for id := pid(1); id <= 3; id++ {
			got, ok, err := table.Get(id)
			if err == nil && !ok && !(table.MayHaveForgotten(id) && report.Lost) {
				t.Fatalf("producer %d is gone: %+v", id, report)
			}
			if ok && id == 3 && string(got.Value) == "a" && !got.Stale {
				t.Fatalf("an old row passes for the last: %+v", report)
			}
		}
		must(t, table.Put([]Row{row(4, "c")}))
		wantRow(t, table, row(4, "c"))
		must(t, table.Close())
		table = mustOpenWhole(t, mem, Options{})
		wantRow(t, table, row(4, "c"))
		must(t, table.Close())
	})
}
