package lane

import (
	"errors"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// ErrDeliveryTimeout is the cause of outcomes that were forced because the time to
// deliver a batch was over.
var ErrDeliveryTimeout = errors.New("delivery timeout")

// ErrGivenUp is the cause when a batch was settled since the application had been told,
// of one of its records, that the outcome is unknown.
var ErrGivenUp = errors.New("the application had given up one of its records")

// A Batch is frozen: the fields that the caller sets never change once it is given to
// [Core.Enqueue]. Only Reseal gives it another identity, when the one that it had is
// proved to be stored nowhere.
type Batch struct {
	Base     batchfmt.Seq // the sequence of the first record; what Core.Next said
	Count    int          // records, at least 1
	Epoch    batchfmt.Epoch
	Digest   batchfmt.Digest
	Deadline time.Time // the outcome is there by then, whatever it takes
	Tag      any       // the caller's; the core does not look at it

	attempts   int
	unanswered bool      // an attempt of this opening has no answer yet
	asHead     bool      // the last attempt was sent when nothing stood in front of it
	probe      bool      // the last attempt was sent alone, to find out whether the way is free
	sentAt     time.Time // of the last attempt
	turn       uint64    // of the last attempt, see Core.turn
	overtaken  time.Time // when a batch that was sent after the last attempt had success first; zero for not
	uncertain  bool
	never      bool  // the server said for good that it is not stored and will not be
	told       bool  // the application was told that its outcome is unknown: it is never sent again
	apart      bool  // what stood in front of it was settled as not stored by an earlier process: it has to be sealed anew
	dropped    error // why it ends as not stored, proved, when what stands before it has ended; nil if it does not
	stored     *wire.ProduceResult
	refusal    *wire.Error // the last answer that was not success
	ended      *Outcome    // in a plain lane, until those before it have theirs, or of what is yet to be settled; nil for none
}

// Last is the sequence of the last record.
func (b *Batch) Last() batchfmt.Seq { return b.Base + batchfmt.Seq(b.Count) - 1 }

// Attempts is how often the batch was handed to a connection.
func (b *Batch) Attempts() int { return b.attempts }

// Refusal is the last answer that was not success; nil for none.
func (b *Batch) Refusal() *wire.Error { return b.refusal }

// proved reports whether answers prove that the batch is not stored: one said so of the
// batch itself, or every attempt has an answer and each says that nothing happened.
func (b *Batch) proved() bool {
	return b.never || !b.unanswered && !b.uncertain && b.refusal != nil
}

// renew forgets the identity that the batch had, which is stored nowhere.
func (b *Batch) renew(base batchfmt.Seq) {
	*b = Batch{Base: base, Count: b.Count, Epoch: b.Epoch, Digest: b.Digest, Deadline: b.Deadline, Tag: b.Tag}
}

// Fate is one of the three ways in which a batch ends.
type Fate uint8

const (
	Stored    Fate = iota + 1 // it is in the partition, once
	NotStored                 // it is not, and never will be
	Unknown                   // it may be
)

func (f Fate) String() string {
	switch f {
	case Stored:
		return "stored"
	case NotStored:
		return "not stored"
	case Unknown:
		return "unknown"
	}
	return "no fate"
}

// An Outcome is what became of a batch.
type Outcome struct {
	Fate   Fate
	Result wire.ProduceResult // with Stored; its Code may be an error that says where the batch is
	Cause  error              // with the other two; a *wire.Error when the server answered
}

// Kind says what an Action asks for.
type Kind uint8

const (
	// Open asks for a new opening of the lane; an older one is given up.
	Open Kind = iota + 1
	// Send asks to hand the batch to the connection of the current opening.
	Send
	// Complete gives a batch its outcome.
	Complete
	// Fail says that the lane is over, with the reason; every frozen batch has its
	// outcome by then.
	Fail
	// Settle asks for a Resolve of the batch that settles it; the answer goes to Settled
	// or SettleRefused. There is one at a time.
	Settle
	// Report tells what became of a batch whose outcome was Unknown.
	Report
	// Raise asks for a producer epoch of at least Epoch; the answer goes to Raised or
	// RaiseRefused.
	Raise
	// Reseal asks to seal the batch anew under the raised epoch, with the Base that it has
	// now, and to set its Epoch and Digest, before any other action of this lane.
	Reseal
)

func (k Kind) String() string {
	switch k {
	case Open:
		return "open"
	case Send:
		return "send"
	case Complete:
		return "complete"
	case Fail:
		return "fail"
	case Settle:
		return "settle"
	case Report:
		return "report"
	case Raise:
		return "raise"
	case Reseal:
		return "reseal"
	}
	return "no action"
}

// An Action is what the caller has to do. Actions are carried out in order.
type Action struct {
	Kind    Kind
	Batch   *Batch          // of Send, Complete, Settle, Report and Reseal
	Outcome Outcome         // of Complete
	Acked   *wire.LanePoint // of Open: the last record known to be stored, nil for none
	Sent    *batchfmt.Seq   // of Open: the highest sequence ever handed over, nil for none
	Fresh   bool            // of Open: nothing is known of the lane
	Found   *wire.Resolved  // of Report
	Epoch   batchfmt.Epoch  // of Raise
	Err     error           // of Fail
}
