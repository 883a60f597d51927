package producerstate

import (
	"math"

	"github.com/quoin-io/quoin/batchfmt"
	"pgregory.net/rapid"
)

// asForgotten decides a batch as if its lane had been forgotten: with nothing but what a
// look-up in what is left of the log finds, which meets no fence and no close. What is stored
// there is told, what is said not to be stored is not, and nothing is taken.
func (w *world) asForgotten(t *rapid.T) {
	if len(w.sent) == 0 {
		return
	}
	b := rapid.SampledFrom(w.sent).Draw(t, "of a forgotten lane")
	if rapid.Bool().Draw(t, "another batch") {
		base := batchfmt.Seq(rapid.Int64Range(0, int64(b.LastSequence())+3).Draw(t, "base"))
		b = w.seal(b.ProducerID(), w.epochs[b.ProducerID()], base, rapid.IntRange(1, 6).Draw(t, "records"))
	}
	id := IdentityOf(b)
	if InGatewaySpace(id.PID) {
		return // it may have numbered anew, and then a sequence is not held by one batch alone
	}
	s := New(Limits{})
	s.Forget(math.MaxInt64)
	right := Right{Holds: true, Opening: s.Opened(id.PID), CurrentEpoch: w.epochs[id.PID]}
	ev := Evidence{Loaded: true, Forgotten: s.MayHaveForgotten(id.PID), Durable: endOf(w.log[:w.durable]), LogEnd: w.end()}
	if v := Decide(right, s.Lane(id.PID), id, ev); v.Kind != LookUp {
		t.Fatalf("%+v: %v (row %d) before the log was asked", id, v, v.Row)
	}
	ev.LookedUp = w.findProven(id)
	w.wantProven(t, id, Decide(right, s.Lane(id.PID), id, ev), ev)
	w.wantResolved(t, id, Resolve(s.Lane(id.PID), id, ev))
}

// findProven is the look-up for a lane that nobody remembers.
func (w *world) findProven(id Identity) Finding {
	for i := len(w.log) - 1; i >= w.kept; i-- {
		b := w.log[i]
		if b.ProducerID() == id.PID && !b.IsControl() && b.BaseSequence() <= id.Last && id.Base <= b.LastSequence() {
			return Finding{FoundBatch, b.BaseOffset(), b.BaseSequence(), b.LastSequence(), b.Digest()}
		}
	}
	return Finding{Found: FoundNothing}
}

// wantProven holds a verdict against the whole log.
func (w *world) wantProven(t *rapid.T, id Identity, v Verdict, ev Evidence) {
	at, stored, readable := w.place(id)
	switch {
	case readable && v.Offset == at && (v.Kind == Duplicate && at < ev.Durable || v.Kind == Attach && at >= ev.Durable):
	case !readable && v.Kind == UnknownProducer:
	case !stored && v.Kind == Conflict:
	default:
		t.Fatalf("%+v of a forgotten lane: %v (row %d); it is stored %v at %d, and still there %v", id, v, v.Row, stored, at, readable)
	}
}

func (w *world) wantResolved(t *rapid.T, id Identity, r Resolution) {
	at, stored, readable := w.place(id)
	switch {
	case readable && r.Offset == at && (r.Kind == ResolveStored || r.Kind == ResolveInFlight):
	case !readable && r.Kind == ResolveUnknowable:
	case !stored && r.Kind == ResolveNever:
	default:
		t.Fatalf("%+v of a forgotten lane: %v at %d; it is stored %v at %d, and still there %v", id, r.Kind, r.Offset, stored, at, readable)
	}
}

// place is where a batch stands in all of the log, and whether retention has left it there.
func (w *world) place(id Identity) (at batchfmt.Offset, stored, readable bool) {
	for i, b := range w.log {
		if IdentityOf(b) == id {
			return b.BaseOffset(), true, i >= w.kept
		}
	}
	return UnknownOffset, false, false
}
