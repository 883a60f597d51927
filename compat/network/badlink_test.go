package network

import (
	"testing"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/servertest"
)

// TestBadLinkLosesNothing sends over a network that delays, loses, reorders and doubles.
func TestBadLinkLosesNothing(t *testing.T) {
	t.Parallel()
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	r := startRelay(t, s.Running().Addr().String(), *seed)
	r.set(badLink)
	tr := startTraffic(t, s.URL(), r.throughURL(s.URL()), *records)
	tr.sending.Wait()
	tr.finish(run)
	if n := tr.lost(); n > 0 {
		t.Errorf("%d connections were lost", n)
	}
	for name, l := range map[string]*line{"to the server": r.up, "back": r.down} {
		c := l.counts()
		t.Logf("%s: %+v", name, c)
		if c.lost == 0 || c.late == 0 || c.doubled == 0 || c.discards > 0 {
			t.Errorf("%s the link was not as bad as it should be, or lost what it should not: %+v", name, c)
		}
		run.Count("lost", c.lost)
		run.Count("late", c.late)
		run.Count("doubled", c.doubled)
	}
}

// TestNarrowLinkLosesNothing sends more at once than the link has room for: its queue
// overflows, as that of a router in front of a slow line.
func TestNarrowLinkLosesNothing(t *testing.T) {
	t.Parallel()
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	r := startRelay(t, s.Running().Addr().String(), *seed)
	c := badLink
	c.bytesPerSecond = 25_000
	tr := startTraffic(t, s.URL(), r.throughURL(s.URL()), *records/2)
	r.set(c)
	tr.sending.Wait()
	tr.finish(run)
	up, down := r.up.counts(), r.down.counts()
	t.Logf("%d connections were lost; to the server: %+v, back: %+v", tr.lost(), up, down)
	if up.overflown+down.overflown == 0 {
		t.Error("the link was wide enough for all")
	}
	run.Count("overflown", up.overflown+down.overflown)
}
