package producerstate

import (
	"bytes"
	"math"
	"runtime"
	"testing"
	"unsafe"

	"github.com/quoin-io/quoin/batchfmt"
)

func TestWindowIsFiveDeep(t *testing.T) {
	s := New(Limits{})
	for i := range batchfmt.Seq(20) {
		s.Apply(ident(0, i*10, i*10+9), batchfmt.Offset(i*10), nil)
		for back := range min(i+1, 8) {
			base := (i - back) * 10
			want := Duplicate
			if back >= WindowSize {
				want = LookUp
			}
			s.Lane(nativePID).opening = theOpening
			if v := Decide(holder, s.Lane(nativePID), ident(0, base, base+9), settled); v.Kind != want {
				t.Fatalf("after %d batches, %d back: %v, want %v", i+1, back, v, want)
			}
		}
	}
}

func TestRollbackGivesBackWhatWasBeforeBegin(t *testing.T) {
	s := New(Limits{})
	pid := func(id Identity, p batchfmt.ProducerID) Identity { id.PID = p; return id }
	s.Apply(ident(1, 0, 9), 0, []byte("before"))
	s.Apply(pid(ident(1, 0, 9), 8), 10, nil)
	kept := s.Opened(9)
	before := AppendSnapshot(nil, s, testPartition, 1000)

	s.Begin()
	for i := range batchfmt.Seq(7) {
		s.Apply(ident(2, 10+i, 10+i), batchfmt.Offset(20+i), []byte("during"))
	}
	s.Apply(pid(ident(0, 0, 9), 9), 30, nil)
	s.Apply(pid(ident(0, 0, 9), 10), 40, nil)
	s.replayControl(8, batchfmt.Control{Kind: batchfmt.ControlClose, MinEpoch: 9, Last: 9})
	reopened := s.Opened(nativePID)
	s.Confirm(nativePID, 16)
	s.Rollback()

	if after := AppendSnapshot(nil, s, testPartition, 1000); !bytes.Equal(before[:snapHeaderSize], after[:snapHeaderSize]) || s.Lane(nativePID).Confirmed() != 9 {
		t.Error("the group left something behind")
	}
	want, _, err := ParseSnapshot(before, &testPartition)
	if err != nil || !Equal(s, want) {
		t.Errorf("the lanes differ from those before the group (%v)", err)
	}
	if s.Lane(10) != nil {
		t.Error("a lane that the group created is still there")
	}
	if l := s.Lane(9); l == nil || l.Known() || l.Opening() != kept {
		t.Error("the opened lane is not what it was")
	}
	if s.Lane(nativePID).Opening() != reopened {
		t.Error("an opening was undone with the write")
	}
}

func TestRollbackDropsALaneThatWasReleasedMeanwhile(t *testing.T) {
	s := New(Limits{})
	opening := s.Opened(nativePID)
	s.Begin()
	s.Apply(ident(0, 0, 9), 0, nil)
	s.Released(nativePID, opening)
	s.Rollback()
	if s.Len() != 0 {
		t.Errorf("%d lanes are left", s.Len())
	}
}

func TestCommitKeepsTheGroup(t *testing.T) {
	s := New(Limits{})
	s.Begin()
	s.Apply(ident(0, 0, 9), 0, nil)
	s.Commit()
	s.Begin()
	s.Apply(ident(0, 10, 19), 10, nil)
	s.Rollback()
	s.Rollback() // without a group it does nothing
	if l := s.Lane(nativePID); l.Last() != 9 || l.LastOffset() != 9 {
		t.Errorf("last is %d at %d, the committed group ended with 9", l.Last(), l.LastOffset())
	}
}

func TestALargeGroupGivesItsRoomBack(t *testing.T) {
	s := New(Limits{})
	s.Begin()
	for i := range batchfmt.ProducerID(10 * keptUndo) {
		id := ident(0, 0, 9)
		id.PID = i + 1
		s.Apply(id, batchfmt.Offset(i*10), nil)
	}
	s.Commit()
	if cap(s.undo) > keptUndo {
		t.Errorf("room for %d records is kept", cap(s.undo))
	}
}

func TestBeginWithinAGroupPanics(t *testing.T) {
	s := New(Limits{})
	s.Begin()
	defer func() {
		if recover() == nil {
			t.Error("it did not")
		}
	}()
	s.Begin()
}

