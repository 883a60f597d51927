package proof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server/servertest"
)

// TestFailedAppendsLoseNothing lets every seventh append fail: the batch is undone on the
// server, the producer sends it again, and it is stored once.
func TestFailedAppendsLoseNothing(t *testing.T) {
	s := servertest.Start(t)
	client := dial(t, s.URL())
	createTopic(t, client, "appends", 1)
	p := newSender(t, client, "appends", "p", onePerBatch)
	ctx, cancel := context.WithTimeout(t.Context(), *patience)
	defer cancel()
	for i := range 70 {
		if i%7 == 3 {
			s.FailAppend()
		}
		p.send(fmt.Sprintf("line %d", i))
		if err := p.producer.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p.finish()
	verify(t, s.URL(), "appends", p)
}

// TestPowerCutLosesNothingAcknowledged cuts the power while a batch is written and not yet
// synced. If it was acknowledged all the same, the disk that is left shows it.
func TestPowerCutLosesNothingAcknowledged(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	client := dial(t, s.URL())
	createTopic(t, client, "power", 1)
	p := newSender(t, client, "power", "p", onePerBatch)
	for round := range 12 {
		p.send(fmt.Sprintf("line %d", 2*round))
		if err := p.producer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		began, release := s.HoldSync()
		acked := make(chan struct{})
		if err := p.sendThen(fmt.Sprintf("line %d", 2*round+1), func() { close(acked) }); err != nil {
			t.Fatal(err) // nothing will be appended, and so no sync will begin
		}
		<-began
		// A server that acknowledges before the sync gets the time to do so. Nothing is
		// waited for: with a right one the time always passes.
		select {
		case <-acked:
			t.Errorf("round %d: acknowledged while the sync was held", round)
		case <-time.After(20 * time.Millisecond):
		}
		s.CrashWith(release)
	}
	p.finish()
	verify(t, s.URL(), "power", p)
}
