package batchfmt

import (
	"encoding/binary"
	"math"
)

// Parse reads the batch at the start of b and checks every header field against the
// layout and the limits. It reads nothing behind the batch's size, allocates nothing
// when it succeeds, and does not check the checksums: see [Batch.Verify] and
// [Batch.VerifyFront]. The error is a *FormatError; on a prefix of a batch it says how
// many bytes lack.
func Parse(b []byte) (Batch, error) {
	front, err := ParseFront(b)
	if err != nil {
		return Batch{}, err
	}
	header := HeaderSize1
	switch front.Version {
	case Version1:
	case Version2:
		header = HeaderSize2
	default:
		err := fieldError("version", offVersion, "%d is not known, only 1 and 2", front.Version).(*FormatError)
		err.Version, err.Newer = front.Version, true
		return Batch{}, err
	}
	if front.Size < header {
		return Batch{}, fieldError("size", offSize, "%d is less than the header, %d", front.Size, header)
	}
	if len(b) < front.Size {
		return Batch{}, short(b, front.Size)
	}
	batch := Batch{b[:front.Size:front.Size]}
	if err := batch.check(header); err != nil {
		return Batch{}, err
	}
	return batch, nil
}

// check looks at every field behind the front.
func (b Batch) check(header int) error {
	if err := b.checkHeader(header); err != nil {
		return err
	}
	if b.Version() == Version2 {
		if err := b.checkProducer(); err != nil {
			return err
		}
		if err := b.checkExtensions(); err != nil {
			return err
		}
	}
	if b.IsControl() {
		return b.checkControl()
	}
	return b.checkRecordCounts()
}

func (b Batch) checkHeader(header int) error {
	attrs := b.Attributes()
	switch {
	case attrs&^attrKnown != 0:
		return newerError("attributes", offAttributes, "%#04x has unknown bits", uint16(attrs))
	case !attrs.Codec().Valid():
		return newerError("attributes", offAttributes, "codec %d is not known", attrs.Codec())
	case b.u32(offReserved) != 0:
		return newerError("reserved", offReserved, "is not zero")
	case b.BaseOffset() < 0 || b.BaseOffset() > math.MaxInt64-MaxRecordCount:
		return fieldError("base offset", offBaseOffset, "%d is out of range", b.BaseOffset())
	case b.Durable() < 0:
		return fieldError("durable offset", offDurable, "%d is negative", b.Durable())
	case b.u32(offRecordsLength) > MaxRecordsBytes:
		return fieldError("records length", offRecordsLength, "%d is over the limit, %d", b.u32(offRecordsLength), MaxRecordsBytes)
	}
	if b.Version() == Version2 {
		ext := b.u32(offExtLength)
		if ext > MaxExtensionBytes || ext%8 != 0 {
			return fieldError("extension length", offExtLength, "%d is over %d or not a multiple of 8", ext, MaxExtensionBytes)
		}
		header += int(ext)
	}
	if b.HeaderSize() != header {
		return fieldError("header length", offHeaderLength, "is %d, must be %d", b.HeaderSize(), header)
	}
	if header > b.Size() {
		return fieldError("header length", offHeaderLength, "%d is over the size, %d", header, b.Size())
	}
	return nil
}

func (b Batch) checkProducer() error {
	base := int64(binary.LittleEndian.Uint64(b.b[offBaseSequence:]))
	switch {
	case b.ProducerID() == NoProducer:
		return fieldError("producer id", offProducerID, "is 0")
	case base < 0 || base > math.MaxInt64-MaxRecordCount:
		return fieldError("base sequence", offBaseSequence, "%d is out of range", base)
	}
	return nil
}

func (b Batch) checkRecordCounts() error {
	count, section, length := b.u32(offRecordCount), len(b.RecordSection()), b.RecordsLength()
	switch {
	case count == 0:
		return fieldError("record count", offRecordCount, "is 0")
	case count > MaxRecordCount:
		return fieldError("record count", offRecordCount, "%d is over the limit, %d", count, MaxRecordCount)
	case int64(count)*minRecordBytes > int64(length):
		return fieldError("record count", offRecordCount, "%d records do not fit into %d bytes", count, length)
	case b.Codec() == CodecNone && section != length:
		return fieldError("records length", offRecordsLength, "is %d, the section has %d bytes", length, section)
	case section == 0:
		return fieldError("size", offSize, "no byte is left for records")
	}
	return nil
}
