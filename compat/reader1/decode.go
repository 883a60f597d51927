package reader1

import (
	"encoding/binary"
	"iter"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Where the fields of a header stand.
const (
	offVersion       = 3
	offSize          = 4
	offBaseOffset    = 8
	offAppendTime    = 16
	offFrontCheck    = 28
	offDurable       = 32
	offChecksum      = 40
	offAttributes    = 48
	offHeaderLength  = 50
	offRecordCount   = 52
	offBaseTimestamp = 56
	offRecordsLength = 72
	offReserved      = 76

	frontSize  = 48 // the part that every version shares
	headerSize = 80
)

// Limits, each looked at before memory is taken.
const (
	maxBatch         = 16 << 20 // bytes, header included
	maxRecordsLength = 64 << 20 // bytes
	maxRecords       = 1_000_000
	maxHeaders       = 1024 // of a record
	minRecord        = 7    // bytes
	minHeader        = 2    // bytes, of an entry of a record's header list
)

const (
	attrCodec      = 0x7
	attrAppendTime = 1 << 3
	attrKnown      = attrCodec | attrAppendTime
)

const magic = "QBF"

// A Record is one message. Key and Value are null when nil, which differs from empty.
type Record struct {
	Offset    int64
	Timestamp int64 // Unix milliseconds
	Key       []byte
	Value     []byte
	Headers   []Header // in order; keys may repeat
}

// A Header is one entry of a record's list. A Value that is nil is null.
type Header struct{ Key, Value []byte }

// guards are the checks that keep other bytes from being taken for records. [Decode] has all
// of them. Tests take some away to show what each is for.
type guards struct {
	version bool // the batch says that it has version 1
	// The header ends where this reader thinks that it does: header length says so, and so
	// does an uncompressed section by its length.
	headerLength bool
	checks       bool // front check and checksum agree with the bytes
}

var allGuards = guards{version: true, headerLength: true, checks: true}

// Decode reads the batch at the start of b, of which n bytes belong to it. With an error, a
// *UnsupportedVersionError, *ShortError or *CorruptError, there is no record and n is 0.
func Decode(b []byte) (records []Record, n int, err error) { return decode(b, allGuards) }

// All reads batches that stand one behind the other, up to the end of b or the first error,
// which comes without a record.
func All(b []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for len(b) > 0 {
			records, n, err := Decode(b)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
			b = b[n:]
		}
	}
}

func decode(b []byte, with guards) ([]Record, int, error) {
	size, err := checkFront(b, with)
	if err != nil {
		return nil, 0, err
	}
	b = b[:size:size]
	if err := checkHeader(b, with); err != nil {
		return nil, 0, err
	}
	if with.checks {
		if err := checkSums(b); err != nil {
			return nil, 0, err
		}
	}
	section, err := decompress(b)
	if err != nil {
		return nil, 0, err
	}
	records, err := readRecords(b, section)
	if err != nil {
		return nil, 0, err
	}
	return records, size, nil
}

// checkFront looks at magic, version and size as soon as their bytes are there, in this
// order: the fields behind the version mean what its version says.
func checkFront(b []byte, with guards) (size int, err error) {
	for i := range min(len(b), len(magic)) {
		if b[i] != magic[i] {
			return 0, corrupt("magic", i, "this is no batch")
		}
	}
	if len(b) <= offVersion {
		return 0, &ShortError{Need: frontSize - len(b)}
	}
	if v := b[offVersion]; v != 1 && with.version {
		return 0, &UnsupportedVersionError{Version: v, Size: certainSize(b)}
	}
	if len(b) < offSize+4 {
		return 0, &ShortError{Need: frontSize - len(b)}
	}
	claim := binary.LittleEndian.Uint32(b[offSize:])
	switch {
	case claim < headerSize:
		return 0, corrupt("size", offSize, "%d is less than the header, %d", claim, headerSize)
	case claim > maxBatch:
		return 0, corrupt("size", offSize, "%d is over the limit, %d", claim, maxBatch)
	case int(claim) > len(b):
		return 0, &ShortError{Need: int(claim) - len(b)}
	}
	return int(claim), nil
}

// certainSize is the size of a batch of any version, or 0 if its front does not verify.
func certainSize(b []byte) int {
	if len(b) < frontSize || frontCheck(b) != binary.LittleEndian.Uint32(b[offFrontCheck:]) {
		return 0
	}
	size := binary.LittleEndian.Uint32(b[offSize:])
	if size < frontSize || size > maxBatch {
		return 0
	}
	return int(size)
}

// checkHeader holds every field of a whole batch to the layout and the limits.
func checkHeader(b []byte, with guards) error {
	attributes := binary.LittleEndian.Uint16(b[offAttributes:])
	length := binary.LittleEndian.Uint32(b[offRecordsLength:])
	count := binary.LittleEndian.Uint32(b[offRecordCount:])
	base := int64(binary.LittleEndian.Uint64(b[offBaseOffset:]))
	switch {
	case attributes&^attrKnown != 0:
		return corrupt("attributes", offAttributes, "%#04x has unknown bits", attributes)
	case binary.LittleEndian.Uint32(b[offReserved:]) != 0:
		return corrupt("reserved", offReserved, "is not zero")
	case base < 0 || base > math.MaxInt64-maxRecords:
		return corrupt("base offset", offBaseOffset, "%d is out of range", base)
	case int64(binary.LittleEndian.Uint64(b[offDurable:])) < 0:
		return corrupt("durable offset", offDurable, "is negative")
	case length > maxRecordsLength:
		return corrupt("records length", offRecordsLength, "%d is over the limit, %d", length, maxRecordsLength)
	case count == 0 || count > maxRecords:
		return corrupt("record count", offRecordCount, "%d is out of range", count)
	case int64(count)*minRecord > int64(length):
		return corrupt("record count", offRecordCount, "%d records do not fit into %d bytes", count, length)
	}
	if with.headerLength {
		return checkHeaderLength(b, attributes&attrCodec, length)
	}
	return nil
}

func checkHeaderLength(b []byte, codec uint16, length uint32) error {
	if have := binary.LittleEndian.Uint16(b[offHeaderLength:]); have != headerSize {
		return corrupt("header length", offHeaderLength, "is %d, must be %d", have, headerSize)
	}
	if have := len(b) - headerSize; codec == codecNone && have != int(length) {
		return corrupt("records length", offRecordsLength, "is %d, behind the header are %d bytes", length, have)
	}
	return nil
}

func checkSums(b []byte) error {
	if have, want := binary.LittleEndian.Uint32(b[offFrontCheck:]), frontCheck(b); have != want {
		return corrupt("front check", offFrontCheck, "is %08x, the front has %08x", have, want)
	}
	if have, want := binary.LittleEndian.Uint64(b[offChecksum:]), xxhash.Sum64(b[offAttributes:]); have != want {
		return corrupt("checksum", offChecksum, "is %016x, the body has %016x", have, want)
	}
	return nil
}

// frontCheck is what the front check of a batch must be; b has the front at least.
func frontCheck(b []byte) uint32 {
	var d [frontSize - 4]byte
	copy(d[copy(d[:], b[:offFrontCheck]):], b[offDurable:frontSize])
	return uint32(xxhash.Sum64(d[:]))
}
