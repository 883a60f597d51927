package producerstate

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// goldenRow is the row of producer 7 in goldenState. It must be read for ever.
const goldenRow = "" +
	"01 01 02 04 03000000" + // version, closed, two entries, a position of three bytes, epoch 3
	"0000000000000000 1300000000000000" + // floor 0, last 19
	"7700000000000000 0400000000000000" + // last offset 119, confirmed 4
	"0000000000000000 09000000 6400000000000000 0900000000000380" + // [0..9] at 100
	"0a00000000000000 09000000 6e00000000000000 1300000a00000380" + // [10..19] at 110
	"706f73" // "pos"

func TestGoldenRow(t *testing.T) {
	golden, err := hex.DecodeString(strings.ReplaceAll(goldenRow, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	from := goldenState()
	if got := AppendRow([]byte("before"), from.Lane(nativePID)); !bytes.Equal(got, append([]byte("before"), golden...)) {
		t.Errorf("written\n%x, want\n%x", got[len("before"):], golden)
	}
	s := New(Limits{})
	if err := s.Restore(nativePID, Retired{Row: golden}); err != nil {
		t.Fatal(err)
	}
	l, want := s.Lane(nativePID), from.Lane(nativePID)
	if l.history != want.history || l.Confirmed() != want.Confirmed() || l.Opening() != 0 || l.Open() {
		t.Errorf("restored %+v, want %+v", l, want)
	}
	for n := range golden {
		if err := New(Limits{}).Restore(nativePID, Retired{Row: golden[:n]}); err == nil {
			t.Errorf("%d bytes of %d were taken", n, len(golden))
		}
	}
	if err := New(Limits{}).Restore(nativePID, Retired{Row: append(golden, 0)}); err == nil {
		t.Error("a byte too many was taken")
	}
}

func TestLargestRow(t *testing.T) {
	s := New(Limits{})
	for i := range batchfmt.Seq(9) {
		s.Apply(ident(0, i, i), batchfmt.Offset(i), make([]byte, batchfmt.MaxPositionBytes))
	}
	if n := len(AppendRow(nil, s.Lane(nativePID))); n != MaxRowBytes || n > 256 {
		t.Errorf("it has %d bytes", n)
	}
}

func TestRestore(t *testing.T) {
	gone := New(Limits{})
	gone.Apply(ident(2, 0, 9), 100, nil)
	row := AppendRow(nil, gone.Lane(nativePID))
	t.Run("a lane that was only opened keeps its opening", func(t *testing.T) {
		s := New(Limits{})
		n := s.Opened(nativePID)
		if err := s.Restore(nativePID, Retired{Row: row}); err != nil {
			t.Fatal(err)
		}
		if l := s.Lane(nativePID); l.Opening() != n || !l.Open() || l.Last() != 9 || l.Epoch() != 2 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("a lane that is known stays as it is", func(t *testing.T) {
		s := New(Limits{})
		s.Apply(ident(2, 0, 9), 100, nil)
		s.Apply(ident(2, 10, 19), 110, nil)
		if err := s.Restore(nativePID, Retired{Row: row}); err != nil || s.Lane(nativePID).Last() != 19 {
			t.Errorf("%v, last %d", err, s.Lane(nativePID).Last())
		}
	})
	t.Run("a stale row makes it suspect", func(t *testing.T) {
		s := New(Limits{})
		s.Opened(nativePID)
		if err := s.Restore(nativePID, Retired{Row: row, Stale: true}); err != nil {
			t.Fatal(err)
		}
		if v := Decide(holder, s.Lane(nativePID), ident(2, 10, 19), settled); v.Kind != UnknownOutcome {
			t.Errorf("what follows is %v", v)
		}
		if v := Decide(holder, s.Lane(nativePID), ident(2, 0, 9), settled); v.Kind != Duplicate {
			t.Errorf("what the row holds is %v", v)
		}
	})
	t.Run("what was lost behind it makes it suspect", func(t *testing.T) {
		for lost, want := range map[batchfmt.Offset]Kind{109: Accept, 200: UnknownOutcome} {
			s := New(Limits{})
			s.Lost(lost-1, lost)
			s.Opened(nativePID)
			if err := s.Restore(nativePID, Retired{Row: row}); err != nil {
				t.Fatal(err)
			}
			if v := Decide(holder, s.Lane(nativePID), ident(2, 10, 19), settled); v.Kind != want {
				t.Errorf("something was lost below %d: %v, want %v", lost, v, want)
			}
		}
	})
}

// A lane of which only a fence is known comes back as it was.
func TestFenceAloneComesBack(t *testing.T) {
	b, err := batchfmt.Parse(batchfmt.AppendControl(nil, 7, 0, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 1, Floor: 0, Last: -1}))
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(batchfmt.Stamp{BaseOffset: 0})
	s := New(Limits{})
	s.Replay(b)
	row := AppendRow(nil, s.Lane(7))
	back, err := New(Limits{}).Recall(7, Retired{Row: row})
	if err != nil {
		t.Fatal(err)
	}
	if back.Suspect() {
		t.Error("nothing was lost, and the lane is suspect")
	}
}

func FuzzRestore(f *testing.F) {
	golden, err := hex.DecodeString(strings.ReplaceAll(goldenRow, " ", ""))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:rowFixedSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(Limits{})
		if s.Restore(nativePID, Retired{Row: b}) != nil {
			if s.Len() != 0 {
				t.Fatal("a bad row left a lane behind")
			}
			return
		}
		if again := AppendRow(nil, s.Lane(nativePID)); !bytes.Equal(again, b) {
			t.Fatalf("read and written again it is another:\n%x\n%x", b, again)
		}
	})
}
