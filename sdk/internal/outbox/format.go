package outbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"github.com/quoin-io/quoin/batchfmt"
)

// The layout; doc.go draws it.
const (
	formatVersion = 1

	headerBytes  = 1024
	noteBytes    = 20
	firstHeader  = 0
	firstNote    = 1024
	secondHeader = 2048
	secondNote   = 3072
	dataStart    = 4096

	entryBytes = 96
	entryAlign = 8
)

var (
	segmentMagic = []byte("QUOINOBX")
	entryMagic   = []byte("qobe")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// segmentHeader is the header of a segment.
type segmentHeader struct {
	number, salt uint64
	binding      Binding
}

func (h *segmentHeader) encode() []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, segmentMagic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.salt)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.binding.ProducerID))
	b = append(b, h.binding.TopicID[:]...)
	for _, s := range []string{h.binding.Server, h.binding.Topic, h.binding.Producer} {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	b = b[:headerBytes] // zeros: it was made so
	binary.LittleEndian.PutUint32(b[headerBytes-4:], checksum(b[:headerBytes-4]))
	return b
}

// stamp is in every entry. It tells entries of this segment from bytes in a record that
// look like an entry. The producer id is left out, as it may not be known when a segment
// without an intact header is read.
func (h *segmentHeader) stamp() uint64 {
	open := *h
	open.binding.ProducerID = 0
	sum := sha256.Sum256(open.encode()[16 : headerBytes-4])
	return binary.LittleEndian.Uint64(sum[:])
}

// versionOf is the format version that a header claims, intact or not; 0 for no header.
func versionOf(b []byte) uint32 {
	if len(b) < 12 || !bytes.Equal(b[:8], segmentMagic) {
		return 0
	}
	return binary.LittleEndian.Uint32(b[8:])
}

// decodeHeader reads one copy of a segment header; false when it is not intact.
func decodeHeader(b []byte) (h segmentHeader, ok bool) {
	if len(b) < headerBytes || versionOf(b) != formatVersion ||
		binary.LittleEndian.Uint32(b[headerBytes-4:]) != checksum(b[:headerBytes-4]) {
		return h, false
	}
	h.number = binary.LittleEndian.Uint64(b[16:])
	h.salt = binary.LittleEndian.Uint64(b[24:])
	h.binding.ProducerID = batchfmt.ProducerID(binary.LittleEndian.Uint64(b[32:]))
	copy(h.binding.TopicID[:], b[40:56])
	rest := b[56 : headerBytes-4]
	for _, s := range []*string{&h.binding.Server, &h.binding.Topic, &h.binding.Producer} {
		if len(rest) < 2 {
			return h, false
		}
		n := int(binary.LittleEndian.Uint16(rest))
		if n > maxName || len(rest) < 2+n {
			return h, false
		}
		*s, rest = string(rest[2:2+n]), rest[2+n:]
	}
	return h, h.number < maxNumber
}

// encodeNote is the sync note.
func encodeNote(position int64, stamp uint64) []byte {
	b := make([]byte, 0, noteBytes)
	b = binary.LittleEndian.AppendUint64(b, uint64(position))
	b = binary.LittleEndian.AppendUint64(b, stamp)
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

// decodeNote returns the position of a sync note, 0 of one that was never written, and
// false when it is damaged.
func decodeNote(b []byte, stamp uint64) (position int64, ok bool) {
	if len(b) < noteBytes || len(bytes.Trim(b[:noteBytes], "\x00")) == 0 {
		return 0, true
	}
	position = int64(binary.LittleEndian.Uint64(b))
	if binary.LittleEndian.Uint32(b[16:]) != checksum(b[:16]) || binary.LittleEndian.Uint64(b[8:]) != stamp ||
		position < dataStart {
		return 0, false
	}
	return position, true
}

type kind uint8

const (
	kindBatch kind = iota + 1
	kindTrace
	kindStored
	kindUnknown
	kindNotStored
	kindLane
	kindEnd
)

// entry is the header of an entry.
type entry struct {
	kind      kind
	state     State
	length    int // of the body
	partition int32
	id        ID
	place     ID
	replaced  ID
	base      batchfmt.Seq
	last      batchfmt.Seq
	epoch     batchfmt.Epoch
	bodyCheck uint32
	digest    batchfmt.Digest
	offset    batchfmt.Offset
}

// size is what the entry takes in the file.
func (e *entry) size() int64 { return entrySize(e.length) }

func entrySize(body int) int64 { return entryBytes + int64(padded(body)) }

func padded(n int) int { return (n + entryAlign - 1) &^ (entryAlign - 1) }

// append encodes the header.
func (e *entry) append(b []byte, stamp uint64) []byte {
	start := len(b)
	b = append(b, entryMagic...)
	b = append(b, byte(e.kind), byte(e.state), 0, 0)
	b = binary.LittleEndian.AppendUint64(b, stamp)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.length))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.partition))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.id))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.place))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.replaced))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.base))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.last))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.epoch))
	b = binary.LittleEndian.AppendUint32(b, e.bodyCheck)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.digest))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.offset))
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, checksum(b[start:]))
}

// decodeEntry reads the header of an entry; false when it is not intact.
func decodeEntry(b []byte, stamp uint64) (e entry, ok bool) {
	if len(b) < entryBytes || !bytes.Equal(b[:4], entryMagic) || binary.LittleEndian.Uint64(b[8:]) != stamp ||
		binary.LittleEndian.Uint32(b[92:]) != checksum(b[:92]) {
		return e, false
	}
	e = entry{
		kind: kind(b[4]), state: State(b[5]),
		partition: int32(binary.LittleEndian.Uint32(b[20:])),
		id:        ID(binary.LittleEndian.Uint64(b[24:])),
		place:     ID(binary.LittleEndian.Uint64(b[32:])),
		replaced:  ID(binary.LittleEndian.Uint64(b[40:])),
		base:      batchfmt.Seq(binary.LittleEndian.Uint64(b[48:])),
		last:      batchfmt.Seq(binary.LittleEndian.Uint64(b[56:])),
		epoch:     batchfmt.Epoch(binary.LittleEndian.Uint32(b[64:])),
		bodyCheck: binary.LittleEndian.Uint32(b[68:]),
		digest:    batchfmt.Digest(binary.LittleEndian.Uint64(b[72:])),
		offset:    batchfmt.Offset(binary.LittleEndian.Uint64(b[80:])),
	}
	length := binary.LittleEndian.Uint32(b[16:])
	if length > batchfmt.MaxBatchBytes {
		return e, false
	}
	e.length = int(length)
	return e, e.valid()
}

// valid reports whether the fields can be together.
func (e *entry) valid() bool {
	if e.partition < 0 || e.kind == 0 || e.kind >= kindEnd || (e.kind == kindBatch) != (e.length > 0) ||
		(e.kind == kindTrace) != (e.state != 0) || e.state > Unknown {
		return false
	}
	if e.kind == kindLane {
		return e.base >= -1 && e.last >= -1
	}
	return e.id != 0 && e.base >= 0 && e.last >= e.base
}
