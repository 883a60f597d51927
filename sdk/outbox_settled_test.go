package sdk_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// What was unknown when its lane ended, and was settled since, is in the outbox no more: the
// next process does not settle it again, nor tell of it again.
func TestOutboxForgetsWhatWasSettledAfterItsLane(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	m := startMeddler(t, s)
	ctx := testContext(t)
	direct := dial(t, s)
	createTopic(t, direct, "t", 1)
	settled := newSettledEvents()
	c, err := sdk.Dial(ctx, m.url, settled.option())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		c.Close(over)
	})
	dir := filepath.Join(t.TempDir(), "outbox")
	p := build(t, c.Producer("t").Named("n").Outbox(dir).Durability(sdk.Written).BatchBytes(1))
	_, release := s.HoldSync()
	if _, err := p.Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	m.loseReplies(func(k wire.Kind) bool { return k == wire.KindProduceResults })
	outcome := make(chan error, 1)
	if err := p.SendAsync(ctx, value(1), func(_ sdk.Ack, err error) { outcome <- err }); err != nil {
		t.Fatal(err)
	}
	(&outboxed{t: t, dir: dir, direct: direct}).kept(1)
	s.CrashWith(release)
	m.loseReplies(nil)
	wantUnknown(t, <-outcome)
	select {
	case e := <-settled:
		t.Logf("settled: %v", e.Resolution.Outcome)
	case <-ctx.Done():
		t.Fatal("it is not settled")
	}
	if left, err := p.Close(ctx); err != nil || len(left) > 0 {
		t.Errorf("Close: %v, %v", left, err)
	}
	if found := build(t, direct.Producer("t").Named("n").Outbox(dir)).Found(); found != (sdk.OutboxFound{}) {
		t.Errorf("the outbox holds %+v", found)
	}
}
