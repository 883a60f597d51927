package producerstate

import (
	"slices"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// mixed is a state with one lane of each sort, by producer id; the log is durable up to 100.
func mixed() *State {
	s := New(Limits{})
	write := func(pid batchfmt.ProducerID, offset batchfmt.Offset, uptime time.Duration) {
		s.Tick(uptime)
		id := ident(0, 0, 9)
		id.PID = pid
		s.Apply(id, offset, nil)
	}
	write(1, 0, 10*time.Second)  // unconfirmed, not used for long
	write(2, 10, 20*time.Second) // quiescent
	s.Confirm(2, 9)
	write(3, 20, 30*time.Second) // quiescent, used later
	s.Confirm(3, 9)
	write(4, 30, 40*time.Second) // closed
	s.replayControl(4, batchfmt.Control{Kind: batchfmt.ControlClose, Last: 9})
	write(5, 40, 50*time.Second) // a stream holds it
	s.Opened(5)
	write(6, 95, 60*time.Second) // its batch is pending
	s.Opened(7)                  // only opened
	write(8, 60, 70*time.Second) // unconfirmed
	s.Released(8, s.Opened(8))
	s.Tick(100 * time.Second)
	return s
}

func TestLeavers(t *testing.T) {
	rows := []struct {
		name string
		n    int
		idle time.Duration
		want []batchfmt.ProducerID
	}{
		{"closed, then quiescent, then the rest, each by use", 10, 0, []batchfmt.ProducerID{4, 2, 3, 1, 8}},
		{"no more than asked for", 2, 0, []batchfmt.ProducerID{4, 2}},
		{"only those that are idle for so long", 10, 65 * time.Second, []batchfmt.ProducerID{2, 3, 1}},
		{"none", 0, 0, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := mixed()
			var got []batchfmt.ProducerID
			for _, l := range s.Leavers(row.n, row.idle, 100) {
				got = append(got, l.PID)
				if !s.Evict(l) || s.Lane(l.PID) != nil {
					t.Errorf("producer %d did not leave", l.PID)
				}
				if err := s.Restore(l.PID, Retired{Row: l.Row}); err != nil {
					t.Errorf("producer %d does not come back: %v", l.PID, err)
				}
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%v leave, not %v", got, row.want)
			}
			if !Equal(s, mixed()) {
				t.Error("who left and came back is not what it was")
			}
		})
	}
}

func TestEvictKeepsWhatChanged(t *testing.T) {
	rows := []struct {
		name   string
		change func(*State)
		leaves bool
	}{
		{"nothing", func(*State) {}, true},
		{"it was opened", func(s *State) { s.Opened(nativePID) }, false},
		{"it was opened and released", func(s *State) { s.Released(nativePID, s.Opened(nativePID)) }, true},
		{"it was written", func(s *State) { s.Apply(ident(0, 10, 10), 110, nil) }, false},
		{"it was fenced", func(s *State) {
			s.replayControl(nativePID, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 1, Last: 9})
		}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := New(Limits{})
			s.Apply(ident(0, 0, 9), 100, nil)
			leaver := s.Leavers(1, 0, 200)[0]
			row.change(s)
			if got := s.Evict(leaver); got != row.leaves || (s.Lane(nativePID) == nil) != row.leaves {
				t.Errorf("it leaves: %v", got)
			}
		})
	}
}

func TestUptimeNeverGoesBack(t *testing.T) {
	s := New(Limits{})
	s.Tick(100 * time.Second)
	s.Apply(ident(0, 0, 9), 100, nil)
	s.Tick(50 * time.Second)
	if idle := s.Idle(s.Lane(nativePID)); idle != 0 {
		t.Errorf("idle for %v", idle)
	}
}
