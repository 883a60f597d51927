package producerstate

import (
	"fmt"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// ResolveKind is what can be said of a batch whose outcome its producer does not know.
type ResolveKind uint8

const (
	// ResolveUnknowable: nobody can tell any more. The zero value claims nothing.
	ResolveUnknowable ResolveKind = iota
	// ResolveLoad asks for the lane, as the verdict Load does.
	ResolveLoad
	// ResolveLookUp asks for the batch that holds the range, as the verdict LookUp does.
	ResolveLookUp
	// ResolveStored: it is stored and durable.
	ResolveStored
	// ResolveInFlight: it is appended and not durable; ask again when the durable end has
	// reached Resolution.Until.
	ResolveInFlight
	// ResolveNotYet: it is not stored, but a copy that is still on its way could be.
	ResolveNotYet
	// ResolveNever: it is not stored and never will be.
	ResolveNever
)

var resolveNames = [...]string{"unknowable", "load", "look-up", "stored", "in flight", "not stored yet", "not stored"}

func (k ResolveKind) String() string {
	if int(k) < len(resolveNames) {
		return resolveNames[k]
	}
	return fmt.Sprintf("resolve(%d)", uint8(k))
}

// Resolution is the answer of Resolve.
type Resolution struct {
	Kind ResolveKind
	// Offset is the base offset of the stored batch, where the damage is if it cannot be
	// read, or UnknownOffset.
	Offset batchfmt.Offset
	// Verified says of ResolveStored that the digests were compared. Without it only the
	// sequences prove that the batch is stored.
	Verified bool
	// Unreadable says of ResolveStored that the batch was stored and cannot be read any more.
	Unreadable bool
	// Until is the durable end that the answer must wait for: with ResolveInFlight, and
	// with ResolveNever if another batch is on its way to the disk in the place of this one.
	Until batchfmt.Offset
	// Reason says in words what the answer rests on.
	Reason string
}

// Resolve says what became of a batch. It reads its arguments and nothing else, and asks
// nobody for the right to write. The first line that matches wins; [a..b] is the range of
// the batch, L the last sequence of the lane.
//
//	lane not in memory, not looked for      Load
//	lane unknown, may have been forgotten   LookUp      then Stored or Never by what stands there;
//	                                                    where nothing does, Unknowable: the batch
//	                                                    may have been there, and may still come
//	lane unknown                            NotYet      nothing of the producer was ever here
//	a batch of the window, pending          InFlight
//	a batch of the window                   Stored
//	it touches the window otherwise, or     Never       one sequence holds one batch, and its
//	  a <= L < b                                        first one is taken; Unknowable if the
//	                                                    batch is of a lower epoch and a part of
//	                                                    the log was lost: then the lane may have
//	                                                    given the sequences again
//	floor <= a, b <= L                      LookUp      then Stored or Never by what stands there;
//	                                                    where that is gone, Stored by the sequence
//	a < floor                               Unknowable  of an older numbering
//	a > L, damage may hide what followed    Unknowable
//	a > L, epoch below the lane epoch       Never       a fence has passed
//	a > L                                   NotYet
//
// It is for native lanes: what a Kafka client numbers anew cannot be told by sequences.
func Resolve(lane *Lane, id Identity, ev Evidence) Resolution {
	h := lane.past()
	e := h.touched(id)
	switch {
	case !id.valid() || InGatewaySpace(id.PID):
		return unknowable("no producer of this kind has such a batch")
	case h == nil && !ev.Loaded:
		return Resolution{Kind: ResolveLoad, Offset: UnknownOffset}
	case h == nil && ev.Forgotten:
		return resolveForgotten(id, ev)
	case h == nil:
		return Resolution{Kind: ResolveNotYet, Offset: UnknownOffset, Reason: "nothing of the producer was ever stored here"}
	case e != nil:
		return e.resolve(id, ev, ev.Lossy && id.Epoch < h.epoch)
	case id.Base < h.floor:
		return unknowable("the batch is of an older numbering")
	case h.covers(id):
		return resolveByLookUp(id, ev, ev.Lossy && id.Epoch < h.epoch)
	case lane.hidden(id):
		return unknowable("what followed the lane's last batch may have been lost with a part of the log")
	case id.Epoch < h.epoch:
		return Resolution{Kind: ResolveNever, Offset: UnknownOffset, Reason: fmt.Sprintf("the lane takes epochs from %d on", h.epoch)}
	}
	return Resolution{Kind: ResolveNotYet, Offset: UnknownOffset, Reason: fmt.Sprintf("the lane's last sequence is %d", h.last)}
}

func unknowable(reason string) Resolution {
	if planted.ResolveGuesses {
		return Resolution{Kind: ResolveNever, Offset: UnknownOffset, Reason: reason}
	}
	return Resolution{Kind: ResolveUnknowable, Offset: UnknownOffset, Reason: reason}
}

// resolve compares a batch with one that shares a sequence with it. again says that the
// sequences may have been given a second time, so that another batch there proves nothing.
func (e *entry) resolve(id Identity, ev Evidence, again bool) Resolution {
	switch {
	case e.is(id) && e.pending(ev):
		return Resolution{Kind: ResolveInFlight, Offset: e.offset, Until: e.next()}
	case e.is(id):
		return Resolution{Kind: ResolveStored, Offset: e.offset, Verified: true, Reason: "the digests agree"}
	case again:
		return unknowable("another batch has its sequences, which may have been given again after a part of the log was lost")
	}
	r := Resolution{
		Kind: ResolveNever, Offset: UnknownOffset,
		Reason: fmt.Sprintf("sequences %d to %d are held by another batch, at offset %d", e.base, e.last, e.offset),
	}
	if e.pending(ev) {
		r.Until = e.next()
	}
	return r
}

// resolveForgotten is for a lane that may have been here. "Not stored" can only be said where
// another batch proves it.
func resolveForgotten(id Identity, ev Evidence) Resolution {
	f := ev.LookedUp
	switch f.Found {
	case NotLookedUp:
		if !planted.IndexesUnasked {
			return Resolution{Kind: ResolveLookUp, Offset: UnknownOffset}
		}
	case FoundDamaged:
		return unreadable(f)
	case FoundBatch:
		if e := f.entry(); e.touches(id) {
			return e.resolve(id, ev, ev.Lossy)
		}
	}
	return unknowable("the lane may have been forgotten, and the batch is not found in the log")
}

func unreadable(f Finding) Resolution {
	return Resolution{Kind: ResolveStored, Offset: f.BaseOffset, Unreadable: true, Reason: "what the lane stored there cannot be read any more"}
}

func resolveByLookUp(id Identity, ev Evidence, again bool) Resolution {
	f := ev.LookedUp
	switch f.Found {
	case NotLookedUp:
		return Resolution{Kind: ResolveLookUp, Offset: UnknownOffset}
	case FoundRemoved:
		return Resolution{Kind: ResolveStored, Offset: UnknownOffset, Reason: "retention has removed what the lane stored there"}
	case FoundDamaged:
		return unreadable(f)
	case FoundBatch:
		if e := f.entry(); e.touches(id) {
			return e.resolve(id, ev, again)
		}
	}
	return unknowable("the lane has passed it, but the log has nothing there")
}
