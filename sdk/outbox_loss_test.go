package sdk_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A producer that went on after a loss is one whose next process goes on too: its outbox knows
// that the lane begins anew.
func TestOutboxAfterALoss(t *testing.T) {
	s, c, first := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "outbox")
	b := func() *sdk.Producer {
		return build(t, c.Producer("t").Named("n").Outbox(dir).Durability(sdk.Written))
	}
	if _, err := first.Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	p := b()
	_, release := s.HoldSync()
	for i := range 3 {
		if ack, err := p.Send(ctx, value(10+i)); err != nil || !ack.Provisional {
			t.Fatalf("%+v, %v", ack, err)
		}
	}
	s.CrashWith(release)
	if _, err := p.Send(ctx, value(20)); !errors.Is(err, sdk.ErrDataLoss) {
		t.Fatalf("the loss is not told: %v", err)
	}
	if err := p.ContinueAfterLoss(ctx, 0); err != nil {
		t.Fatal(err)
	}
	ack, err := p.Send(ctx, value(30))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	next := b()
	if got, err := next.Send(ctx, value(40)); err != nil || got.Sequence != ack.Sequence+1 {
		t.Errorf("the next process does not go on: %+v, %v", got, err)
	}
	if _, err := next.Close(ctx); err != nil { // closing takes a sync
		t.Error(err)
	}
	wantLog(t, c, "0", "30", "40")
}

// What was unknown when the lane was lost has higher sequences than what came after: it says
// nothing of that, which is stored once.
func TestOutboxKeepsWhatWasUnknownBeforeALossApart(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	m := startMeddler(t, s)
	ctx := testContext(t)
	direct := dial(t, s)
	createTopic(t, direct, "t", 1)
	if _, err := build(t, direct.Producer("t")).Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	c, err := sdk.Dial(ctx, m.url)
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
	for i := range 2 {
		if _, err := p.Send(ctx, value(10+i)); err != nil {
			t.Fatal(err)
		}
	}
	lost := func(k wire.Kind) bool { return k == wire.KindProduceResults }
	m.loseReplies(func(k wire.Kind) bool { return lost(k) || k == wire.KindResolved })
	outcome := make(chan error, 1)
	if err := p.SendAsync(ctx, value(12), func(_ sdk.Ack, err error) { outcome <- err }); err != nil {
		t.Fatal(err)
	}
	o := &outboxed{t: t, dir: dir, direct: direct}
	o.kept(1)
	s.CrashWith(release)
	wantUnknown(t, <-outcome)
	if _, err := p.Send(ctx, value(20)); !errors.Is(err, sdk.ErrDataLoss) {
		t.Fatalf("the loss is not told: %v", err)
	}
	if err := p.ContinueAfterLoss(ctx, 0); err != nil {
		t.Fatal(err)
	}
	m.loseReplies(func(k wire.Kind) bool { return k == wire.KindResolved })
	if ack, err := p.Send(ctx, value(30)); err != nil || ack.Sequence != 0 {
		t.Fatalf("%+v, %v", ack, err)
	}
	m.loseReplies(func(k wire.Kind) bool { return lost(k) || k == wire.KindResolved })
	if err := p.SendAsync(ctx, value(31), nil); err != nil { // stored, and nobody hears of it
		t.Fatal(err)
	}
	for records := 0; records < 3; {
		info, err := direct.DescribeTopic(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		records = int(info.Partitions[0].HighWatermark)
	}
	image := o.image()
	next := o.next(image)
	t.Logf("found %+v", next.Found())
	if _, err := next.Send(ctx, value(40)); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
	wantLog(t, direct, "0", "30", "31", "40")
}
