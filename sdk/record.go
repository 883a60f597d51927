package sdk

import (
	"time"

	"github.com/quoin-io/quoin/wire"
)

// A Header is one entry of a record's header list. The list is ordered and keys may
// repeat. A nil Value is null, which differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// A Record is one message. To send one, set what is above the line; what is below is set
// on records that a [Consumer] gives, and ignored when sending.
//
// Key and Value may be nil, which is null and differs from empty. Timestamp has
// milliseconds; the zero time becomes the time of sending.
type Record struct {
	Key, Value []byte
	Headers    []Header
	Timestamp  time.Time

	Topic     string
	Partition int
	Offset    int64
	Producer  ProducerRef
}

// A ProducerRef says who wrote a record, and with which number. It is zero for records
// of producers without an identity.
type ProducerRef struct {
	ID       uint64
	Epoch    uint32
	Sequence int64
}

// An Ack says where a record is stored.
type Ack struct {
	Topic     string
	Partition int
	// Offset is the place in the partition. It is -1 for a duplicate whose original was
	// removed by retention, so that nobody knows it any more.
	Offset int64
	// Sequence is the number of the record among those of its producer in its partition; -1
	// of a plain producer, which has none.
	Sequence int64
	// Duplicate says that an earlier attempt had stored the record already; Offset is
	// that of the earlier attempt.
	Duplicate bool
	// Verified says of a duplicate that the server compared it with what is stored. It
	// could not when retention removed the original, and not when the place where it was
	// stored has become unreadable: then Offset is where the damage is.
	Verified bool
	// Provisional says that the record is in the server's hands and not yet known to be on its
	// disk: see [Written], with which alone it is set.
	Provisional bool
	// AppendTime is when the server appended the batch; milliseconds. It is the zero time
	// when the server does not know it, as with most duplicates.
	AppendTime time.Time
	Timings    Timings
}

// Timings say where the batch of a record spent its time in the server.
type Timings = wire.Timings

// Durability is how safe a record is when its producer is told that it is stored.
type Durability uint8

const (
	// Synced, the default: the record is on the server's disk. It survives a power cut.
	Synced Durability = iota
	// Written: the server has handed the record to its operating system, which has not
	// necessarily written it to disk; the ack says so by Provisional. The server syncs within
	// 100 ms, or as long as its disk takes. What was acknowledged in that time survives a kill
	// of the server, but not a power cut or a crash of the machine: then the partition refuses
	// an idempotent producer with DATA_LOSS, which says from which sequence on records are
	// lost, see [Producer.ContinueAfterLoss]. A plain producer is not told. A failing sync
	// loses them in the same way. Readers see no record before it is synced.
	Written
)

func (d Durability) String() string {
	switch d {
	case Synced:
		return "synced"
	case Written:
		return "written"
	}
	return "unknown"
}

func (d Durability) onWire() wire.Durability {
	if d == Written {
		return wire.Written
	}
	return wire.Synced
}

// Compression is how a producer compresses its batches.
type Compression uint8

// The compressions. Snappy costs least and nearly always pays; Zstd is smaller and takes
// several times the CPU.
const (
	NoCompression Compression = iota
	Snappy
	Zstd
)

func (c Compression) String() string {
	switch c {
	case NoCompression:
		return "none"
	case Snappy:
		return "snappy"
	case Zstd:
		return "zstd"
	}
	return "unknown"
}
