package batchfmt

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Seal says what a batch is sealed with, besides its records.
type Seal struct {
	// Version is Version1 or Version2. Zero means Version2 if there is a producer id and
	// Version1 if there is none.
	Version Version
	// Codec compresses the records; the zero value leaves them as they are.
	Codec Codec
	// ProducerID, Epoch and BaseSequence identify the batch, in Version2 only.
	ProducerID   ProducerID
	Epoch        Epoch
	BaseSequence Seq
	// Position is stored with the batch for the application, at most MaxPositionBytes,
	// in Version2 only. Nil means none; empty is a position.
	Position []byte
	// Extensions are further ones, in any order, in Version2 only. Each type may be
	// there once; a critical type that this package does not know is refused, since no
	// reader would take the batch.
	Extensions []Extension
	// AppendTime makes the time of the append the timestamp of every record. The
	// records keep the timestamps that they were given, but readers do not see them.
	AppendTime bool
}

// version is Version, or what its zero value stands for.
func (s *Seal) version() Version {
	switch {
	case s.Version != 0:
		return s.Version
	case s.ProducerID != NoProducer:
		return Version2
	}
	return Version1
}

// extensions gives all extensions by ascending type, in dst, and checks s on the way.
func (s *Seal) extensions(dst []Extension) ([]Extension, error) {
	switch s.version() {
	case Version1:
		if s.ProducerID != NoProducer || s.Epoch != 0 || s.BaseSequence != 0 || s.Position != nil || len(s.Extensions) > 0 {
			return nil, fieldError("version", offVersion, "1 carries no producer, sequence, position or extension")
		}
		return dst, nil
	case Version2:
	default:
		return nil, fieldError("version", offVersion, "%d is not known, only 1 and 2", s.Version)
	}
	if len(s.Extensions) > MaxExtensionBytes/extHeaderBytes {
		return nil, fieldError("extension length", offExtLength, "%d extensions are too many", len(s.Extensions))
	}
	dst = append(dst, s.Extensions...)
	if s.Position != nil {
		dst = append(dst, Extension{Type: ExtPosition, Data: s.Position})
	}
	slices.SortStableFunc(dst, func(a, b Extension) int { return int(a.Type) - int(b.Type) })
	total := 0
	for i := range dst {
		if len(dst[i].Data) > MaxExtensionBytes || total > MaxExtensionBytes {
			total = MaxExtensionBytes + 1
			break
		}
		total += extensionBytes(len(dst[i].Data))
	}
	if total > MaxExtensionBytes {
		return nil, fieldError("extension length", offExtLength, "is over the limit, %d", MaxExtensionBytes)
	}
	return dst, nil
}

// appendHeader appends a header in which the fields that finish writes are zero, and
// makes room for more bytes.
func (s *Seal) appendHeader(dst []byte, exts []Extension, more int) []byte {
	header, extLen := HeaderSize1, 0
	if s.version() == Version2 {
		for i := range exts {
			extLen += extensionBytes(len(exts[i].Data))
		}
		header = HeaderSize2 + extLen
	}
	start := len(dst)
	dst = slices.Grow(dst, header+more)
	dst = dst[:start+header]
	h := dst[start:]
	clear(h)
	copy(h[offMagic:], magic[:])
	h[offVersion] = byte(s.version())
	attrs := Attributes(s.Codec) & attrCodecMask
	if s.AppendTime {
		attrs |= AttrAppendTime
	}
	binary.LittleEndian.PutUint16(h[offAttributes:], uint16(attrs))
	binary.LittleEndian.PutUint16(h[offHeaderLength:], uint16(header))
	if s.version() == Version2 {
		binary.LittleEndian.PutUint64(h[offProducerID:], uint64(s.ProducerID))
		binary.LittleEndian.PutUint64(h[offBaseSequence:], uint64(s.BaseSequence))
		binary.LittleEndian.PutUint32(h[offEpoch:], uint32(s.Epoch))
		binary.LittleEndian.PutUint32(h[offExtLength:], uint32(extLen))
		appendExtensions(h[:HeaderSize2], exts)
	}
	return dst
}

// A Section is a record section that was encoded elsewhere, with what its header must
// say about it.
type Section struct {
	Count         int
	BaseTimestamp int64 // Unix milliseconds, of the first record
	MaxTimestamp  int64 // Unix milliseconds, the largest
	Length        int   // bytes after decompression
	Bytes         []byte
}

// SealSection appends a batch around a section whose bytes are taken over as they are;
// s.Codec says how they are compressed. It checks the header, not the records: see
// [CheckRecords]. On an error, always a *FormatError, dst is returned as it came.
func SealSection(dst []byte, s Seal, sec Section) ([]byte, error) {
	exts, err := s.extensions(nil)
	if err != nil {
		return dst, err
	}
	switch {
	case sec.Count < 0 || sec.Count > MaxRecordCount:
		return dst, fieldError("record count", offRecordCount, "%d is out of range", sec.Count)
	case sec.Length < 0 || sec.Length > MaxRecordsBytes:
		return dst, fieldError("records length", offRecordsLength, "%d is out of range", sec.Length)
	case len(sec.Bytes) > MaxBatchBytes:
		return dst, fieldError("size", offSize, "is over the limit, %d", MaxBatchBytes)
	}
	start := len(dst)
	out := s.appendHeader(dst, exts, len(sec.Bytes))
	out = append(out, sec.Bytes...)
	if err := finish(out[start:], sec); err != nil {
		return dst, err
	}
	return out, nil
}

// finish writes what is known only when all bytes of the batch are there, and parses
// the result: whoever seals is held to the same rules as whoever reads.
func finish(b []byte, sec Section) error {
	if len(b) > MaxBatchBytes {
		return fieldError("size", offSize, "%d is over the limit, %d", len(b), MaxBatchBytes)
	}
	binary.LittleEndian.PutUint32(b[offSize:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[offRecordCount:], uint32(sec.Count))
	binary.LittleEndian.PutUint64(b[offBaseTimestamp:], uint64(sec.BaseTimestamp))
	binary.LittleEndian.PutUint64(b[offMaxTimestamp:], uint64(sec.MaxTimestamp))
	binary.LittleEndian.PutUint32(b[offRecordsLength:], uint32(sec.Length))
	binary.LittleEndian.PutUint64(b[offChecksum:], xxhash.Sum64(b[offAttributes:]))
	_, err := Parse(b)
	return err
}
