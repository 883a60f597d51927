package network

import (
	"testing"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/servertest"
)

// TestReplayAppendsNothing plays what clients sent again: while the connection lives, when
// it is over and another has taken its place, and to a server that was started again. It
// comes from the port of the client and from one that nobody knows.
func TestReplayAppendsNothing(t *testing.T) {
	t.Parallel()
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	r := startRelay(t, s.Running().Addr().String(), *seed)
	r.record(true)
	tr := startTraffic(t, s.URL(), r.throughURL(s.URL()), 0)
	tr.awaitAcks(5 * acksBetween)
	r.record(false)

	playAgain(t, run, r, "the connection lives", false)
	tr.awaitAcks(acksBetween)
	if n := tr.lost(); n > 0 {
		t.Errorf("%d connections were lost to what was said before", n)
	}
	for n, after := range []struct {
		name string
		do   func()
	}{{"the connection was cut", s.CutConnection}, {"the server was started again", s.Restart}} {
		after.do()
		tr.awaitConnections(n + 2)
		playAgain(t, run, r, after.name, true)
		tr.awaitAcks(acksBetween)
	}
	tr.finish(run)
	if got, want := tr.connects(), 3*len(tr.clients); got != want {
		t.Errorf("%d connections were made, want %d", got, want)
	}
}

// playAgain sends the tape twice. Answers to the stranger show that the server saw it: to
// one that begins connections it always answers.
func playAgain(t *testing.T, run *campaign.Run, r *relay, when string, resets bool) {
	t.Helper()
	sent := r.replay()
	stranger, answers := r.replayAsStranger()
	t.Logf("%s: %d datagrams again, %d from a stranger, who had %d answers", when, sent, stranger, answers)
	if sent == 0 || stranger == 0 || resets && answers == 0 {
		t.Errorf("%s: the server was not reached", when)
	}
	run.Count("replayed", sent+stranger)
}
