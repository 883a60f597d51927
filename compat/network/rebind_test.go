package network

import (
	"testing"
	"time"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/servertest"
)

const (
	acksBetween = 50 // records that are acknowledged between two faults
	eachBetween = 15 // of each producer, and several times what is on its way at a time
)

// TestRebindGoesUnnoticed changes the port from which the server sees each client, again
// and again in the middle of the traffic.
func TestRebindGoesUnnoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]conditions{"good link": {delay: 5 * time.Millisecond}, "bad link": badLink} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rebindTimes(t, c, func(tr *traffic) { tr.awaitEach(eachBetween) }, func(tr *traffic) {
				if n := tr.lost(); n > 0 {
					t.Errorf("%d connections were lost", n)
				}
			})
		})
	}
}

// TestRebindStormLosesNothing changes the port faster than a server can prove that a client
// is there. The protocol bounds how many ports it looks at in a time, so connections may be
// lost; records may not.
func TestRebindStormLosesNothing(t *testing.T) {
	t.Parallel()
	rebindTimes(t, badLink, func(tr *traffic) { tr.awaitAcks(1) }, func(tr *traffic) {
		t.Logf("%d connections of %d clients were lost", tr.lost(), len(tr.clients))
	})
}

// rebindTimes sends through rebinds, with something awaited behind each, and checks at the
// end.
func rebindTimes(t *testing.T, c conditions, wait, check func(*traffic)) {
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	r := startRelay(t, s.Running().Addr().String(), *seed)
	r.set(c)
	tr := startTraffic(t, s.URL(), r.throughURL(s.URL()), 0)
	var slowest time.Duration
	for range *rebinds {
		begin := time.Now()
		r.rebind()
		wait(tr)
		slowest = max(slowest, time.Since(begin))
	}
	tr.finish(run)
	check(tr)
	if got, want := r.counts().rebound, *rebinds*len(tr.clients); got != want {
		t.Errorf("the relay changed %d ports, want %d", got, want)
	}
	run.Count("rebinds", *rebinds)
	t.Logf("what was awaited after a rebind took at most %v", slowest)
}
