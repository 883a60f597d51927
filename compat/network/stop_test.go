//go:build unix

package network

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-io/quoin/compat/campaign"
)

// TestStoppedServerLosesNothing lets the server's process stand still, as under a debugger,
// in a virtual machine that moves, or on a machine that swaps, and go on.
func TestStoppedServerLosesNothing(t *testing.T) {
	t.Parallel()
	for _, text := range strings.Split(*stops, ",") {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) { t.Parallel(); stopServer(t, d) })
	}
}

func stopServer(t *testing.T, d time.Duration) {
	run := campaign.Start(t, *seed)
	p := startProcess(t)
	r := startRelay(t, p.addr, *seed)
	r.set(conditions{delay: 5 * time.Millisecond})
	tr := startTraffic(t, p.url, r.throughURL(p.url), 0)
	tr.awaitAcks(acksBetween)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(d) // the fault itself lasts so long
	before := tr.acknowledged()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	resumed := time.Now()
	tr.await("acknowledgements", func() bool { return len(tr.mu.acks) > before })
	first := time.Since(resumed)
	tr.awaitAcks(acksBetween)
	tr.finish(run)
	run.Count("stops", 1)
	t.Logf("%d connections of %d clients were lost; the first acknowledgement came %v after the server went on", tr.lost(), len(tr.clients), first)
}
