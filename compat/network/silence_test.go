package network

import (
	"testing"
	"time"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/servertest"
)

// generous bounds how long a client may take to be back once the server can be reached.
const generous = 20 * time.Second

// TestLostPathCostsOneReconnect ends the way of every connection for good, as when the
// address of the client changes and nothing finds the old one any more: answers just stop.
func TestLostPathCostsOneReconnect(t *testing.T) {
	t.Parallel()
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	r := startRelay(t, s.Running().Addr().String(), *seed)
	r.set(conditions{delay: 5 * time.Millisecond})
	tr := startTraffic(t, s.URL(), r.throughURL(s.URL()), 0)
	begin := time.Now()
	r.losePaths()
	noticed, back := tr.awaitReconnected(1, begin)
	tr.awaitAcks(acksBetween)
	tr.finish(run)
	if got, want := tr.lost(), len(tr.clients); got != want {
		t.Errorf("%d connections were lost, want one for each of %d clients", got, want)
	}
	if back > generous {
		t.Errorf("back only after %v", back)
	}
	if c := r.counts(); c.lostPaths != len(tr.clients) || c.deadPath == 0 {
		t.Errorf("the relay lost no path: %+v", c)
	}
	run.Count("paths", len(tr.clients))
	t.Logf("noticed after %v, connected again after %v", noticed, back)
}

// TestBlackHole lets nothing through for longer than both sides wait before they forget
// each other.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	r := startRelay(t, s.Running().Addr().String(), *seed)
	r.set(conditions{delay: 5 * time.Millisecond})
	tr := startTraffic(t, s.URL(), r.throughURL(s.URL()), 0)
	begin := time.Now()
	r.blackHole(true)
	<-time.After(*hole) // the fault itself lasts so long
	r.blackHole(false)
	ended := time.Now()
	noticed, back := tr.awaitReconnected(1, begin)
	tr.awaitAcks(acksBetween)
	tr.finish(run)
	if got, want := tr.lost(), len(tr.clients); got != want {
		t.Errorf("%d connections were lost, want one for each of %d clients", got, want)
	}
	back -= ended.Sub(begin)
	if back > generous {
		t.Errorf("back only %v after the end", back)
	}
	if c := r.counts(); c.hole == 0 {
		t.Errorf("the hole took nothing: %+v", c)
	}
	run.Count("holes", 1)
	t.Logf("noticed after %v, connected again %v after the end", noticed, back)
}
