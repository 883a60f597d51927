package batchfmt

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// The layout. All integers are little-endian; ranges are half open.
//
//	  0   3  magic            "QBF"
//	  3   1  version          1 or 2
//	  4   4  size             bytes of the whole batch, header included
//	  8   8  base offset      server
//	 16   8  append time      server; Unix milliseconds, never going back in a partition
//	 24   4  owner term       server
//	 28   4  front check      server; low half of XXH64 over [0,28) and [32,48)
//	 32   8  durable offset   server; the log end known to be synced at append
//	 40   8  checksum         XXH64 over [48,size); set by the producer; the digest
//	 48   2  attributes
//	 50   2  header length    bytes from 0 to the first record
//	 52   4  record count
//	 56   8  base timestamp   Unix milliseconds of the first record
//	 64   8  max timestamp
//	 72   4  records length   bytes of the record section after decompression
//	 76   4  reserved         zero
//	 80      records, in version 1; version 2 goes on
//	 80   8  producer id
//	 88   8  base sequence
//	 96   4  producer epoch
//	100   4  extension length a multiple of 8
//	104   .  extensions       type u16, length u16, bytes, zeros up to a multiple of 8
//	  .   .  records
//
// "server" fields are zero when a producer seals a batch. [0,48) has the same meaning
// in every version, so a reader can step over a version that it does not know.
const (
	offMagic         = 0
	offVersion       = 3
	offSize          = 4
	offBaseOffset    = 8
	offAppendTime    = 16
	offTerm          = 24
	offFrontCheck    = 28
	offDurable       = 32
	offChecksum      = 40
	offAttributes    = 48
	offHeaderLength  = 50
	offRecordCount   = 52
	offBaseTimestamp = 56
	offMaxTimestamp  = 64
	offRecordsLength = 72
	offReserved      = 76
	offProducerID    = 80
	offBaseSequence  = 88
	offEpoch         = 96
	offExtLength     = 100

	// FrontSize is the part that every version shares.
	FrontSize = 48
	// HeaderSize1 is the header of a version-1 batch.
	HeaderSize1 = 80
	// HeaderSize2 is the header of a version-2 batch without extensions.
	HeaderSize2 = 104
)

var magic = [3]byte{'Q', 'B', 'F'}

// Front is the part of a batch that every version shares: enough to step over it.
type Front struct {
	Version    Version
	Size       int // bytes of the whole batch
	BaseOffset Offset
	AppendTime int64 // Unix milliseconds
	Term       Term
	Durable    Offset
	Digest     Digest
}

// ParseFront reads the common front of a batch of any version. It needs the first
// FrontSize bytes and does not check the body behind them.
func ParseFront(b []byte) (Front, error) {
	if err := checkFrontBytes(b); err != nil {
		return Front{}, err
	}
	return Front{
		Version:    Version(b[offVersion]),
		Size:       int(binary.LittleEndian.Uint32(b[offSize:])),
		BaseOffset: Offset(binary.LittleEndian.Uint64(b[offBaseOffset:])),
		AppendTime: int64(binary.LittleEndian.Uint64(b[offAppendTime:])),
		Term:       Term(binary.LittleEndian.Uint32(b[offTerm:])),
		Durable:    Offset(binary.LittleEndian.Uint64(b[offDurable:])),
		Digest:     Digest(binary.LittleEndian.Uint64(b[offChecksum:])),
	}, nil
}

// NewerVersion reports which version the batch has that b begins with, if it is one that this
// package does not know: the front, which is the same in every version, is whole and verifies,
// so that damaged bytes are not taken for the future. It looks at the first FrontSize bytes.
func NewerVersion(b []byte) (Version, bool) {
	if len(b) < FrontSize || checkFrontBytes(b) != nil {
		return 0, false
	}
	v := Version(b[offVersion])
	return v, v > Version2 && binary.LittleEndian.Uint32(b[offFrontCheck:]) == frontCheck(b)
}

