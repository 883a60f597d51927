package sdk_test

import (
	"errors"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// A Written producer has its acknowledgement while the disk is still busy; readers do not see
// the record by then. A power cut takes it, and the producer is told.
func TestWrittenProducer(t *testing.T) {
	s, c, _ := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	p := build(t, c.Producer("t").Durability(sdk.Written))
	synced := build(t, c.Producer("t"))
	if ack, err := synced.Send(ctx, value(0)); err != nil || ack.Provisional {
		t.Fatalf("%+v, %v", ack, err)
	}
	_, release := s.HoldSync()
	ack, err := p.Send(ctx, value(1))
	if err != nil || !ack.Provisional || ack.Offset != 1 || ack.Sequence != 0 {
		t.Errorf("%+v, %v", ack, err)
	}
	wantLog(t, c, "0")
	s.CrashWith(release)
	_, err = p.Send(ctx, value(2))
	var refusal *sdk.ServerError
	if !errors.Is(err, sdk.ErrDataLoss) || !errors.As(err, &refusal) || refusal.Expected != 0 {
		t.Fatalf("the loss is not told: %v", err)
	}
	if err := p.ContinueAfterLoss(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if ack, err := p.Send(ctx, value(3)); err != nil || ack.Offset != 1 {
		t.Errorf("%+v, %v", ack, err)
	}
	if _, err := p.Close(ctx); err != nil { // closing takes a sync
		t.Error(err)
	}
	wantLog(t, c, "0", "3")
}

// A restart in order loses nothing, and a lost connection is no loss.
func TestWrittenProducerGoesOn(t *testing.T) {
	s, c, _ := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	p := build(t, c.Producer("t").Durability(sdk.Written))
	for i, between := range []func(){s.Restart, s.CutConnection, func() {}} {
		if ack, err := p.Send(ctx, value(i)); err != nil || ack.Sequence != int64(i) || ack.Duplicate {
			t.Errorf("record %d: %+v, %v", i, ack, err)
		}
		between()
	}
	if _, err := synced(t, c).Send(ctx, value(3)); err != nil { // and with it all before
		t.Fatal(err)
	}
	wantLog(t, c, "0", "1", "2", "3")
}

func synced(t *testing.T, c *sdk.Client) *sdk.Producer { return build(t, c.Producer("t")) }
