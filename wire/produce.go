package wire

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// Durability is how safe a batch must be before it is acknowledged.
type Durability uint8

// The durabilities. There is no default: 0 is none of them, and a server refuses what it
// does not know with INVALID_DURABILITY.
const (
	// Synced means that the batch is on disk before its result leaves the server.
	Synced Durability = 1
	// Written means that the result may leave the server when the batch was given to the
	// operating system. The server syncs it within about 100 ms. If the machine goes down
	// before that, or the sync fails, the batch is lost although it was acknowledged: the
	// lane is then refused with DATA_LOSS when it is opened again.
	Written Durability = 2
)

func (d Durability) String() string {
	switch d {
	case Synced:
		return "synced"
	case Written:
		return "written"
	}
	return fmt.Sprintf("durability(%d)", uint8(d))
}

// ProduceHead is the size of what stands before the batch in the payload of Produce.
const ProduceHead = 25

// Produce carries one sealed batch of a lane. Batches of a lane come in the order of
// their sequences.
//
//	 0  4  lane
//	 4  1  durability
//	 5  8  first send          Unix milliseconds; the same in every attempt
//	13  8  confirmed through   up to here every outcome was given to the application; -1 for none; in a
//	                           plain lane, the number by which the result shall name the batch
//	21  4  batch length
//	25  .  batch
type Produce struct {
	Lane             uint32
	Durability       Durability
	FirstSend        int64
	ConfirmedThrough batchfmt.Seq
	Batch            []byte
}

// Number is what the result names the batch by, as its base sequence: that of the batch if
// it has one, else ConfirmedThrough. Nothing of the batch is checked for it.
func (m *Produce) Number() batchfmt.Seq {
	if base := batchfmt.SequenceOf(m.Batch); base >= 0 {
		return base
	}
	return m.ConfirmedThrough
}

// Kind is KindProduce.
func (*Produce) Kind() Kind { return KindProduce }

func (m *Produce) appendPayload(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, ProduceHead)...)
	m.putHead(b[start:], len(m.Batch))
	return append(b, m.Batch...)
}

func (m *Produce) putHead(b []byte, batchLength int) {
	binary.LittleEndian.PutUint32(b, m.Lane)
	b[4] = byte(m.Durability)
	binary.LittleEndian.PutUint64(b[5:], uint64(m.FirstSend))
	binary.LittleEndian.PutUint64(b[13:], uint64(m.ConfirmedThrough))
	binary.LittleEndian.PutUint32(b[21:], uint32(batchLength))
}

// PutProduceFrame writes frame header and head in front of a batch that stands at
// HeaderSize+ProduceHead in b and ends with it, so that a sealed batch is sent again and again without
// being copied. m.Batch is not looked at.
func PutProduceFrame(b []byte, m *Produce) {
	batchLength := len(b) - HeaderSize - ProduceHead
	PutHeader(b, KindProduce, ProduceHead+batchLength)
	m.putHead(b[HeaderSize:], batchLength)
}

// PeekProduce reads from a head of ProduceHead bytes what a refusal needs.
func PeekProduce(head []byte) (lane uint32, confirmed batchfmt.Seq) {
	return binary.LittleEndian.Uint32(head), batchfmt.Seq(binary.LittleEndian.Uint64(head[13:]))
}

func (m *Produce) decode(c *cursor) {
	m.Lane = c.u32("lane")
	m.Durability = c.durability("durability")
	m.FirstSend = c.moment("first send")
	m.ConfirmedThrough = batchfmt.Seq(c.i64("confirmed through"))
	m.Batch = c.batches("batch")
}

// Timings say where a batch spent its time in the server; microseconds on the wire.
type Timings struct {
	Queue, Append, Sync time.Duration
}

// Flags of a ProduceResult.
const (
	resultDuplicate = 1 << iota
	resultVerified
	resultNotStored
	resultProvisional // a peer that does not know it never asked for Written
)

var resultFlags = []string{"duplicate", "verified", "not-stored", "provisional"}

