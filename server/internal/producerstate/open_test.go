package producerstate

import (
	"bytes"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

func sent(s batchfmt.Seq) *batchfmt.Seq { return &s }

// ackOf acknowledges [base..base+9] of the lane that laneOf makes.
func ackOf(base batchfmt.Seq) *Acked {
	return &Acked{Seq: base + 9, Offset: batchfmt.Offset(100 + base + 9), Digest: digestOf(2, base, base+9)}
}

// TestOpen has a lane with [0..59] at offsets 100..159, the window from [10..19] on.
func TestOpen(t *testing.T) {
	lane := laneOf(ident, 2, 6)
	empty := laneOf(ident, 0, 0)
	fence := replayed(batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 4, Floor: 40, Last: 59})
	loaded := Evidence{Loaded: true}
	forgotten := Evidence{Loaded: true, Forgotten: true}
	full := OpenVerdict{Last: 59, LastOffset: 159, Digest: digestOf(2, 50, 59), Epoch: 2}
	nothing := OpenVerdict{Last: NoSequence, LastOffset: UnknownOffset}
	fenced := OpenVerdict{Last: 59, LastOffset: UnknownOffset, Epoch: 4}
	with := func(v OpenVerdict, change func(*OpenVerdict)) OpenVerdict { change(&v); return v }
	kind := func(v OpenVerdict, k OpenKind) OpenVerdict { v.Kind = k; return v }
	opened := func(v OpenVerdict) OpenVerdict { v.Kind, v.Verified = Opened, true; return v }
	loss := func(v OpenVerdict, expected batchfmt.Seq) OpenVerdict {
		v.Kind, v.Expected = OpenDataLoss, expected
		return v
	}

	for _, r := range []struct {
		name  string
		right Right
		lane  *Lane
		req   OpenRequest
		ev    Evidence
		want  OpenVerdict
	}{
		{"an instance that lost the id", Right{CurrentEpoch: 3}, lane, OpenRequest{Epoch: 3, Fresh: true}, settled, with(nothing, func(v *OpenVerdict) { v.Epoch = 3 })},
		{"an old epoch", holder, lane, OpenRequest{Epoch: 2, Fresh: true}, settled, with(nothing, func(v *OpenVerdict) { v.Epoch = 3 })},
		{"an epoch nobody issued", holder, lane, OpenRequest{Epoch: 4, Fresh: true}, settled, with(nothing, func(v *OpenVerdict) { v.Epoch = 3 })},

		{"not looked for", holder, nil, OpenRequest{Epoch: 3}, Evidence{}, kind(nothing, OpenLoad)},
		{"opened before, never written, not looked for", holder, empty, OpenRequest{Epoch: 3}, Evidence{}, kind(nothing, OpenLoad)},

		{"a new producer", holder, nil, OpenRequest{Epoch: 3}, loaded, opened(nothing)},
		{"a new producer of a partition with a past", holder, nil, OpenRequest{Epoch: 3}, forgotten, opened(nothing)},
		{"all that was sent was lost, provably", holder, empty, OpenRequest{Epoch: 3, Sent: sent(9)}, loaded, opened(nothing)},
		{"what was acknowledged is provably gone", holder, empty, OpenRequest{Epoch: 3, Sent: sent(9), Acked: ackOf(0)}, loaded, loss(nothing, 9)},
		{"sent, and perhaps forgotten", holder, empty, OpenRequest{Epoch: 3, Sent: sent(9)}, forgotten, kind(nothing, OpenUnknownProducer)},
		{"acked, and perhaps forgotten", holder, nil, OpenRequest{Epoch: 3, Acked: ackOf(0)}, forgotten, kind(nothing, OpenUnknownProducer)},
		{"fresh, and perhaps forgotten", holder, nil, OpenRequest{Epoch: 3, Fresh: true}, forgotten, kind(nothing, OpenUnknownProducer)},

		{"pending batches", holder, lane, OpenRequest{Epoch: 3, Fresh: true}, Evidence{Durable: 159}, with(full, func(v *OpenVerdict) { v.Kind, v.Until = OpenWait, 160 })},
		{"exactly durable", holder, lane, OpenRequest{Epoch: 3, Fresh: true}, Evidence{Durable: 160}, opened(full)},

		{"all acknowledged", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(50)}, settled, opened(full)},
		{"the last acknowledgement was lost", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(40)}, settled, opened(full)},
		{"no acknowledgement arrived", holder, lane, OpenRequest{Epoch: 3, Sent: sent(69)}, settled, opened(full)},
		{"no memory", holder, lane, OpenRequest{Epoch: 3, Fresh: true}, settled, opened(full)},

		{"the log is older than the producer", holder, lane, OpenRequest{Epoch: 3, Sent: sent(69), Acked: ackOf(60)}, settled, loss(full, 69)},
		{"another offset", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: &Acked{59, 160, digestOf(2, 50, 59)}}, settled, loss(full, 59)},
		{"another digest", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: &Acked{59, 159, 1}}, settled, loss(full, 59)},
		{"no batch ends there", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: &Acked{55, 155, digestOf(2, 50, 59)}}, settled, loss(full, 55)},
		{"loss is told before a clone", holder, lane, OpenRequest{Epoch: 3, Sent: sent(49), Acked: &Acked{49, 149, 1}}, settled, loss(full, 49)},
		{"a sequence that cannot be", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: &Acked{Seq: -5}}, settled, loss(full, -5)},

		{"somebody else wrote", holder, lane, OpenRequest{Epoch: 3, Sent: sent(49), Acked: ackOf(40)}, settled, with(full, func(v *OpenVerdict) { v.Kind, v.Expected = OpenCloned, 49 })},
		{"somebody else wrote, this one nothing", holder, lane, OpenRequest{Epoch: 3}, settled, with(full, func(v *OpenVerdict) { v.Kind, v.Expected = OpenCloned, NoSequence })},

		{"behind the window", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(0)}, settled, with(full, func(v *OpenVerdict) { v.Kind, v.LookUp = OpenLookUp, 9 })},
		{"behind the window, agrees", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(0)}, looked(Finding{FoundBatch, 100, 0, 9, digestOf(2, 0, 9)}), opened(full)},
		{"behind the window, differs", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(0)}, looked(Finding{FoundBatch, 101, 0, 9, digestOf(2, 0, 9)}), loss(full, 9)},
		{"behind the window, removed", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(0)}, looked(Finding{Found: FoundRemoved}), kind(full, Opened)},
		{"behind the window, unreadable", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(0)}, looked(Finding{Found: FoundDamaged}), kind(full, Opened)},
		{"behind the window, not there", holder, lane, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(0)}, looked(Finding{Found: FoundNothing}), loss(full, 9)},

		{"begun with a fence, where it ends must be looked up", holder, fence, OpenRequest{Epoch: 3, Fresh: true}, settled, with(fenced, func(v *OpenVerdict) { v.Kind, v.LookUp = OpenLookUp, 59 })},
		{"behind a fence it still learns what is stored", holder, fence, OpenRequest{Epoch: 3, Fresh: true}, looked(Finding{FoundBatch, 150, 50, 59, digestOf(2, 50, 59)}),
			opened(with(fenced, func(v *OpenVerdict) { v.LastOffset, v.Digest = 159, digestOf(2, 50, 59) }))},
		{"behind a fence, what was stored is removed", holder, fence, OpenRequest{Epoch: 3, Fresh: true}, looked(Finding{Found: FoundRemoved}), opened(fenced)},
		{"behind a fence, another batch is found", holder, fence, OpenRequest{Epoch: 3, Fresh: true}, looked(Finding{FoundBatch, 140, 40, 49, 7}), opened(fenced)},
		{"of an older numbering nothing can be compared", holder, fence, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(0)}, looked(Finding{Found: FoundDamaged}), kind(fenced, Opened)},
		{"a fence remembers no batch to compare", holder, fence, OpenRequest{Epoch: 3, Sent: sent(59), Acked: ackOf(50)}, settled, with(fenced, func(v *OpenVerdict) { v.Kind, v.LookUp = OpenLookUp, 59 })},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := Open(r.right, r.lane, r.req, r.ev)
			if got.Position != nil {
				t.Errorf("position %q", got.Position)
			}
			if !sameOpening(got, r.want) {
				t.Errorf("got  %+v\nwant %+v", got, r.want)
			}
		})
	}
}

