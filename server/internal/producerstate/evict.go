package producerstate

import (
	"cmp"
	"slices"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// Idle is how long nobody has used the lane, by the uptime that [State.Tick] was told last.
// Seconds.
func (s *State) Idle(l *Lane) time.Duration {
	return time.Duration(s.uptime-l.used) * time.Second
}

// Tick tells the state how long the process has been up. Only this clock counts for how
// long a lane was idle: no wall clock, no time stamp of a record, and no time in which the
// server was down.
func (s *State) Tick(uptime time.Duration) {
	s.uptime = max(s.uptime, uint32(uptime/time.Second))
}

// A Leaver is a lane that may leave memory, as it was when it was chosen.
type Leaver struct {
	PID batchfmt.ProducerID
	Row []byte // see AppendRow; to be durable before Evict
	was history
}

// leaveClass is who goes first: the lower one.
func (l *Lane) leaveClass() int {
	switch {
	case l.Closed() && !planted.ClosedStay:
		return 0
	case l.confirmed == l.last:
		return 1 // quiescent: the application was given every outcome
	}
	return 2
}

// Leavers chooses up to n lanes that may leave memory and were idle for so long at least:
// closed ones first, then those whose every outcome was given to the application, then the
// rest, each class by how long it was not used. A lane that a stream holds, or that has a
// batch at or above durable, is never chosen. Not within a group.
func (s *State) Leavers(n int, idle time.Duration, durable batchfmt.Offset) []Leaver {
	type candidate struct {
		pid batchfmt.ProducerID
		l   *Lane
	}
	before := func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(a.l.leaveClass(), b.l.leaveClass()),
			cmp.Compare(a.l.used, b.l.used),
			cmp.Compare(a.l.opening, b.l.opening), // within a second
			cmp.Compare(a.pid, b.pid),
		)
	}
	var all []candidate
	for pid, l := range s.lanes {
		if l.known && !l.open && l.PendingEnd() <= durable && s.Idle(l) >= idle {
			all = append(all, candidate{pid, l})
		}
	}
	slices.SortFunc(all, before)
	leavers := make([]Leaver, 0, min(n, len(all)))
	for _, c := range all[:min(n, len(all))] {
		leavers = append(leavers, Leaver{PID: c.pid, Row: AppendRow(nil, c.l), was: c.l.history})
	}
	return leavers
}

// Evict drops a lane whose row is durable elsewhere. It reports false, and keeps the lane,
// if it was opened or changed meanwhile. Not within a group.
func (s *State) Evict(v Leaver) bool {
	l := s.lanes[v.PID]
	if !l.Known() || l.open || l.history != v.was {
		return false
	}
	delete(s.lanes, v.PID)
	return true
}
