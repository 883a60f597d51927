package ceiling

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	recordBytes   = 1 << 10
	recordsMax    = 64 // a frame
	headerBytes   = 24
	frameBytesMax = headerBytes + recordsMax*recordBytes
)

// header stands in front of the records of a frame.
//
//	 0  4  records  1..64
//	 4  4  zero
//	 8  8  number   of the frame: 1, 2, 3 ...
//	16  8  xxhash64 of the records
type header struct {
	records int
	number  uint64
	hash    uint64
}

func (h header) put(b []byte) {
	binary.LittleEndian.PutUint64(b[0:], uint64(h.records))
	binary.LittleEndian.PutUint64(b[8:], h.number)
	binary.LittleEndian.PutUint64(b[16:], h.hash)
}

// parseHeader checks the size before anybody makes room for the records.
func parseHeader(b []byte) (header, error) {
	records := binary.LittleEndian.Uint64(b[0:])
	if records == 0 || records > recordsMax {
		return header{}, fmt.Errorf("frame of %d records, allowed are 1 to %d", records, recordsMax)
	}
	return header{
		records: int(records),
		number:  binary.LittleEndian.Uint64(b[8:]),
		hash:    binary.LittleEndian.Uint64(b[16:]),
	}, nil
}

// check wants the frame that follows frame number last, with records as they were sent.
func (h header) check(last uint64, records []byte) error {
	if h.number != last+1 {
		return fmt.Errorf("frame %d after frame %d", h.number, last)
	}
	if xxhash.Sum64(records) != h.hash {
		return fmt.Errorf("frame %d: hash differs", h.number)
	}
	return nil
}

// frame is a buffer that is filled, sent and used again once it was acknowledged.
type frame struct {
	buf      []byte // header and records
	number   uint64
	sent     time.Time
	intended []time.Time // of its records, in paced rounds
}

func newFrame() *frame {
	return &frame{
		buf:      make([]byte, headerBytes, frameBytesMax),
		intended: make([]time.Time, 0, recordsMax),
	}
}

func (f *frame) reset() {
	f.buf = f.buf[:headerBytes]
	f.intended = f.intended[:0]
}

func (f *frame) records() int { return (len(f.buf) - headerBytes) / recordBytes }

// add appends a record; at most recordsMax fit.
func (f *frame) add(index uint64) { f.buf = appendRecord(f.buf, index) }

func (f *frame) seal(number uint64) {
	f.number = number
	header{f.records(), number, xxhash.Sum64(f.buf[headerBytes:])}.put(f.buf)
}

// filler is what records consist of, besides their index.
var filler = func() (b [recordBytes]byte) {
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}()

// appendRecord appends record index: eight bytes of index, then filler.
func appendRecord(b []byte, index uint64) []byte {
	n := len(b)
	b = append(b, filler[:]...)
	binary.LittleEndian.PutUint64(b[n:], index)
	return b
}
