package producerstate

import (
	"math"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

const (
	nativePID  batchfmt.ProducerID = 7
	gatewayPID                     = GatewaySpace + 7
	theOpening uint64              = 1 // the first that a State gives
)

var (
	holder  = Right{Holds: true, Opening: theOpening, CurrentEpoch: 3}
	gateway = Right{Gateway: true}
	// settled is evidence under which nothing is pending.
	settled = Evidence{Durable: math.MaxInt64, LogEnd: 1000}
)

// ident is a batch of the native producer; its digest tells range and epoch apart.
func ident(epoch batchfmt.Epoch, base, last batchfmt.Seq) Identity {
	return Identity{PID: nativePID, Epoch: epoch, Base: base, Last: last, Digest: digestOf(epoch, base, last)}
}

func digestOf(epoch batchfmt.Epoch, base, last batchfmt.Seq) batchfmt.Digest {
	return batchfmt.Digest(uint64(epoch)<<48 | uint64(base)<<24 | uint64(last) | 1<<63)
}

// kafka is the same batch of the gateway's producer.
func kafka(epoch batchfmt.Epoch, base, last batchfmt.Seq) Identity {
	id := ident(epoch, base, last)
	id.PID = gatewayPID
	return id
}

// other is a batch with the identity of id and other bytes.
func other(id Identity) Identity {
	id.Digest ^= 0xff
	return id
}

// laneOf is an opened lane that holds batches of ten, [0..9] at offset 100, [10..19] at
// 110 and so on.
func laneOf(make func(batchfmt.Epoch, batchfmt.Seq, batchfmt.Seq) Identity, epoch batchfmt.Epoch, batches int) *Lane {
	s := New(Limits{})
	pid := make(0, 0, 0).PID
	s.Opened(pid)
	for i := range batchfmt.Seq(batches) {
		s.Apply(make(epoch, i*10, i*10+9), batchfmt.Offset(100+i*10), nil)
	}
	return s.Lane(pid)
}

// covered is a suspected lane that was met under an epoch.
func covered(batches int, epoch batchfmt.Epoch) *Lane {
	l := suspected(batches)
	l.covered, l.cover = true, epoch
	return l
}

// suspected is laneOf whose log is lost behind its last batch.
func suspected(batches int) *Lane {
	s := New(Limits{})
	s.Opened(nativePID)
	for i := range batchfmt.Seq(batches) {
		s.Apply(ident(3, i*10, i*10+9), batchfmt.Offset(100+i*10), nil)
	}
	s.Lost(batchfmt.Offset(100+10*batches), batchfmt.Offset(200+10*batches))
	return s.Lane(nativePID)
}

// replayed is an opened native lane that only a control batch speaks of.
func replayed(c batchfmt.Control) *Lane {
	s := New(Limits{})
	s.Opened(nativePID)
	s.replayControl(nativePID, c)
	return s.Lane(nativePID)
}

func looked(f Finding) Evidence {
	ev := settled
	ev.LookedUp = f
	return ev
}

type decideRow struct {
	name  string // the reason
	right Right
	lane  *Lane
	id    Identity
	ev    Evidence
	want  Verdict
}

func runDecide(t *testing.T, rows []decideRow) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := Decide(r.right, r.lane, r.id, r.ev); got != r.want {
				t.Errorf("got  %+v\nwant %+v", got, r.want)
			}
		})
	}
}