func TestApplyPassesOverWhatNoBatchCanBe(t *testing.T) {
	s := New(Limits{})
	s.Apply(ident(0, -1, 9), 0, nil)
	s.Apply(ident(0, 5, 4), 0, nil)
	s.Apply(ident(0, 0, 9), -1, nil)
	s.Apply(Identity{Last: 9}, 0, nil)
	if s.Len() != 0 {
		t.Errorf("%d lanes were made", s.Len())
	}
	s.Apply(ident(0, 0, 9), 0, []byte("a"))
	s.Apply(ident(0, 10, 19), 10, make([]byte, batchfmt.MaxPositionBytes+1))
	if got := s.Lane(nativePID).Position(); string(got) != "a" {
		t.Errorf("the position is %q", got)
	}
}

func TestPositionIsTheLastThatABatchCarried(t *testing.T) {
	s := New(Limits{})
	for _, r := range []struct{ carried, want []byte }{
		{nil, nil},
		{[]byte("long position"), []byte("long position")},
		{nil, []byte("long position")},
		{[]byte("short"), []byte("short")},
		{[]byte{}, []byte{}},
		{bytes.Repeat([]byte{'x'}, batchfmt.MaxPositionBytes), bytes.Repeat([]byte{'x'}, batchfmt.MaxPositionBytes)},
	} {
		next := s.Lane(nativePID).Last() + 1
		s.Apply(ident(0, next, next), batchfmt.Offset(next), r.carried)
		got := s.Lane(nativePID).Position()
		if !bytes.Equal(got, r.want) || (got == nil) != (r.want == nil) {
			t.Errorf("after %q the position is %q, want %q", r.carried, got, r.want)
		}
	}
}

func TestOpeningNumbersAreNeverGivenTwice(t *testing.T) {
	s := New(Limits{})
	seen := map[uint64]bool{0: true}
	for range 3 {
		for pid := range batchfmt.ProducerID(4) {
			opening := s.Opened(pid + 1)
			if seen[opening] {
				t.Fatalf("opening %d was given twice, or is none", opening)
			}
			seen[opening] = true
			if pid%2 == 0 {
				s.Released(pid+1, opening)
			}
		}
	}
	if got := s.Opened(batchfmt.NoProducer); got != 0 {
		t.Errorf("no producer got opening %d", got)
	}
}

func TestReleasedLaneWithoutHistoryLeaves(t *testing.T) {
	s := New(Limits{})
	first := s.Opened(nativePID)
	second := s.Opened(nativePID)
	if s.Released(nativePID, first); s.Len() != 1 {
		t.Fatal("the release of an older opening took the lane")
	}
	if s.Released(nativePID, second); s.Len() != 0 {
		t.Fatal("the lane stays without stream and without history")
	}
	s.Released(nativePID, second)

	// The stream that was released has no right to the lane when another one opens it.
	third := s.Opened(nativePID)
	loaded := Evidence{Loaded: true}
	for opening, want := range map[uint64]Kind{first: Fenced, second: Fenced, third: Accept} {
		if v := Decide(Right{Holds: true, Opening: opening}, s.Lane(nativePID), ident(0, 0, 9), loaded); v.Kind != want {
			t.Errorf("opening %d: %v, want %v", opening, v, want)
		}
	}
	s.Apply(ident(0, 0, 9), 0, nil)
	if s.Released(nativePID, third); s.Len() != 1 || s.Lane(nativePID).Open() {
		t.Error("a lane with a history stays when its stream ends, and is not open")
	}
}

func TestLimitRefusesNewcomersOnly(t *testing.T) {
	s := New(Limits{MaxLanes: 2})
	s.Opened(1)
	id := ident(0, 0, 9)
	id.PID = 2
	s.Apply(id, 0, nil)
	for pid, want := range map[batchfmt.ProducerID]bool{1: false, 2: false, 3: true} {
		if got := s.AtLimit(pid); got != want {
			t.Errorf("producer %d at the limit: %v, want %v", pid, got, want)
		}
	}
	if got := s.Opened(3); got != 0 || s.Len() != 2 {
		t.Errorf("a newcomer at the limit got opening %d", got)
	}
	if s.Opened(2) == 0 {
		t.Error("a lane that is there was refused")
	}
	s.SetLimits(Limits{MaxLanes: 1})
	if s.AtLimit(1) || s.Len() != 2 {
		t.Error("a lower limit took a lane that was there")
	}
	s.SetLimits(Limits{})
	if s.AtLimit(3) || s.Limits().MaxLanes != DefaultMaxLanes {
		t.Error("the default limit does not hold")
	}
	if s.SetLimits(Limits{MaxLanes: math.MaxInt}); s.Limits().MaxLanes != MostLanes {
		t.Error("the limit is not bounded")
	}
}

