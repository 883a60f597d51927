package producerstate

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

func TestResolve(t *testing.T) {
	pending := Evidence{Durable: 100, LogEnd: 1000, Loaded: true}
	loaded := Evidence{Durable: 1000, LogEnd: 1000, Loaded: true}
	forgotten := loaded
	forgotten.Forgotten = true
	found := func(f Finding) Evidence { ev := loaded; ev.LookedUp = f; return ev }
	gone := func(f Finding) Evidence { ev := forgotten; ev.LookedUp = f; return ev }
	at := func(id Identity, offset batchfmt.Offset) Finding {
		return Finding{Found: FoundBatch, BaseOffset: offset, Base: id.Base, Last: id.Last, Digest: id.Digest}
	}
	fenced := func() *Lane {
		s := New(Limits{})
		s.Apply(ident(1, 0, 9), 100, nil)
		s.replayControl(nativePID, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 2, Last: 9})
		return s.Lane(nativePID)
	}
	floored := func() *Lane {
		s := New(Limits{})
		s.replayControl(nativePID, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 2, Floor: 50, Last: 59})
		return s.Lane(nativePID)
	}
	eight := laneOf(ident, 1, 8) // [0..79], the window begins with 30
	rows := []struct {
		name   string
		lane   *Lane
		id     Identity
		ev     Evidence
		want   ResolveKind
		offset batchfmt.Offset
		until  batchfmt.Offset
	}{
		{"not looked for", nil, ident(1, 0, 9), settled, ResolveLoad, -1, 0},
		{"may have been forgotten", nil, ident(1, 0, 9), forgotten, ResolveLookUp, -1, 0},
		{"forgotten, and found", nil, ident(1, 0, 9), gone(at(ident(1, 0, 9), 100)), ResolveStored, 100, 0},
		{"forgotten, and found another", nil, ident(1, 0, 9), gone(at(other(ident(1, 0, 9)), 100)), ResolveNever, -1, 0},
		{"forgotten, and found what touches it", nil, ident(1, 5, 14), gone(at(ident(1, 0, 9), 100)), ResolveNever, -1, 0},
		{"forgotten, and found what stands before it", nil, ident(1, 10, 19), gone(at(ident(1, 0, 9), 100)), ResolveUnknowable, -1, 0},
		{"forgotten, and unreadable", nil, ident(1, 0, 9), gone(Finding{Found: FoundDamaged, BaseOffset: 98}), ResolveStored, 98, 0},
		{"forgotten, and not found", nil, ident(1, 0, 9), gone(Finding{Found: FoundNothing}), ResolveUnknowable, -1, 0},
		{"forgotten, and removed perhaps", nil, ident(1, 0, 9), gone(Finding{Found: FoundRemoved}), ResolveUnknowable, -1, 0},
		{"never here", nil, ident(1, 0, 9), loaded, ResolveNotYet, -1, 0},
		{"only opened", &Lane{open: true}, ident(1, 0, 9), loaded, ResolveNotYet, -1, 0},
		{"pending", laneOf(ident, 1, 1), ident(1, 0, 9), pending, ResolveInFlight, 100, 110},
		{"in the window", eight, ident(1, 40, 49), loaded, ResolveStored, 140, 0},
		{"other bytes in the window", eight, other(ident(1, 40, 49)), loaded, ResolveNever, -1, 0},
		{"other bytes that are pending", laneOf(ident, 1, 1), other(ident(1, 0, 9)), pending, ResolveNever, -1, 110},
		{"across two of the window", eight, ident(1, 45, 54), loaded, ResolveNever, -1, 0},
		{"over the end", eight, ident(1, 75, 84), loaded, ResolveNever, -1, 0},
		{"over the end of the window's front", eight, ident(1, 25, 34), loaded, ResolveNever, -1, 0},
		{"behind the window", eight, ident(1, 0, 9), loaded, ResolveLookUp, -1, 0},
		{"found", eight, ident(1, 0, 9), found(at(ident(1, 0, 9), 100)), ResolveStored, 100, 0},
		{"found another", eight, ident(1, 0, 9), found(at(other(ident(1, 0, 9)), 100)), ResolveNever, -1, 0},
		{"removed", eight, ident(1, 0, 9), found(Finding{Found: FoundRemoved}), ResolveStored, -1, 0},
		{"damaged", eight, ident(1, 0, 9), found(Finding{Found: FoundDamaged, BaseOffset: 98}), ResolveStored, 98, 0},
		{"the log has nothing", eight, ident(1, 0, 9), found(Finding{Found: FoundNothing}), ResolveUnknowable, -1, 0},
		{"below the floor", floored(), ident(1, 0, 9), loaded, ResolveUnknowable, -1, 0},
		{"over the floor", floored(), ident(1, 45, 54), loaded, ResolveUnknowable, -1, 0},
		{"a fence has passed", fenced(), ident(1, 10, 19), loaded, ResolveNever, -1, 0},
		{"behind the fence, of its epoch", fenced(), ident(2, 10, 19), loaded, ResolveNotYet, -1, 0},
		{"next", eight, ident(1, 80, 89), loaded, ResolveNotYet, -1, 0},
		{"behind a gap", eight, ident(1, 90, 99), loaded, ResolveNotYet, -1, 0},
		{"damage may hide it", suspected(2), ident(1, 20, 29), loaded, ResolveUnknowable, -1, 0},
		{"no batch", eight, Identity{PID: nativePID, Base: 3, Last: 2}, loaded, ResolveUnknowable, -1, 0},
		{"a Kafka client's", laneOf(kafka, 1, 1), kafka(1, 0, 9), loaded, ResolveUnknowable, -1, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := Resolve(row.lane, row.id, row.ev)
			if r.Kind != row.want || r.Offset != row.offset || r.Until != row.until {
				t.Errorf("%v at %d until %d (%s), want %v at %d until %d", r.Kind, r.Offset, r.Until, r.Reason, row.want, row.offset, row.until)
			}
			if r.Verified != (r.Kind == ResolveStored && row.ev.LookedUp.Found != FoundRemoved && row.ev.LookedUp.Found != FoundDamaged) {
				t.Errorf("verified: %v", r.Verified)
			}
			if r.Unreadable != (row.ev.LookedUp.Found == FoundDamaged) {
				t.Errorf("unreadable: %v", r.Unreadable)
			}
		})
	}
}