// TestDecideNative has a lane with [0..59] at offsets 100..159: six batches, of which
// the window holds [10..19] and later ones.
func TestDecideNative(t *testing.T) {
	lane := laneOf(ident, 2, 6)
	opened := laneOf(ident, 0, 0)
	loaded := Evidence{Loaded: true, Durable: 1000, LogEnd: 1000}
	forgotten := Evidence{Loaded: true, Forgotten: true, Durable: 1000, LogEnd: 1000}
	pending := Evidence{Durable: 140}
	lost := Right{Opening: theOpening, CurrentEpoch: 3}
	superseded := Right{Holds: true, Opening: theOpening + 1, CurrentEpoch: 3}
	none := UnknownOffset
	digest := func(base, last batchfmt.Seq) batchfmt.Digest { return digestOf(2, base, last) }

	runDecide(t, []decideRow{
		{"0: a lane nobody looked for is loaded", holder, nil, ident(2, 0, 9), Evidence{}, Verdict{Kind: Load, Row: 0, Offset: none}},
		{"0: an opened lane without history is loaded too", holder, opened, ident(2, 0, 9), Evidence{}, Verdict{Kind: Load, Row: 0, Offset: none}},
		{"0: comes before the right", lost, nil, ident(2, 0, 9), Evidence{}, Verdict{Kind: Load, Row: 0, Offset: none}},

		{"1: the id was lost, the batch is stored", lost, lane, ident(2, 50, 59), settled, Verdict{Kind: Fenced, Row: 1, Offset: 150, Epoch: 3, Fate: FateStored}},
		{"1: a pending batch is not called stored", lost, lane, ident(2, 50, 59), pending, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},
		{"1: another batch holds the range", lost, lane, other(ident(2, 50, 59)), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3, Fate: FateNever}},
		{"1: another pending batch may still be lost", lost, lane, other(ident(2, 50, 59)), pending, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},
		{"1: a later batch of a passed epoch can never come", lost, lane, ident(1, 60, 69), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3, Fate: FateNever}},
		{"1: a later batch of the lane's epoch still can", lost, lane, ident(2, 60, 69), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},
		{"1: behind the window it is not looked up", lost, lane, ident(2, 0, 9), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},
		{"1: a newer opening took the lane", superseded, lane, ident(2, 60, 69), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},
		{"1: no opening is no right", Right{Holds: true, CurrentEpoch: 3}, nil, ident(2, 0, 9), loaded, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},
		{"1: of a lane without history too", superseded, opened, ident(2, 0, 9), loaded, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},
		{"1: the lane epoch is named when it is higher", Right{CurrentEpoch: 1}, lane, ident(1, 60, 69), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 2, Fate: FateNever}},
		{"1: a native stream has no gateway lane", holder, laneOf(kafka, 2, 1), kafka(2, 10, 19), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}},

		{"4: the newest is pending", holder, lane, ident(2, 50, 59), pending, Verdict{Kind: Attach, Row: 4, Offset: 150, Want: digest(50, 59), Have: digest(50, 59)}},
		{"4: the durable end stands before it", holder, lane, ident(2, 40, 49), pending, Verdict{Kind: Attach, Row: 4, Offset: 140, Want: digest(40, 49), Have: digest(40, 49)}},
		{"4: without evidence everything is pending", holder, lane, ident(2, 10, 19), Evidence{}, Verdict{Kind: Attach, Row: 4, Offset: 110, Want: digest(10, 19), Have: digest(10, 19)}},

		{"5: the durable end stands behind it", holder, lane, ident(2, 30, 39), pending, Verdict{Kind: Duplicate, Row: 5, Offset: 130, Want: digest(30, 39), Have: digest(30, 39), Verified: true}},
		{"5: the newest", holder, lane, ident(2, 50, 59), settled, Verdict{Kind: Duplicate, Row: 5, Offset: 150, Want: digest(50, 59), Have: digest(50, 59), Verified: true}},
		{"5: the fifth newest", holder, lane, ident(2, 10, 19), settled, Verdict{Kind: Duplicate, Row: 5, Offset: 110, Want: digest(10, 19), Have: digest(10, 19), Verified: true}},

		{"6: same range, other bytes", holder, lane, other(ident(2, 50, 59)), settled, Verdict{Kind: Conflict, Row: 6, Offset: 150, Want: digest(50, 59), Have: digest(50, 59) ^ 0xff, SameRange: true}},
		{"6: same range, other epoch", holder, lane, ident(3, 50, 59), settled, Verdict{Kind: Conflict, Row: 6, Offset: 150, Want: digest(50, 59), Have: digestOf(3, 50, 59), SameRange: true}},
		{"6: same range, other bytes, pending", holder, lane, other(ident(2, 50, 59)), pending, Verdict{Kind: Conflict, Row: 6, Offset: 150, Want: digest(50, 59), Have: digest(50, 59) ^ 0xff, SameRange: true}},
		{"6: shorter", holder, lane, ident(2, 50, 54), settled, Verdict{Kind: Conflict, Row: 6, Offset: 150, Want: digest(50, 59), Have: digest(50, 54)}},
		{"6: longer, the tail is not appended", holder, lane, ident(2, 50, 64), settled, Verdict{Kind: Conflict, Row: 6, Offset: 150, Want: digest(50, 59), Have: digest(50, 64)}},
		{"6: overlaps the end", holder, lane, ident(2, 55, 64), settled, Verdict{Kind: Conflict, Row: 6, Offset: 150, Want: digest(50, 59), Have: digest(55, 64)}},
		{"6: covers two of the window", holder, lane, ident(2, 40, 59), settled, Verdict{Kind: Conflict, Row: 6, Offset: 140, Want: digest(40, 49), Have: digest(40, 59)}},
		{"6: the end of one and the start of the next", holder, lane, ident(2, 25, 34), settled, Verdict{Kind: Conflict, Row: 6, Offset: 120, Want: digest(20, 29), Have: digest(25, 34)}},
		{"6: reaches into the window from behind", holder, lane, ident(2, 5, 14), settled, Verdict{Kind: Conflict, Row: 6, Offset: 110, Want: digest(10, 19), Have: digest(5, 14)}},
		{"6: everything and more", holder, lane, ident(2, 0, 99), settled, Verdict{Kind: Conflict, Row: 6, Offset: 110, Want: digest(10, 19), Have: digest(0, 99)}},
		{"6: over L where no batch is remembered", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, Last: 59}), ident(2, 50, 64), settled, Verdict{Kind: Conflict, Row: 6, Offset: none, Have: digest(50, 64)}},
		{"6: over the floor", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, Floor: 40, Last: 59}), ident(2, 35, 44), settled, Verdict{Kind: Conflict, Row: 6, Offset: none, Have: digest(35, 44)}},
		{"6: the floor is its last sequence", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, Floor: 40, Last: 59}), ident(2, 35, 40), settled, Verdict{Kind: Conflict, Row: 6, Offset: none, Have: digest(35, 40)}},
		{"8: one below the floor is the last sequence", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, Floor: 40, Last: 59}), ident(2, 35, 39), settled, Verdict{Kind: UnknownOutcome, Row: 8, Offset: none}},
		{"6: from below the floor to beyond L", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, Floor: 40, Last: 39}), ident(2, 35, 44), settled, Verdict{Kind: Conflict, Row: 6, Offset: none, Have: digest(35, 44)}},

		{"7: the sixth newest is looked up", holder, lane, ident(2, 0, 9), settled, Verdict{Kind: LookUp, Row: 7, Offset: none}},
		{"7: found, the same", holder, lane, ident(2, 0, 9), looked(Finding{FoundBatch, 100, 0, 9, digest(0, 9)}), Verdict{Kind: Duplicate, Row: 7, Offset: 100, Want: digest(0, 9), Have: digest(0, 9), Verified: true}},
		{"7: found, and pending", holder, lane, ident(2, 0, 9), Evidence{Durable: 100, LookedUp: Finding{FoundBatch, 100, 0, 9, digest(0, 9)}}, Verdict{Kind: Attach, Row: 7, Offset: 100, Want: digest(0, 9), Have: digest(0, 9)}},
		{"7: found, other bytes", holder, lane, other(ident(2, 0, 9)), looked(Finding{FoundBatch, 100, 0, 9, digest(0, 9)}), Verdict{Kind: Conflict, Row: 7, Offset: 100, Want: digest(0, 9), Have: digest(0, 9) ^ 0xff, SameRange: true}},
		{"7: found, other boundaries", holder, lane, ident(2, 2, 5), looked(Finding{FoundBatch, 100, 0, 9, digest(0, 9)}), Verdict{Kind: Conflict, Row: 7, Offset: 100, Want: digest(0, 9), Have: digest(2, 5)}},
		{"7: found something else altogether", holder, lane, ident(2, 0, 4), looked(Finding{FoundBatch, 100, 5, 9, digest(5, 9)}), Verdict{Kind: UnknownOutcome, Row: 7, Offset: none}},
		{"7: removed by retention", holder, lane, ident(2, 0, 9), looked(Finding{Found: FoundRemoved}), Verdict{Kind: Duplicate, Row: 7, Offset: none, Have: digest(0, 9)}},
		{"7: damaged", holder, lane, ident(2, 0, 9), looked(Finding{Found: FoundDamaged, BaseOffset: 96}), Verdict{Kind: Damaged, Row: 7, Offset: 96}},
		{"7: the log has a hole there", holder, lane, ident(2, 0, 9), looked(Finding{Found: FoundNothing}), Verdict{Kind: UnknownOutcome, Row: 7, Offset: none}},
		{"7: only a fence is remembered", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 2, Last: 59}), ident(2, 50, 59), settled, Verdict{Kind: LookUp, Row: 7, Offset: none}},
		{"7: evidence does not touch other rows", holder, lane, ident(2, 60, 69), looked(Finding{Found: FoundDamaged}), Verdict{Kind: Accept, Row: 9, Offset: none, Expected: 60}},

		{"8: next, where the log is lost", holder, suspected(2), ident(3, 20, 29), settled, Verdict{Kind: UnknownOutcome, Row: 8, Offset: none}},
		{"8: further on, where the log is lost", holder, suspected(2), ident(3, 40, 49), settled, Verdict{Kind: UnknownOutcome, Row: 8, Offset: none}},
		{"5: stored before the log was lost", holder, suspected(2), ident(3, 10, 19), settled, Verdict{Kind: Duplicate, Row: 5, Offset: 110, Want: digestOf(3, 10, 19), Have: digestOf(3, 10, 19), Verified: true}},
		{"8: a new epoch, where nobody knows which ones were lost", Right{Holds: true, Opening: theOpening, CurrentEpoch: 4}, suspected(2), ident(4, 20, 29), settled, Verdict{Kind: UnknownOutcome, Row: 8, Offset: none}},
		{"8: an epoch that may have been lost", Right{Holds: true, Opening: theOpening, CurrentEpoch: 5}, covered(2, 4), ident(4, 20, 29), settled, Verdict{Kind: UnknownOutcome, Row: 8, Offset: none}},
		{"8: an epoch that was there", Right{Holds: true, Opening: theOpening, CurrentEpoch: 5}, covered(2, 1), ident(3, 20, 29), settled, Verdict{Kind: UnknownOutcome, Row: 8, Offset: none}},
		{"9: a new epoch begins behind what is lost", Right{Holds: true, Opening: theOpening, CurrentEpoch: 5}, covered(2, 4), ident(5, 20, 29), settled, Verdict{Kind: Accept, Row: 9, Offset: none, Expected: 20}},
		{"8: below the floor", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, Floor: 40, Last: 59}), ident(2, 30, 39), settled, Verdict{Kind: UnknownOutcome, Row: 8, Offset: none}},

		{"9: the next one", holder, lane, ident(2, 60, 69), settled, Verdict{Kind: Accept, Row: 9, Offset: none, Expected: 60}},
		{"9: the next one, while others are pending", holder, lane, ident(2, 60, 69), pending, Verdict{Kind: Accept, Row: 9, Offset: none, Expected: 60}},
		{"9: under a higher epoch", holder, lane, ident(3, 60, 60), settled, Verdict{Kind: Accept, Row: 9, Offset: none, Expected: 60}},
		{"9: sealed below the lane epoch", holder, lane, ident(1, 60, 69), settled, Verdict{Kind: Fenced, Row: 9, Offset: none, Epoch: 3, Fate: FateNever}},
		{"9: sealed below a fence", Right{Holds: true, Opening: theOpening, CurrentEpoch: 1}, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 2, Last: -1}), ident(1, 0, 9), settled, Verdict{Kind: Fenced, Row: 9, Offset: none, Epoch: 2, Fate: FateNever}},
		{"9: sealed at the fence's minimum", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 2, Last: -1}), ident(2, 0, 9), settled, Verdict{Kind: Accept, Row: 9, Offset: none, Expected: 0}},
		{"9: sealed under an epoch that nobody issued", holder, lane, ident(4, 60, 69), settled, Verdict{Kind: Fenced, Row: 9, Offset: none, Epoch: 3}},

		{"10: one sequence too far", holder, lane, ident(2, 61, 69), settled, Verdict{Kind: Gap, Row: 10, Offset: none, Expected: 60}},
		{"10: as far as sequences go", holder, lane, ident(2, math.MaxInt64, math.MaxInt64), settled, Verdict{Kind: Gap, Row: 10, Offset: none, Expected: 60}},
		{"10: a fenced lane without batches starts at its floor", holder, replayed(batchfmt.Control{Kind: batchfmt.ControlFence, Last: -1}), ident(2, 5, 9), settled, Verdict{Kind: Gap, Row: 10, Offset: none, Expected: 0}},

		{"11: a new lane", holder, opened, ident(2, 0, 9), loaded, Verdict{Kind: Accept, Row: 11, Offset: none, NewNumbering: true}},
		{"11: not under an epoch that nobody issued", holder, opened, ident(4, 0, 9), loaded, Verdict{Kind: Fenced, Row: 11, Offset: none, Epoch: 3}},

		{"12: something was forgotten, the log is asked", holder, opened, ident(2, 0, 9), forgotten, Verdict{Kind: LookUp, Row: 12, Offset: none}},
		{"12: in the middle of a lane", holder, opened, ident(2, 10, 19), loaded, Verdict{Kind: Gap, Row: 12, Offset: none}},
		{"12: in the middle of a lane, something forgotten", holder, opened, ident(2, 10, 19), forgotten, Verdict{Kind: LookUp, Row: 12, Offset: none}},
		{"12: in the middle, of a partition never written", holder, opened, ident(2, 10, 19), Evidence{Loaded: true}, Verdict{Kind: Gap, Row: 12, Offset: none}},

		{"no identity: negative base", holder, lane, ident(2, -1, 9), settled, Verdict{Kind: Invalid, Row: RowInvalid, Offset: none}},
		{"no identity: smallest base", holder, lane, ident(2, math.MinInt64, math.MaxInt64), settled, Verdict{Kind: Invalid, Row: RowInvalid, Offset: none}},
		{"no identity: last below base", holder, lane, ident(2, 60, 59), settled, Verdict{Kind: Invalid, Row: RowInvalid, Offset: none}},
		{"no identity: no producer", holder, lane, Identity{Base: 60, Last: 69}, settled, Verdict{Kind: Invalid, Row: RowInvalid, Offset: none}},
		{"nothing at all", Right{}, nil, Identity{}, Evidence{}, Verdict{Kind: Invalid, Row: RowInvalid, Offset: none}},
	})
}

