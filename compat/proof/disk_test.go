package proof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// TestFailedAppendsLoseNothing lets every seventh append fail: the batch is undone on the
// server, the producer sends it again, and it is stored once.
func TestFailedAppendsLoseNothing(t *testing.T) {
	s := servertest.Start(t)
	client := dial(t, s.URL())
	createTopic(t, client, "appends", 1)
	p := newSender(t, client, "appends", "p", onePerBatch)
	for i := range 70 {
		if i%7 == 3 {
			s.FailAppend()
		}
		p.send(fmt.Sprintf("line %d", i))
		if err := p.producer.Flush(t.Context()); err != nil {
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
		p.sendThen(fmt.Sprintf("line %d", 2*round+1), acked)
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

// sendThen is send that closes done when the record is acknowledged.
func (s *sender) sendThen(text string, done chan struct{}) {
	n := s.sent
	s.sent++
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	r := sdk.Record{
		Value:   []byte(text),
		Headers: []sdk.Header{{Key: "sender", Value: []byte(s.name)}, {Key: "n", Value: fmt.Append(nil, n)}},
	}
	err := s.producer.SendAsync(ctx, r, func(ack sdk.Ack, err error) {
		s.note(n, outcome{ack, err})
		close(done)
	})
	if err != nil {
		s.tb.Fatalf("send: %v", err)
	}
}
