package server_test

import (
	"testing"

	"github.com/quoin-io/quoin/server/internal/rawclient"
)

// A start that rebuilds from the log must not keep more lanes in memory than it may.
func TestRecoveryKeepsToTheLimit(t *testing.T) {
	f := setUp(t, limits(4, 0))
	f.lane.Leave()
	for range 40 {
		f.visit(t, f.c.NewProducer(), 1)
	}
	f.Kill() // no snapshot
	f.c = rawclient.Dial(t, f.URL())
	until(t, "lanes leave until there are four", func() bool {
		f.Running().RetireIdle() // what goes on by itself
		n := f.lanes(t, 0).Total
		if n > 4 {
			t.Logf("%d lanes are in memory", n)
		}
		return n <= 4
	})
}