// TestDecideGateway has the same lane, written by a Kafka client in epoch 2.
func TestDecideGateway(t *testing.T) {
	lane := laneOf(kafka, 2, 6)
	loaded := Evidence{Loaded: true, LogEnd: 1000}
	forgotten := Evidence{Loaded: true, Forgotten: true, LogEnd: 1000}
	foreign := Right{Gateway: true, Foreign: true}
	none := UnknownOffset
	digest := func(base, last batchfmt.Seq) batchfmt.Digest { return digestOf(2, base, last) }

	runDecide(t, []decideRow{
		{"0: unknown", gateway, nil, kafka(2, 0, 9), Evidence{}, Verdict{Kind: Load, Row: 0, Offset: none}},

		{"1: older epoch", gateway, lane, kafka(1, 60, 69), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 2}},
		{"1: older epoch, a range that means another numbering", gateway, lane, kafka(1, 50, 59), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 2}},
		{"1: the gateway has no native lane", gateway, laneOf(ident, 2, 6), ident(2, 60, 69), settled, Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 2}},
		{"1: neither when it is unknown", gateway, nil, ident(2, 0, 9), loaded, Verdict{Kind: Fenced, Row: 1, Offset: none}},

		{"2: newer epoch, going on with the old numbering", gateway, lane, kafka(3, 60, 69), settled, Verdict{Kind: Gap, Row: 2, Offset: none}},
		{"2: newer epoch, in the range of the window", gateway, lane, kafka(3, 50, 59), settled, Verdict{Kind: Gap, Row: 2, Offset: none}},

		{"3: newer epoch, base 0", gateway, lane, kafka(3, 0, 9), settled, Verdict{Kind: Accept, Row: 3, Offset: none, NewNumbering: true}},
		{"3: epochs may be skipped", gateway, lane, kafka(30, 0, 9), settled, Verdict{Kind: Accept, Row: 3, Offset: none, NewNumbering: true}},

		{"4: pending", gateway, lane, kafka(2, 50, 59), Evidence{Durable: 150}, Verdict{Kind: Attach, Row: 4, Offset: 150, Want: digest(50, 59), Have: digest(50, 59)}},
		{"5: of the window", gateway, lane, kafka(2, 10, 19), settled, Verdict{Kind: Duplicate, Row: 5, Offset: 110, Want: digest(10, 19), Have: digest(10, 19), Verified: true}},
		{"6: same range encoded anew", gateway, lane, other(kafka(2, 50, 59)), settled, Verdict{Kind: Conflict, Row: 6, Offset: 150, Want: digest(50, 59), Have: digest(50, 59) ^ 0xff, SameRange: true}},
		{"7: behind the window", gateway, lane, kafka(2, 0, 9), settled, Verdict{Kind: LookUp, Row: 7, Offset: none}},
		{"9: the next one", gateway, lane, kafka(2, 60, 69), settled, Verdict{Kind: Accept, Row: 9, Offset: none, Expected: 60}},
		{"10: a gap", gateway, lane, kafka(2, 70, 79), settled, Verdict{Kind: Gap, Row: 10, Offset: none, Expected: 60}},
		{"11: a new lane, whatever its epoch", gateway, nil, kafka(9, 0, 9), loaded, Verdict{Kind: Accept, Row: 11, Offset: none, NewNumbering: true}},

		{"12: base 0, something forgotten", gateway, nil, kafka(2, 0, 9), forgotten, Verdict{Kind: LookUp, Row: 12, Offset: none}},
		{"12: in the middle, never written", gateway, nil, kafka(2, 10, 19), Evidence{Loaded: true}, Verdict{Kind: Gap, Row: 12, Offset: none}},
		{"12: in the middle, nothing forgotten", gateway, nil, kafka(2, 10, 19), loaded, Verdict{Kind: Accept, Row: 12, Offset: none, Expected: 10, NewNumbering: true, WithoutHistory: true}},
		{"12: in the middle, something forgotten", gateway, nil, kafka(2, 10, 19), forgotten, Verdict{Kind: LookUp, Row: 12, Offset: none}},
		{"12: in the middle, foreign, something forgotten", foreign, nil, kafka(2, 10, 19), forgotten, Verdict{Kind: Accept, Row: 12, Offset: none, Expected: 10, NewNumbering: true, WithoutHistory: true}},
	})
}