// ProduceResult is the outcome of one batch.
//
// Where all batches of an opening ask for one durability, successes come in the order in which
// they were sent. Clients rely on it: one that is missing in front of a later one was lost.
//
// A result waits for what it rests on and for nothing else. So where a lane mixes durabilities a
// provisional one overtakes those of earlier batches that wait for their sync; it tells of its
// own batch and of no other.
type ProduceResult struct {
	Lane         uint32
	BaseSequence batchfmt.Seq
	Code         Code            // CodeOK: stored, now or before
	Duplicate    bool            // with CodeOK: it was stored before, BaseOffset is the original's
	Verified     bool            // with Duplicate: the stored batch was compared, not inferred
	Provisional  bool            // with CodeOK: written and not synced; only who asked for Written gets that
	NotStored    bool            // with an error that leaves the outcome open: this batch is not stored and never will be
	BaseOffset   batchfmt.Offset // with such an error: where the batch is stored; -1 when that is not known
	AppendTime   int64           // Unix milliseconds
	Expected     int64           // by the meaning of Code: the expected sequence or epoch; -1 for none
	// PersistedThrough is a sequence up to which the lane is stored and synced, whatever
	// durability was asked for; -1 when none is known. With Provisional it stands before
	// the batch.
	PersistedThrough batchfmt.Seq
	Timings          Timings
	RetryAfter       time.Duration // a hint with errors that may be retried
	Detail           string
}

// resultBytes is the size of a result without its detail.
const resultBytes = 2 + 4 + 8 + 2 + 1 + 8 + 8 + 8 + 8 + 12 + 4 + 2

// MaxResultsPerFrame is how many results a server puts into one frame: even with the
// longest details it stays below the limit of the frame. Readers take what the frame's
// limit lets through.
const MaxResultsPerFrame = 256

// ProduceResults answers Produce frames, several at once.
//
//	count u32, each: length u16, lane u32, base sequence i64, code u16, flags u8, base offset i64,
//	append time i64, expected i64, persisted through i64, queue u32, append u32,
//	sync u32 (all µs), retry after u32 (ms), detail str
type ProduceResults struct{ Results []ProduceResult }

// Kind is KindProduceResults.
func (*ProduceResults) Kind() Kind { return KindProduceResults }

func (m *ProduceResults) appendPayload(b []byte) []byte {
	b = appendU32(b, uint32(len(m.Results)))
	for i := range m.Results {
		b = m.Results[i].append(b)
	}
	return b
}

func (r *ProduceResult) append(b []byte) []byte {
	var flags byte
	if r.Duplicate {
		flags |= resultDuplicate
	}
	if r.Verified {
		flags |= resultVerified
	}
	if r.NotStored {
		flags |= resultNotStored
	}
	if r.Provisional {
		flags |= resultProvisional
	}
	start, b := openItem(b)
	b = appendU32(b, r.Lane)
	b = appendI64(b, int64(r.BaseSequence))
	b = appendU16(b, uint16(r.Code))
	b = append(b, flags)
	b = appendI64(b, int64(r.BaseOffset))
	b = appendI64(b, r.AppendTime)
	b = appendI64(b, r.Expected)
	b = appendI64(b, int64(r.PersistedThrough))
	b = appendMicros(b, r.Timings.Queue)
	b = appendMicros(b, r.Timings.Append)
	b = appendMicros(b, r.Timings.Sync)
	b = appendMillis(b, r.RetryAfter)
	return closeItem(appendText(b, r.Detail, maxDetail), start)
}

func (m *ProduceResults) decode(c *cursor) {
	n := c.list("results", resultBytes)
	m.Results = room(m.Results, n)
	c.items(n, "result", func() { m.Results = append(m.Results, readResult(c)) })
}

func readResult(c *cursor) ProduceResult {
	r := ProduceResult{
		Lane:         c.u32("lane"),
		BaseSequence: batchfmt.Seq(c.i64("base sequence")),
		Code:         c.code("code"),
	}
	flags := c.flags("flags", resultFlags)
	r.Duplicate = flags&resultDuplicate != 0
	r.Verified = flags&resultVerified != 0
	r.NotStored = flags&resultNotStored != 0
	r.Provisional = flags&resultProvisional != 0
	r.BaseOffset = batchfmt.Offset(c.i64("base offset"))
	r.AppendTime = c.moment("append time")
	r.Expected = c.i64("expected")
	r.PersistedThrough = batchfmt.Seq(c.i64("persisted through"))
	r.Timings.Queue = c.micros("queue")
	r.Timings.Append = c.micros("append")
	r.Timings.Sync = c.micros("sync")
	r.RetryAfter = c.millis("retry after")
	r.Detail = c.str("detail", maxDetail)
	return r
}