// NewerContent reports why the batch that b holds, whole and with both checks in agreement, cannot
// be read although nothing of it is damaged: it has something of a later release that must be
// known. It is nil for all other bytes.
func NewerContent(b []byte) *FormatError {
	front, err := ParseFront(b)
	if err != nil || len(b) < front.Size {
		return nil
	}
	whole := Batch{b[:front.Size:front.Size]}
	if whole.Size() < HeaderSize1 || whole.VerifyFront() != nil || whole.Verify() != nil {
		return nil
	}
	_, err = Parse(whole.b)
	if f, ok := err.(*FormatError); ok && f.Newer {
		return f
	}
	return nil
}

// checkFrontBytes looks at magic, version and size as soon as their bytes are there, so
// that garbage is called garbage and not "too short".
func checkFrontBytes(b []byte) error {
	for i := 0; i < len(magic) && i < len(b); i++ {
		if b[i] != magic[i] {
			return &FormatError{Field: "magic", Offset: i, Reason: "not a batch"}
		}
	}
	if len(b) > offVersion && b[offVersion] == 0 {
		return &FormatError{Field: "version", Offset: offVersion, Reason: "is 0"}
	}
	if len(b) < offSize+4 {
		return short(b, FrontSize)
	}
	size := binary.LittleEndian.Uint32(b[offSize:])
	switch {
	case size < FrontSize:
		return fieldError("size", offSize, "%d is less than the front, %d", size, FrontSize)
	case size > MaxBatchBytes:
		return fieldError("size", offSize, "%d is over the limit, %d", size, MaxBatchBytes)
	case len(b) < FrontSize:
		return short(b, FrontSize)
	}
	return nil
}

// Batch is a parsed batch. It aliases the bytes that it was parsed from, which must not
// change while it is used (but for [Stamp], which the owner of the bytes may write).
// The zero Batch holds nothing and its methods must not be called.
type Batch struct{ b []byte }

// Bytes are the bytes of the batch, exactly Size of them.
func (b Batch) Bytes() []byte { return b.b }

// Version is Version1 or Version2: Parse accepts no other.
func (b Batch) Version() Version { return Version(b.b[offVersion]) }

// Size is the length of the batch in bytes, header included.
func (b Batch) Size() int { return len(b.b) }

// BaseOffset is the offset of the first record; 0 before the server stamped it.
func (b Batch) BaseOffset() Offset { return Offset(b.u64(offBaseOffset)) }

// AppendTime is when the server appended the batch, Unix milliseconds.
func (b Batch) AppendTime() int64 { return int64(b.u64(offAppendTime)) }

// Term is the term of the partition owner that appended the batch.
func (b Batch) Term() Term { return Term(b.u32(offTerm)) }

// Durable is the log end that was known to be synced when the batch was appended.
func (b Batch) Durable() Offset { return Offset(b.u64(offDurable)) }

// Digest is the producer's checksum.
func (b Batch) Digest() Digest { return Digest(b.u64(offChecksum)) }

// Attributes are the flags of the batch.
func (b Batch) Attributes() Attributes { return Attributes(b.u16(offAttributes)) }

// Codec is the compression of the record section.
func (b Batch) Codec() Codec { return b.Attributes().Codec() }

// IsControl reports whether the server wrote the batch for itself: it holds no records,
// uses no offset and is never given to a reader.
func (b Batch) IsControl() bool { return b.Attributes()&AttrControl != 0 }

// HeaderSize is the number of bytes before the record section.
func (b Batch) HeaderSize() int { return int(b.u16(offHeaderLength)) }

// RecordCount is the number of records; it is 0 in a control batch only.
func (b Batch) RecordCount() int { return int(b.u32(offRecordCount)) }

// BaseTimestamp is the timestamp of the first record, Unix milliseconds.
func (b Batch) BaseTimestamp() int64 { return int64(b.u64(offBaseTimestamp)) }

// MaxTimestamp is the largest timestamp of the records, Unix milliseconds.
func (b Batch) MaxTimestamp() int64 { return int64(b.u64(offMaxTimestamp)) }

// RecordsLength is the size of the record section after decompression, in bytes.
func (b Batch) RecordsLength() int { return int(b.u32(offRecordsLength)) }

