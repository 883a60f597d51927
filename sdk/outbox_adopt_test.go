package sdk

import (
	"context"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/server/servertest"
)

// A client that is closed while Build is about to start what the outbox holds has nothing
// started behind it: goleak sees to that.
func TestAdoptAfterClose(t *testing.T) {
	s := servertest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := Dial(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTopic(ctx, "t", TopicOptions{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer("t").Named("n").Outbox(t.TempDir()).Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	p.adopt(&outbox.Found{Lanes: []outbox.Lane{{Partition: 0, Next: 1}}})
	if s := p.slots()[0].Load(); s != nil {
		t.Error("a sender was started after Close")
		s.stop(ErrClosed, time.Now(), true)
		s.wait(false, nil)
	}
}