func TestConfirmIsBoundedByTheLane(t *testing.T) {
	s := New(Limits{})
	s.Confirm(nativePID, 5)
	if s.Len() != 0 {
		t.Error("a confirmation made a lane")
	}
	s.Apply(ident(0, 0, 9), 0, nil)
	for _, r := range []struct{ through, want batchfmt.Seq }{{NoSequence, NoSequence}, {4, 4}, {2, 4}, {100, 9}} {
		s.Confirm(nativePID, r.through)
		if got := s.Lane(nativePID).Confirmed(); got != r.want {
			t.Errorf("confirmed through %d after %d, want %d", got, r.through, r.want)
		}
	}
}

func TestNilLaneIsUnknown(t *testing.T) {
	var l *Lane
	if l.Known() || l.Open() || l.Closed() || l.Epoch() != 0 || l.Floor() != 0 || l.Last() != NoSequence || l.PendingEnd() != 0 ||
		l.LastOffset() != UnknownOffset || l.Position() != nil || l.Opening() != 0 || l.Confirmed() != NoSequence {
		t.Error("a nil lane claims to know something")
	}
}

func TestAllGoesByProducerID(t *testing.T) {
	s := New(Limits{})
	for _, pid := range []batchfmt.ProducerID{9, 3, GatewaySpace, 7} {
		s.Opened(pid)
	}
	var got []batchfmt.ProducerID
	for pid := range s.All() {
		if got = append(got, pid); len(got) == 3 {
			break
		}
	}
	if len(got) != 3 || got[0] != 3 || got[1] != 7 || got[2] != 9 {
		t.Errorf("the order is %v", got)
	}
}

// The default limit must fit into 2 MiB, full windows included.
func TestMemoryOfAFullState(t *testing.T) {
	if size := unsafe.Sizeof(Lane{}); size > 296 {
		t.Errorf("a lane has %d bytes", size)
	}
	before := heap()
	s := New(Limits{})
	for pid := range batchfmt.ProducerID(DefaultMaxLanes) {
		for i := range batchfmt.Seq(WindowSize + 1) {
			id := ident(0, i, i)
			id.PID = pid + 1
			s.Apply(id, batchfmt.Offset(i), nil)
		}
	}
	used := int64(heap()) - int64(before)
	if used > 2<<20 {
		t.Errorf("%d lanes take %d bytes", s.Len(), used)
	}
	t.Logf("%d lanes take %d bytes, %d each", s.Len(), used, used/int64(s.Len()))
	runtime.KeepAlive(s)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestLostPartOfTheLog(t *testing.T) {
	s := New(Limits{})
	s.Apply(ident(3, 0, 9), 100, nil)
	s.Apply(Identity{PID: 8, Base: 0, Last: 9}, 110, nil)
	s.Apply(ident(3, 30, 39), 300, nil) // 10 to 29 are in the hole
	s.Lost(120, 300)
	s.Forget(20)
	if s.Lane(nativePID).hidden(ident(3, 40, 49)) {
		t.Error("a lane that goes on behind the hole is suspected")
	}
	if !s.Lane(8).hidden(Identity{PID: 8, Base: 10, Last: 19}) {
		t.Error("a lane that may have ended in the hole is not suspected")
	}
	for pid, want := range map[batchfmt.ProducerID]bool{9: true, 20: true, 21: false, GatewaySpace + 20: true, GatewaySpace + 21: false} {
		if got := s.MayHaveForgotten(pid); got != want {
			t.Errorf("producer %d may have been forgotten: %v", pid, got)
		}
	}
	s.Apply(Identity{PID: 8, Epoch: 1, Base: 10, Last: 19}, 310, nil)
	if s.Lane(8).hidden(Identity{PID: 8, Epoch: 1, Base: 20, Last: 29}) {
		t.Error("a new epoch is still suspected")
	}
	s.Forget(5)
	if s.Forgotten() != 20 {
		t.Error("what was forgotten came back")
	}
}