// NextOffset is the offset behind the last record.
func (b Batch) NextOffset() Offset { return b.BaseOffset() + Offset(b.RecordCount()) }

// ProducerID is NoProducer in version 1.
func (b Batch) ProducerID() ProducerID {
	if b.Version() < Version2 {
		return NoProducer
	}
	return ProducerID(b.u64(offProducerID))
}

// BaseSequence is the sequence of the first record; 0 in version 1.
func (b Batch) BaseSequence() Seq {
	if b.Version() < Version2 {
		return 0
	}
	return Seq(b.u64(offBaseSequence))
}

// LastSequence is the sequence of the last record; it means nothing in version 1 and in
// a control batch.
func (b Batch) LastSequence() Seq { return b.BaseSequence() + Seq(b.RecordCount()) - 1 }

// Epoch is the producer epoch under which the batch was sealed; 0 in version 1.
func (b Batch) Epoch() Epoch {
	if b.Version() < Version2 {
		return 0
	}
	return Epoch(b.u32(offEpoch))
}

// RecordSection is the record section as stored, compressed if Codec says so.
func (b Batch) RecordSection() []byte { return b.b[b.HeaderSize():] }

// extensionBytes are the extensions with their padding; empty in version 1.
func (b Batch) extensionBytes() []byte {
	if b.Version() < Version2 {
		return nil
	}
	return b.b[HeaderSize2:b.HeaderSize()]
}

func (b Batch) u16(off int) uint16 { return binary.LittleEndian.Uint16(b.b[off:]) }
func (b Batch) u32(off int) uint32 { return binary.LittleEndian.Uint32(b.b[off:]) }
func (b Batch) u64(off int) uint64 { return binary.LittleEndian.Uint64(b.b[off:]) }

// Verify checks the producer's checksum over everything that the producer chose.
func (b Batch) Verify() error {
	if got := xxhash.Sum64(b.b[offAttributes:]); got != uint64(b.Digest()) {
		return fieldError("checksum", offChecksum, "is %016x, the body has %016x", uint64(b.Digest()), got)
	}
	return nil
}

// VerifyFront checks what the server wrote, and that front and body belong together.
func (b Batch) VerifyFront() error {
	have, got := b.u32(offFrontCheck), frontCheck(b.b)
	if have != got {
		return fieldError("front check", offFrontCheck, "is %08x, the front has %08x", have, got)
	}
	return nil
}

// Stamped reports whether a server wrote anything into the batch. A producer must leave
// its fields zero.
func (b Batch) Stamped() bool {
	const first, end = offBaseOffset, offChecksum
	var bits uint64
	for off := first; off < end; off += 8 {
		bits |= b.u64(off)
	}
	return bits != 0
}

// Stamp is what the server writes into a batch at append.
type Stamp struct {
	BaseOffset Offset
	AppendTime int64 // Unix milliseconds
	Term       Term
	Durable    Offset
}

// Stamp writes s and the front check into the bytes of the batch. The producer's
// checksum does not cover them, so the digest stays.
func (b Batch) Stamp(s Stamp) {
	binary.LittleEndian.PutUint64(b.b[offBaseOffset:], uint64(s.BaseOffset))
	binary.LittleEndian.PutUint64(b.b[offAppendTime:], uint64(s.AppendTime))
	binary.LittleEndian.PutUint32(b.b[offTerm:], uint32(s.Term))
	binary.LittleEndian.PutUint64(b.b[offDurable:], uint64(s.Durable))
	binary.LittleEndian.PutUint32(b.b[offFrontCheck:], frontCheck(b.b))
}

// frontCheck is the low half of XXH64 over [0,28) and [32,48). Both ranges are joined
// in a buffer on the stack: it is faster than a streaming digest and allocates nothing.
func frontCheck(b []byte) uint32 {
	var buf [44]byte
	copy(buf[:28], b[:28])
	copy(buf[28:], b[32:48])
	return uint32(xxhash.Sum64(buf[:]))
}
