package network

import (
	"testing"
	"time"

	"github.com/quoin-io/quoin/compat/campaign"
)

// TestKilledServerIsNoticed kills the server's process and starts it again at the same
// address. Nothing tells the clients but the answers of the new one to what belongs to
// connections that it does not know.
func TestKilledServerIsNoticed(t *testing.T) {
	t.Parallel()
	run := campaign.Start(t, *seed)
	p := startProcess(t)
	r := startRelay(t, p.addr, *seed)
	r.set(conditions{delay: 5 * time.Millisecond})
	tr := startTraffic(t, p.url, r.throughURL(p.url), 0)
	for n := 1; n <= *restarts; n++ {
		tr.awaitAcks(acksBetween)
		p.kill()
		killed := time.Now()
		p.start()
		down := time.Since(killed)
		noticed, back := tr.awaitReconnected(n, killed)
		if back > generous {
			t.Errorf("back only after %v", back)
		}
		t.Logf("kill %d: down for %v; the last client knew after %v and was back after %v", n, down, noticed, back)
	}
	tr.awaitAcks(acksBetween)
	tr.finish(run)
	if got, want := tr.lost(), *restarts*len(tr.clients); got != want {
		t.Errorf("%d connections were lost, want %d", got, want)
	}
	run.Count("kills", *restarts)
}