// TestDecideForgotten: something was forgotten that could be the lane, and the log was asked.
// Its [10..19] stands at offset 110, and nothing says whether that is where it ended.
func TestDecideForgotten(t *testing.T) {
	opened := laneOf(ident, 0, 0)
	none := UnknownOffset
	digest := digestOf(2, 10, 19)
	found := Finding{FoundBatch, 110, 10, 19, digest}
	forgotten := func(f Finding, durable batchfmt.Offset) Evidence {
		return Evidence{Loaded: true, Forgotten: true, Durable: durable, LogEnd: 1000, LookedUp: f}
	}
	there, nothing := forgotten(found, 1000), forgotten(Finding{Found: FoundNothing}, 1000)
	unknown := Verdict{Kind: UnknownProducer, Row: 12, Offset: none}
	fenced := Verdict{Kind: Fenced, Row: 1, Offset: none, Epoch: 3}

	runDecide(t, []decideRow{
		{"the same", holder, opened, ident(2, 10, 19), there, Verdict{Kind: Duplicate, Row: 12, Offset: 110, Want: digest, Have: digest, Verified: true}},
		{"the same, not durable", holder, opened, ident(2, 10, 19), forgotten(found, 110), Verdict{Kind: Attach, Row: 12, Offset: 110, Want: digest, Have: digest}},
		{"other bytes", holder, opened, other(ident(2, 10, 19)), there, Verdict{Kind: Conflict, Row: 12, Offset: 110, Want: digest, Have: digest ^ 0xff, SameRange: true}},
		{"another epoch", holder, opened, ident(3, 10, 19), there, Verdict{Kind: Conflict, Row: 12, Offset: 110, Want: digest, Have: digestOf(3, 10, 19), SameRange: true}},
		{"a part of it", holder, opened, ident(2, 12, 14), there, Verdict{Kind: Conflict, Row: 12, Offset: 110, Want: digest, Have: digestOf(2, 12, 14)}},
		{"from below it into it", holder, opened, ident(2, 0, 10), there, Verdict{Kind: Conflict, Row: 12, Offset: 110, Want: digest, Have: digestOf(2, 0, 10)}},
		{"out of it", holder, opened, ident(2, 19, 29), there, Verdict{Kind: Conflict, Row: 12, Offset: 110, Want: digest, Have: digestOf(2, 19, 29)}},
		{"what follows it is not taken: a fence may have passed", holder, opened, ident(2, 20, 29), there, unknown},
		{"nor under a new epoch: it may have gone on", holder, opened, ident(3, 20, 29), there, unknown},
		{"what is not found may have been stored", holder, opened, ident(2, 20, 29), nothing, unknown},
		{"the first batch too", holder, opened, ident(2, 0, 9), nothing, unknown},
		{"that retention has removed something proves nothing", holder, opened, ident(2, 0, 9), forgotten(Finding{Found: FoundRemoved}, 1000), unknown},
		{"it is there and cannot be read", holder, opened, ident(2, 10, 19), forgotten(Finding{Found: FoundDamaged, BaseOffset: 110}, 1000), Verdict{Kind: Damaged, Row: 12, Offset: 110}},
		{"nobody looks for who has no right", Right{CurrentEpoch: 3}, opened, ident(2, 10, 19), forgotten(Finding{}, 1000), fenced},
		{"nor is he told of what was found", Right{CurrentEpoch: 3}, opened, ident(2, 10, 19), there, fenced},

		{"a Kafka client's, the same", gateway, nil, kafka(2, 10, 19), there, Verdict{Kind: Duplicate, Row: 12, Offset: 110, Want: digest, Have: digest, Verified: true}},
		{"a Kafka client's, of another numbering", gateway, nil, kafka(3, 10, 19), there, unknown},
		{"a Kafka client's, the first of a numbering", gateway, nil, kafka(3, 0, 9), nothing, unknown},
	})
}

