package sdk

import (
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// quietPause is how long a lane has had nothing to send, nor an answer, before the server is
// told what was confirmed. Every batch says it too, so only a lane that has become quiet owes
// it: the server then knows that nobody will ask about what it remembers of the lane.
const quietPause = time.Second

// quietDue is when the server is to be told; zero when there is nothing to tell.
func (s *sender) quietDue() time.Time {
	if s.own == nil || s.handle.Load() == nil || !s.core.Idle() {
		return time.Time{}
	}
	if batchfmt.Seq(s.confirmed.Load()) <= s.said {
		// A callback may run yet; called then wakes the goroutine.
		s.quiet.Store(true)
		if batchfmt.Seq(s.confirmed.Load()) <= s.said { // it may have run in between
			return time.Time{}
		}
	}
	return s.busy.Add(quietPause)
}

// sayConfirmed tells the server when it is due.
func (s *sender) sayConfirmed(now time.Time) {
	due := s.quietDue()
	if due.IsZero() || now.Before(due) {
		return
	}
	through := batchfmt.Seq(s.confirmed.Load())
	said, err := s.handle.Load().Confirm(through)
	switch {
	case err != nil:
		s.lostHandle(now, err)
	case !said:
		s.busy = now // the stream is; there is no hurry
	default:
		s.said = through
	}
}
