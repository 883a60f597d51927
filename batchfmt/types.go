package batchfmt

import "strconv"

// Numbers that must not mix have types of their own.
type (
	// Offset is the place of a record in its partition, counted in records from 0.
	Offset int64
	// Seq is the number of a record within a lane, counted in records from 0. It never wraps.
	Seq int64
	// ProducerID names a producer. NoProducer means that there is none.
	ProducerID uint64
	// Epoch counts the incarnations of one producer id.
	Epoch uint32
	// Term counts the owners that a partition has had.
	Term uint32
	// Digest is the XXH64 that the producer set over its part of the batch. Together
	// with (producer id, epoch, base sequence) it tells a retry from a conflict.
	Digest uint64
)

// NoProducer is the producer id of a batch that carries none.
const NoProducer ProducerID = 0

// Version is the batch version, the fourth byte of every batch.
type Version uint8

const (
	Version1 Version = 1 // plain
	Version2 Version = 2 // producer-aware
)

// Codec is how the record section is compressed. The numbers are those of Kafka.
type Codec uint8

const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	// 3 is lz4 at Kafka; a Quoin batch never holds it.
	CodecZstd Codec = 4
)

func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecGzip:
		return "gzip"
	case CodecSnappy:
		return "snappy"
	case CodecZstd:
		return "zstd"
	}
	return "codec(" + strconv.Itoa(int(c)) + ")"
}

// Valid reports whether a batch may carry c.
func (c Codec) Valid() bool {
	return c == CodecNone || c == CodecGzip || c == CodecSnappy || c == CodecZstd
}

// Attributes are the flags of a batch. Bits that have no name must be zero.
type Attributes uint16

const (
	attrCodecMask  Attributes = 0x7
	AttrAppendTime Attributes = 1 << 3 // record timestamps are the server's, not the producer's
	AttrControl    Attributes = 1 << 4 // written by the server, holds no records, uses no offset
	attrKnown                 = attrCodecMask | AttrAppendTime | AttrControl
)

// Codec is the compression that the attributes name; it may be one that is not [Codec.Valid].
func (a Attributes) Codec() Codec { return Codec(a & attrCodecMask) }

// Limits. Each is checked before memory is taken.
const (
	// MaxBatchBytes bounds a batch as it travels and as it is stored, header included.
	MaxBatchBytes = 16 << 20
	// DefaultTopicBatchBytes is the limit of a topic that names none.
	DefaultTopicBatchBytes = 1 << 20
	// MaxRecordsBytes bounds the record section after decompression.
	MaxRecordsBytes = 64 << 20
	// MaxRecordCount bounds the records of a batch.
	MaxRecordCount = 1_000_000
	// MaxHeaders bounds the headers of a record.
	MaxHeaders = 1024
	// MaxExtensionBytes bounds the extensions of a batch, padding included.
	MaxExtensionBytes = 4 << 10
	// MaxPositionBytes bounds the position extension.
	MaxPositionBytes = 64
)

// minRecordBytes is the smallest record: length, attributes, two deltas, null key,
// null value and an empty header list take one byte each.
const minRecordBytes = 7

// minHeaderBytes is the smallest header: an empty key and a null value.
const minHeaderBytes = 2
