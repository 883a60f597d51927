package batchfmt

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// AppendVersion1 appends b as a version-1 batch, for readers that know no other. What
// the server stamped, the timestamps and the bytes of the records stay; the producer's
// identity and the extensions go, so the batch has another digest and its checksum is
// ours and no longer the producer's: verify b first. There is no way back.
//
// b may lie in the memory behind dst, so that a batch is converted in its place: what is
// appended is not larger, and nothing of b is written over before it is read.
//
// A batch of version 1 is appended as it is. A control batch is refused with a
// *FormatError: no reader is ever given one.
func AppendVersion1(dst []byte, b Batch) ([]byte, error) {
	if b.IsControl() {
		return dst, fieldError("attributes", offAttributes, "a control batch has no version 1")
	}
	if b.Version() == Version1 {
		return append(dst, b.b...), nil
	}
	records, stamped := b.RecordSection(), b.Stamped()
	start, size := len(dst), HeaderSize1+len(records)
	dst = slices.Grow(dst, size)
	dst = append(dst, b.b[:HeaderSize1]...)
	dst = append(dst, records...)
	out := Batch{dst[start:]}
	out.b[offVersion] = byte(Version1)
	binary.LittleEndian.PutUint32(out.b[offSize:], uint32(size))
	binary.LittleEndian.PutUint16(out.b[offHeaderLength:], HeaderSize1)
	binary.LittleEndian.PutUint64(out.b[offChecksum:], xxhash.Sum64(out.b[offAttributes:]))
	if stamped {
		binary.LittleEndian.PutUint32(out.b[offFrontCheck:], frontCheck(out.b))
	}
	return dst, nil
}