// A new incarnation starts with an empty window and its own floor; the old one is
// fenced and none of its batches is taken for one of the new.
func TestDecideAfterNewIncarnation(t *testing.T) {
	s := New(Limits{})
	for i := range batchfmt.Seq(6) {
		s.Apply(kafka(2, i*10, i*10+9), batchfmt.Offset(i*10), nil)
	}
	s.Apply(kafka(3, 0, 4), 60, nil)
	lane := s.Lane(gatewayPID)
	if lane.Epoch() != 3 || lane.Floor() != 0 || lane.Last() != 4 || lane.LastOffset() != 64 {
		t.Fatalf("epoch %d, floor %d, last %d at %d", lane.Epoch(), lane.Floor(), lane.Last(), lane.LastOffset())
	}
	runDecide(t, []decideRow{
		{"retry of the new one", gateway, lane, kafka(3, 0, 4), settled, Verdict{Kind: Duplicate, Row: 5, Offset: 60, Want: digestOf(3, 0, 4), Have: digestOf(3, 0, 4), Verified: true}},
		{"retry of the old one", gateway, lane, kafka(2, 50, 59), settled, Verdict{Kind: Fenced, Row: 1, Offset: UnknownOffset, Epoch: 3}},
		{"the next of the new one", gateway, lane, kafka(3, 5, 9), settled, Verdict{Kind: Accept, Row: 9, Offset: UnknownOffset, Expected: 5}},
		{"the numbering does not go on", gateway, lane, kafka(3, 60, 69), settled, Verdict{Kind: Gap, Row: 10, Offset: UnknownOffset, Expected: 5}},
	})
}

