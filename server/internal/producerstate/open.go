package producerstate

import (
	"bytes"
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// OpenRequest is what a producer says of itself when it opens a lane.
type OpenRequest struct {
	// Epoch is the one under which the producer seals.
	Epoch batchfmt.Epoch
	// Acked is the last acknowledgement that the producer has seen, nil if none.
	Acked *Acked
	// Sent is the highest sequence ever handed to the transport, nil if none.
	Sent *batchfmt.Seq
	// Fresh says that the producer has no memory: it comes to learn where the lane is.
	Fresh bool
}

// Acked is the end of a batch that was acknowledged.
type Acked struct {
	Seq    batchfmt.Seq    // its last sequence
	Offset batchfmt.Offset // the offset of its last record
	Digest batchfmt.Digest // of the batch
}

// OpenKind is the answer to an opening.
type OpenKind uint8

const (
	// OpenInvalidEpoch: INVALID_PRODUCER_EPOCH. The zero value opens nothing.
	OpenInvalidEpoch OpenKind = iota
	// OpenLoad asks for the lane, as the verdict Load does.
	OpenLoad
	// OpenLookUp asks for the batch that holds OpenVerdict.LookUp, as the verdict LookUp
	// does.
	OpenLookUp
	// OpenWait: something of the lane is pending; ask again when the durable end has
	// reached OpenVerdict.Until. What could still be lost must not be reported as stored.
	OpenWait
	// Opened: the lane is the stream's, answer where it stands.
	Opened
	// OpenDataLoss: the lane lacks what it had acknowledged. DATA_LOSS.
	OpenDataLoss
	// OpenCloned: the lane has what this producer never sent. PRODUCER_CLONED.
	OpenCloned
	// OpenUnknownProducer: the lane may have been forgotten. UNKNOWN_PRODUCER_ID.
	OpenUnknownProducer
)

var openKindNames = [...]string{
	"invalid epoch", "load", "look-up", "wait", "opened", "data loss", "cloned", "unknown producer",
}

func (k OpenKind) String() string {
	if int(k) < len(openKindNames) {
		return openKindNames[k]
	}
	return fmt.Sprintf("open(%d)", uint8(k))
}

// OpenVerdict is the answer of Open. Last, LastOffset and Digest are set whenever the
// lane was looked at; the rest as said.
type OpenVerdict struct {
	Kind OpenKind
	// Last is the lane's last sequence, NoSequence if it has none.
	Last batchfmt.Seq
	// LastOffset is the offset of the record with sequence Last, or UnknownOffset; then
	// Digest is not known either.
	LastOffset batchfmt.Offset
	// Digest is that of the batch which ends with Last.
	Digest batchfmt.Digest
	// Position is a copy of the lane's position (Opened).
	Position []byte
	// Epoch is the lane epoch (Opened): when it is above the request's, a fence has
	// passed and new batches need a higher epoch. With OpenInvalidEpoch it is the
	// producer's epoch in the catalog.
	Epoch batchfmt.Epoch
	// Expected is the sequence that must be there and is not, or is another (OpenDataLoss),
	// or the highest that the producer sent (OpenCloned). What is there is Last.
	Expected batchfmt.Seq
	// LookUp is the sequence to look for (OpenLookUp).
	LookUp batchfmt.Seq
	// Until is the durable end to wait for (OpenWait).
	Until batchfmt.Offset
	// Verified says that Acked was compared, or that there was none (Opened). It is not
	// when retention has removed the batch or it cannot be read.
	Verified bool
}

// String is for logs; it may change in any release.
func (v OpenVerdict) String() string {
	switch v.Kind {
	case Opened:
		return fmt.Sprintf("opened: last sequence %d at offset %d", v.Last, v.LastOffset)
	case OpenDataLoss:
		return fmt.Sprintf("data loss: last sequence is %d, %d was acknowledged", v.Last, v.Expected)
	case OpenCloned:
		return fmt.Sprintf("cloned: last sequence is %d, only %d was sent", v.Last, v.Expected)
	case OpenInvalidEpoch:
		return fmt.Sprintf("invalid epoch: current is %d", v.Epoch)
	case OpenLookUp:
		return fmt.Sprintf("look-up of sequence %d", v.LookUp)
	case OpenWait:
		return fmt.Sprintf("wait for durable end %d", v.Until)
	}
	return v.Kind.String()
}

// Open says how to answer a producer that opens the lane. It reads its arguments and
// nothing else. Of right it reads Holds and CurrentEpoch, not Opening: State.Opened may
// be called before, so that older openings lose their right at once, but not for a
// stream that is refused with OpenInvalidEpoch, or a zombie would shut out the holder.
// The first line that matches wins. L is the lane's last sequence, "acked" and "sent"
// are the request's; a producer that sent nothing has sent = -1.
//
//	not the holder, or not its epoch      OpenInvalidEpoch     neither old epochs nor invented ones
//	lane not in memory, not looked for    OpenLoad
//	lane unknown, something forgotten     OpenUnknownProducer  "nothing is stored" would be a guess;
//	  that could be it, and something                          to a fresh producer it would say "begin
//	  was sent or acked, or it is fresh                        at the start". What the log has of it
//	                                                           says neither where it ends nor what
//	                                                           fence has passed
//	something of the lane is pending      OpenWait
//	L < acked                             OpenDataLoss         the log is older than the producer
//	another batch ends there, or none     OpenDataLoss         the log has another history
//	L > sent, not fresh                   OpenCloned           somebody else writes with this identity
//	acked is behind the window            OpenLookUp           then as above; a batch that retention
//	                                                           removed, or that cannot be read, was stored
//	its last batch is not in the window   OpenLookUp           a replay began the lane with a fence; then
//	                                                           with its place and digest, if they are found
//	otherwise                             Opened
//
// The lane's own epoch refuses nothing: a producer behind a fence must still learn what
// is stored before it takes a higher epoch.
func Open(right Right, lane *Lane, req OpenRequest, ev Evidence) OpenVerdict {
	if !right.Holds || req.Epoch != right.CurrentEpoch {
		return OpenVerdict{Kind: OpenInvalidEpoch, Last: NoSequence, LastOffset: UnknownOffset, Epoch: right.CurrentEpoch}
	}
	h := lane.past()
	v := standing(lane)
	sent := NoSequence
	if req.Sent != nil {
		sent = *req.Sent
	}
	ack := checkAcked(h, req.Acked, ev)
	switch {
	case h == nil && !ev.Loaded:
		v.Kind = OpenLoad
	case h == nil && ev.Forgotten && (req.Sent != nil || req.Acked != nil || req.Fresh):
		v.Kind = OpenUnknownProducer
	case lane.PendingEnd() > ev.Durable:
		v.Kind, v.Until = OpenWait, lane.PendingEnd()
	case ack == ackOther && !planted.WitnessOff:
		v.Kind, v.Expected = OpenDataLoss, req.Acked.Seq
	case v.Last > sent && !req.Fresh && !planted.WitnessOff:
		v.Kind, v.Expected = OpenCloned, sent
	case ack == ackBehind:
		v.Kind, v.LookUp = OpenLookUp, req.Acked.Seq
	case h != nil && h.hasForgottenItsEnd() && ev.LookedUp.Found == NotLookedUp:
		v.Kind, v.LookUp = OpenLookUp, h.last
	default:
		v.Kind, v.Verified = Opened, ack == ackSame
		v.Position = bytes.Clone(lane.Position())
		if e := ev.LookedUp.entry(); h != nil && h.hasForgottenItsEnd() && ev.LookedUp.Found == FoundBatch && e.last == h.last {
			v.LastOffset, v.Digest = e.next()-1, e.digest
		}
	}
	return v
}

// hasForgottenItsEnd reports whether the lane holds something and does not know which batch is
// its last: one that a replay has begun with a fence. The log still has the batch.
func (h *history) hasForgottenItsEnd() bool {
	return h.last >= h.floor && h.last > NoSequence && (h.depth == 0 || h.newest().last != h.last)
}

// standing is where the lane is.
func standing(lane *Lane) OpenVerdict {
	v := OpenVerdict{Last: lane.Last(), LastOffset: lane.LastOffset(), Epoch: lane.Epoch()}
	if h := lane.past(); h != nil && h.depth > 0 && h.newest().last == h.last {
		v.Digest = h.newest().digest
	}
	return v
}

type ackState uint8

const (
	ackSame       ackState = iota // agrees, or there is none
	ackOther                      // not there, or another batch is
	ackBehind                     // behind the window: a look-up can tell
	ackUnprovable                 // it was stored; what it was cannot be read any more
)

// checkAcked compares an acknowledgement with the lane, and if that does not reach so
// far back, with the look-up.
func checkAcked(h *history, acked *Acked, ev Evidence) ackState {
	switch {
	case acked == nil:
		return ackSame
	case h == nil || h.last < acked.Seq || acked.Seq < 0:
		return ackOther
	case h.floor > acked.Seq:
		return ackUnprovable
	}
	if e := h.holding(acked.Seq); e != nil {
		return e.agrees(acked)
	}
	switch ev.LookedUp.Found {
	case NotLookedUp:
		return ackBehind
	case FoundRemoved, FoundDamaged:
		return ackUnprovable
	case FoundBatch:
		e := ev.LookedUp.entry()
		return e.agrees(acked)
	}
	return ackOther
}

// agrees compares the end of a batch, which is all that an acknowledgement keeps.
func (e *entry) agrees(acked *Acked) ackState {
	if e.last == acked.Seq && e.lastOffset() == acked.Offset && e.digest == acked.Digest {
		return ackSame
	}
	return ackOther
}
