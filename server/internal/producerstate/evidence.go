package producerstate

import "github.com/quoin-io/quoin/batchfmt"

// Right is what the caller knows of a stream's right to write. The zero Right may
// write nothing.
type Right struct {
	// Holds says that the stream's instance still holds the producer id, by the catalog.
	Holds bool
	// Opening is the number that State.Opened gave to this stream; 0 is none.
	Opening uint64
	// CurrentEpoch is the producer's epoch in the catalog at this moment, not when the
	// stream was opened: a batch sealed above it carries an epoch that nobody issued.
	CurrentEpoch batchfmt.Epoch

	// Gateway says that a Kafka client writes. It has no instance and no opening: the
	// fields above are not read, and the right is judged by its epoch.
	Gateway bool
	// Foreign says, at the gateway, that this server surely never handed out the id.
	Foreign bool
}

// mayWrite is the condition of row 1 turned round. h is nil while the lane is unknown.
func (r Right) mayWrite(lane *Lane, h *history, id Identity) bool {
	if r.Gateway != InGatewaySpace(id.PID) {
		return false
	}
	if r.Gateway {
		return h == nil || id.Epoch >= h.epoch
	}
	return r.Holds && r.Opening != 0 && r.Opening == lane.Opening()
}

// Evidence is what Decide and Open need and cannot find in the lane. The zero value is
// no evidence: nothing is durable, nothing was looked for.
type Evidence struct {
	// Durable is the log's durable end. A batch at or behind it is pending.
	Durable batchfmt.Offset

	// Loaded says that the lane was looked for wherever lanes are kept, and that what
	// was found is now in memory. It is only read while the lane is unknown.
	Loaded bool
	// Forgotten says that something was forgotten in this partition which could be this
	// lane: the id is not above the highest that may have been lost, see State.Forget.
	Forgotten bool
	// Lossy says that a part of the log was lost at some time, see State.Lost: a lane that went
	// on behind the loss has given sequences a second time, under a higher epoch.
	Lossy bool
	// LogEnd is the end of the log; 0 means that the partition was never written.
	LogEnd batchfmt.Offset

	// LookedUp is the outcome of the look-up of this very batch, when Decide, Open or
	// Resolve asked for one. What is behind a lane's last sequence never changes, so it
	// stays true however late it comes. A look-up for an unknown lane says what it found
	// only where that is proof by itself, see the kinds.
	LookedUp Finding
}

// Found says how a look-up ended.
type Found uint8

const (
	// NotLookedUp is the zero value: nobody has looked yet.
	NotLookedUp Found = iota
	// FoundBatch is a batch that shares a sequence with the range asked for. If the range
	// was stored as one batch it must be that one.
	FoundBatch
	// FoundRemoved means that retention removed the place where it stood.
	FoundRemoved
	// FoundDamaged means that the place where it stood cannot be read any more. Of an
	// unknown lane it means that the digest there is left, and is that of the batch.
	FoundDamaged
	// FoundNothing means that the log, though complete, has no such sequence. Of an
	// unknown lane it means no more than that nothing was found.
	FoundNothing
)

// Finding is what a look-up in the log's producer index came back with.
type Finding struct {
	Found Found
	// BaseOffset is that of the batch found, or where the damage is.
	BaseOffset batchfmt.Offset
	// Base, Last and Digest are those of the batch found.
	Base, Last batchfmt.Seq
	Digest     batchfmt.Digest
}

// entry is the finding in the form of the window.
func (f Finding) entry() entry {
	return entry{base: f.Base, last: f.Last, offset: f.BaseOffset, digest: f.Digest}
}
