package producerstate

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
)

// Kind is what is to be done with a batch.
type Kind uint8

const (
	// Invalid is no identity at all: no producer, a negative sequence, no record. It is
	// the zero value, so a verdict that nobody reached accepts nothing.
	Invalid Kind = iota
	// Load asks for the lane: search for it outside the owner loop, then decide again
	// with Evidence.Loaded.
	Load
	// LookUp asks for the batch that holds the range: search for it outside the owner
	// loop, then decide again with Evidence.LookedUp.
	LookUp
	// Accept lets the batch go on to the checks that only new batches meet, and then to
	// the log and to State.Apply.
	Accept
	// Attach waits with the original, which is appended and not yet durable.
	Attach
	// Duplicate is success, with the original's base offset. Nothing is written.
	Duplicate
	// Conflict: other bytes hold these sequences. SEQUENCE_CONFLICT.
	Conflict
	// Gap: something before this batch is missing. OUT_OF_ORDER_SEQUENCE_NUMBER.
	Gap
	// Fenced: the stream, or the epoch of the batch, may not write. INVALID_PRODUCER_EPOCH.
	Fenced
	// Damaged: the batch was stored and cannot be read any more. CORRUPT_BATCH.
	Damaged
	// UnknownOutcome: nobody can tell any more whether it was stored. UNKNOWN_OUTCOME.
	UnknownOutcome
	// UnknownProducer: nobody can tell any more what the lane was. UNKNOWN_PRODUCER_ID.
	UnknownProducer
)

var kindNames = [...]string{
	"invalid", "load", "look-up", "accept", "attach", "duplicate", "conflict", "gap",
	"fenced", "damaged", "unknown outcome", "unknown producer",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Fate is what a fenced stream may be told about the batch that it tried to write.
type Fate uint8

const (
	// FateUnknown: it cannot be said without a look-up, or it is not settled.
	FateUnknown Fate = iota
	// FateStored: the batch is durable at Verdict.Offset.
	FateStored
	// FateNever: it is not stored and no copy of it can be any more.
	FateNever
)

// RowInvalid is the row of an Invalid verdict: no row of the table speaks of it.
const RowInvalid = -1

// Verdict is the answer of Decide. Fields that a kind does not name are zero, offsets
// UnknownOffset.
type Verdict struct {
	Kind Kind
	// Row is the line of the table in the comment of Decide that matched.
	Row int
	// Offset is the base offset of the original (Attach, Duplicate), of the batch that
	// stands in the way (Conflict), of the stored batch (Fenced with FateStored), or where
	// the damage is (Damaged). UnknownOffset if it is not known.
	Offset batchfmt.Offset
	// Expected is the sequence with which the next batch must start (Gap, Accept).
	Expected batchfmt.Seq
	// Epoch is the lowest epoch that can be accepted from now on (Fenced).
	Epoch batchfmt.Epoch
	// Want is the digest of the batch that holds the range, Have that of the batch that
	// was decided (Conflict, Duplicate). Want is 0 when Offset is not known.
	Want, Have batchfmt.Digest
	// Fate is set with Fenced.
	Fate Fate
	// Verified says of a Duplicate that the digests were compared and agree. It is not
	// when retention has removed the original.
	Verified bool
	// SameRange says of a Conflict that the batch in the way has the same range, so that
	// only the bytes differ. The gateway then compares the records, as Kafka clients may
	// encode a retry anew.
	SameRange bool
	// NewNumbering says of an Accept that the lane, or a new incarnation of it, starts
	// with this batch.
	NewNumbering bool
	// WithoutHistory says of an Accept that the gateway takes a lane in its middle.
	WithoutHistory bool
}

// Ends reports whether the verdict is an answer, and not a request for evidence.
func (v Verdict) Ends() bool { return v.Kind != Load && v.Kind != LookUp }

// String is for logs and for people who ask why; it may change in any release.
func (v Verdict) String() string {
	switch v.Kind {
	case Accept:
		switch {
		case v.WithoutHistory:
			return fmt.Sprintf("accept without history: lane starts at %d", v.Expected)
		case v.NewNumbering:
			return "accept: new numbering"
		}
		return "accept"
	case Attach:
		return fmt.Sprintf("attach to offset %d, not yet durable", v.Offset)
	case Duplicate:
		if v.Offset == UnknownOffset {
			return "duplicate, offset unknown, not verified: the original was removed"
		}
		return fmt.Sprintf("duplicate of offset %d", v.Offset)
	case Conflict:
		return v.conflictString()
	case Gap:
		return fmt.Sprintf("gap: expected %d", v.Expected)
	case Fenced:
		return v.fencedString()
	case Damaged:
		return fmt.Sprintf("damaged: was stored, now unreadable at offset %d", v.Offset)
	}
	return v.Kind.String()
}

func (v Verdict) conflictString() string {
	if v.Offset == UnknownOffset {
		return fmt.Sprintf("conflict: the range of digest %016x crosses what is stored", uint64(v.Have))
	}
	return fmt.Sprintf("conflict with offset %d: digest %016x is stored, this one has %016x",
		v.Offset, uint64(v.Want), uint64(v.Have))
}

func (v Verdict) fencedString() string {
	switch v.Fate {
	case FateStored:
		return fmt.Sprintf("fenced: epoch %d, stored at offset %d", v.Epoch, v.Offset)
	case FateNever:
		return fmt.Sprintf("fenced: epoch %d, never stored", v.Epoch)
	}
	return fmt.Sprintf("fenced: epoch %d", v.Epoch)
}