// sameOpening compares everything but positions, which make the type not comparable.
func sameOpening(a, b OpenVerdict) bool {
	return bytes.Equal(a.Position, b.Position) &&
		a.Kind == b.Kind && a.Last == b.Last && a.LastOffset == b.LastOffset &&
		a.Digest == b.Digest && a.Epoch == b.Epoch && a.Expected == b.Expected &&
		a.LookUp == b.LookUp && a.Until == b.Until && a.Verified == b.Verified
}

func TestOpenGivesACopyOfThePosition(t *testing.T) {
	s := New(Limits{})
	s.Apply(ident(0, 0, 9), 0, []byte("row 9"))
	s.Apply(ident(0, 10, 19), 10, nil)
	v := Open(holder, s.Lane(nativePID), OpenRequest{Epoch: 3, Fresh: true}, settled)
	s.Apply(ident(0, 20, 29), 20, []byte("row 29"))
	if string(v.Position) != "row 9" {
		t.Errorf("the position is %q, the last batch that carried one said row 9", v.Position)
	}
	if v = Open(holder, s.Lane(nativePID), OpenRequest{Epoch: 3, Fresh: true}, settled); string(v.Position) != "row 29" {
		t.Errorf("the position is %q", v.Position)
	}
}

func TestOpenVerdictString(t *testing.T) {
	for want, v := range map[string]OpenVerdict{
		"invalid epoch: current is 3":          {Epoch: 3},
		"load":                                 {Kind: OpenLoad},
		"look-up of sequence 9":                {Kind: OpenLookUp, LookUp: 9},
		"wait for durable end 12":              {Kind: OpenWait, Until: 12},
		"opened: last sequence 9 at offset 12": {Kind: Opened, Last: 9, LastOffset: 12},
		"data loss: last sequence is 9, 19 was acknowledged": {Kind: OpenDataLoss, Last: 9, Expected: 19},
		"cloned: last sequence is 19, only 9 was sent":       {Kind: OpenCloned, Last: 19, Expected: 9},
		"unknown producer": {Kind: OpenUnknownProducer},
		"open(99)":         {Kind: 99},
	} {
		if got := v.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
