package producerindex

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// FuzzIndex takes any meta and any rows for an index. What is in a file can only be what was
// written into a table, so the table itself is made right. Each row of data is two key
// numbers, a length and a value.
func FuzzIndex(f *testing.F) {
	f.Fuzz(func(t *testing.T, meta, data []byte, pid, seq uint64) {
		mem := vfs.NewMem()
		if _, err := sorttable.Write(mem, filepath.Join(testDir, Name(50)), meta, fuzzRows(data)); err != nil {
			return
		}
		of := Segment{Base: 50, Check: 0xc4ec, Next: 10_000}
		if s, versions, err := parseMeta(meta); err == nil {
			if string(s.appendMeta(nil, versions)) != string(meta) {
				t.Fatalf("meta %x is read as %+v", meta, s)
			}
			of.Check, of.Next = s.Check, s.Next
		}
		x, err := Open(mem, testDir, of)
		if err != nil {
			if !MustRebuild(err) {
				t.Fatal(err)
			}
			return
		}
		fuzzUse(t, x, batchfmt.ProducerID(pid), batchfmt.Seq(seq))
	})
}

// fuzzRows reads rows up to the first that does not rise or fit.
func fuzzRows(data []byte) func(yield func(sorttable.Key, []byte) bool) {
	return func(yield func(sorttable.Key, []byte) bool) {
		last := sorttable.Key{}
		for first := true; len(data) >= 17; first = false {
			k := sorttable.Key{A: binary.LittleEndian.Uint64(data), B: binary.LittleEndian.Uint64(data[8:])}
			n := min(int(data[16]), len(data)-17)
			if !first && k.Compare(last) <= 0 || !yield(k, data[17:17+n]) {
				return
			}
			data, last = data[17+n:], k
		}
	}
}

func fuzzUse(t *testing.T, x *Index, pid batchfmt.ProducerID, seq batchfmt.Seq) {
	verifyErr := x.Verify()
	if verifyErr != nil && !MustRebuild(verifyErr) {
		t.Fatal(verifyErr)
	}
	check := func(r Run, ok bool, err error) {
		if err != nil && (verifyErr == nil || !MustRebuild(err)) {
			t.Fatalf("%v; Verify said %v", err, verifyErr)
		}
		if ok && !x.segment.has(r) {
			t.Fatalf("%+v cannot be in %+v", r, x.segment)
		}
	}
	r, ok, err := x.Newest(pid)
	check(r, ok, err)
	r, ok, err = x.Find(pid, seq)
	check(r, ok, err)
	if ok && (r.PID != pid || !r.Holds(seq)) {
		t.Fatalf("Find(%d, %d) is %+v", pid, seq, r)
	}
	if verifyErr != nil {
		return
	}
	for row, err := range x.table.All() {
		must(t, err)
		want, err := x.parse(row)
		must(t, err)
		if value := appendValue(nil, x.segment.Base, want, row.Key.B >= earlierSpace); string(value) != string(row.Value) {
			t.Fatalf("%x is written again as %x", row.Value, value)
		}
		r, ok, err := x.Find(want.PID, want.Last)
		if err != nil || !ok || r.LastOffset < want.LastOffset {
			t.Fatalf("%+v is found as %+v, %v, %v", want, r, ok, err)
		}
	}
}