func TestVerdictString(t *testing.T) {
	for want, v := range map[string]Verdict{
		"invalid":                              {},
		"load":                                 {Kind: Load},
		"look-up":                              {Kind: LookUp},
		"accept":                               {Kind: Accept},
		"accept: new numbering":                {Kind: Accept, NewNumbering: true},
		"gap: expected 7":                      {Kind: Gap, Expected: 7},
		"duplicate of offset 12":               {Kind: Duplicate, Offset: 12},
		"unknown outcome":                      {Kind: UnknownOutcome},
		"unknown producer":                     {Kind: UnknownProducer},
		"fenced: epoch 3":                      {Kind: Fenced, Epoch: 3},
		"kind(99)":                             {Kind: 99},
		"fenced: epoch 3, never stored":        {Kind: Fenced, Epoch: 3, Fate: FateNever},
		"fenced: epoch 3, stored at offset 12": {Kind: Fenced, Epoch: 3, Fate: FateStored, Offset: 12},
		"attach to offset 12, not yet durable": {Kind: Attach, Offset: 12},
		"accept without history: lane starts at 10":                                                 {Kind: Accept, NewNumbering: true, WithoutHistory: true, Expected: 10},
		"damaged: was stored, now unreadable at offset 12":                                          {Kind: Damaged, Offset: 12},
		"conflict: the range of digest 00000000000000ab crosses what is stored":                     {Kind: Conflict, Offset: UnknownOffset, Have: 0xab},
		"conflict with offset 12: digest 00000000000000cd is stored, this one has 00000000000000ab": {Kind: Conflict, Offset: 12, Want: 0xcd, Have: 0xab},
		"duplicate, offset unknown, not verified: the original was removed":                         {Kind: Duplicate, Offset: UnknownOffset},
	} {
		if got := v.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	lane := laneOf(ident, 2, 6)
	ids := []Identity{ident(2, 60, 69), ident(2, 50, 59), other(ident(2, 50, 59)), ident(2, 0, 9), ident(1, 60, 69), ident(2, 99, 99)}
	ev := looked(Finding{FoundBatch, 100, 0, 9, digestOf(2, 0, 9)})
	var v Verdict
	if n := testing.AllocsPerRun(100, func() {
		for _, id := range ids {
			v = Decide(holder, lane, id, ev)
			v = Decide(Right{}, lane, id, ev)
			v = Decide(holder, nil, id, Evidence{Loaded: true})
		}
	}); n != 0 {
		t.Errorf("Decide allocates %v times, last verdict %v", n, v)
	}
}
