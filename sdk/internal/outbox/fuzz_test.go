package outbox

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzSegment reads any bytes as the entries of a segment whose sync note says synced:
// nothing panics, entries do not overlap, and what is given as intact is.
func FuzzSegment(f *testing.F) {
	header := segmentHeader{number: 1, salt: 42, binding: testBinding}
	name := segmentName(header.number, header.salt)
	f.Fuzz(func(t *testing.T, synced uint16, entries []byte) {
		front := (&segment{segmentHeader: header}).encodeFront()
		copy(front[firstNote:], encodeNote(dataStart+int64(synced), header.stamp()))
		b := append(front, fixChecks(bytes.Clone(entries), header.stamp())...)
		h, err := readHeading(name, b[:dataStart], header)
		must(t, err)
		end := int64(dataStart)
		w := walk{window: window{r: bytes.NewReader(b), size: int64(len(b))}, stamp: header.stamp(), synced: h.synced}
		must(t, w.run(func(s *seen) error {
			if s.at != end {
				t.Fatalf("at %d, the last one ended at %d", s.at, end)
			}
			if s.gap < 0 || s.gap == 0 && !s.entry.valid() {
				t.Fatalf("saw %+v", s)
			}
			if end += s.gap; s.gap == 0 {
				end += s.entry.size()
			}
			return nil
		}))
		d := newDisk()
		d.now[testDir] = nil
		d.now[testDir+"/"+name] = &diskFile{now: b}
		o, found, err := Open(testDir, testBinding, testOptions(d))
		if err != nil {
			return
		}
		for _, l := range found.Lanes {
			for _, batch := range l.Batches {
				if _, err := o.Load(nil, batch.ID); err != nil && batch.State == Pending && !batch.Damaged {
					t.Fatalf("load %+v: %v", batch, err)
				}
			}
		}
		o.Close()
	})
}

// fixChecks makes the stamp and the check of entries right that ask for it in a byte which
// is zero in a real one, so that fuzzing gets behind them.
func fixChecks(b []byte, stamp uint64) []byte {
	for at := 0; at+entryBytes <= len(b); at += entryAlign {
		if bytes.Equal(b[at:at+4], entryMagic) && b[at+6] != 0 {
			binary.LittleEndian.PutUint64(b[at+8:], stamp)
			binary.LittleEndian.PutUint32(b[at+92:], checksum(b[at:at+92]))
		}
	}
	return b
}

// FuzzHeading reads any bytes as the fixed part of a segment.
func FuzzHeading(f *testing.F) {
	header := segmentHeader{number: 1, salt: 42, binding: testBinding}
	f.Fuzz(func(t *testing.T, one, two, note []byte) {
		b := make([]byte, dataStart)
		copy(b[firstHeader:firstNote], one)
		copy(b[secondHeader:secondNote], two)
		copy(b[secondNote:], note)
		for _, at := range []int{firstHeader, secondHeader} {
			if b[at+12] == 1 { // it asks for a check that is right
				binary.LittleEndian.PutUint32(b[at+headerBytes-4:], checksum(b[at:at+headerBytes-4]))
			}
		}
		h, err := readHeading("x", b, header)
		if err == nil && (h.synced < 0 || h.header.number >= maxNumber || len(h.header.binding.Topic) > maxName) {
			t.Fatalf("heading is %+v", h)
		}
	})
}
