package compat

import (
	"bytes"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/golden"
	"github.com/quoin-io/quoin/compat/reader1"
)

// leastFlips is how many bits must be turned for the test to say anything.
const leastFlips = 65_536

// storedGoldens are the golden batches that a log can hold, stamped as they lie in it.
func storedGoldens(t testing.TB) (all []golden.File) {
	t.Helper()
	files, err := golden.Load(".", golden.Batches)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := batchfmt.Parse(f.Bytes)
		if err != nil || f.Release != golden.Next && sameAsNext(files, f) {
			continue
		}
		b.Stamp(batchfmt.Stamp{BaseOffset: 123456, AppendTime: 1_750_000_001_000, Term: 7, Durable: 123400})
		all = append(all, f)
	}
	return all
}

// sameAsNext spares the flips of a release those that next has as well.
func sameAsNext(files []golden.File, f golden.File) bool {
	for _, other := range files {
		if other.Release == golden.Next && other.Name == f.Name && bytes.Equal(other.Bytes, f.Bytes) {
			return true
		}
	}
	return false
}

// TestFlips turns every bit of every golden batch, one at a time. All of them must be seen by
// the checks that server and consumer make of today, and in version 1 by the frozen reader.
func TestFlips(t *testing.T) {
	flips, by := 0, map[string]int{}
	for _, f := range storedGoldens(t) {
		for bit := range len(f.Bytes) * 8 {
			f.Bytes[bit/8] ^= 1 << (bit % 8)
			flips++
			who := caughtBy(f.Bytes)
			by[who]++
			if who == "" {
				t.Errorf("%v: bit %d of byte %d was turned, and no check saw it", f, bit%8, bit/8)
			}
			if records, n, err := reader1.Decode(f.Bytes); err == nil || n != 0 || records != nil {
				t.Errorf("%v: bit %d of byte %d was turned, and the frozen reader gives %d records: %v", f, bit%8, bit/8, len(records), err)
			}
			f.Bytes[bit/8] ^= 1 << (bit % 8)
		}
	}
	t.Logf("%d flips, caught by %v", flips, by)
	if flips < leastFlips {
		t.Errorf("only %d bits were turned, want %d", flips, leastFlips)
	}
}

// caughtBy names the first check that refuses a batch; empty if none does.
func caughtBy(raw []byte) string {
	b, err := batchfmt.Parse(raw)
	switch {
	case err != nil:
		return "layout"
	case b.Verify() != nil:
		return "checksum"
	case b.VerifyFront() != nil:
		return "front check"
	}
	return ""
}

// The control below unpacks a section for every bit: it leaves out sections over so many bytes,
// and takes one bit of so many.
const (
	smallRecords = 16 << 10
	controlEvery = 13
)

// TestFlipsPassWithoutChecks is the control: layout and records alone, without the two
// checksums, let most flips through.
func TestFlipsPassWithoutChecks(t *testing.T) {
	flips, unseen := 0, 0
	var r batchfmt.Reader
	for _, f := range storedGoldens(t) {
		if b, err := batchfmt.Parse(f.Bytes); err != nil || b.RecordsLength() > smallRecords {
			continue
		}
		for bit := 0; bit < len(f.Bytes)*8; bit += controlEvery {
			f.Bytes[bit/8] ^= 1 << (bit % 8)
			flips++
			if b, err := batchfmt.Parse(f.Bytes); err == nil && batchfmt.CheckRecords(b, &r) == nil {
				unseen++
			}
			f.Bytes[bit/8] ^= 1 << (bit % 8)
		}
	}
	t.Logf("%d of %d flips pass without the checksums", unseen, flips)
	if unseen < flips/2 {
		t.Errorf("only %d of %d flips pass without the checksums", unseen, flips)
	}
}
