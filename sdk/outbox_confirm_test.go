package sdk_test

import (
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// What an earlier process left is confirmed when it has its outcome, though nothing comes behind
// it: the server may forget it then.
func TestOutboxIsConfirmed(t *testing.T) {
	o := startOutboxed(t)
	o.loseAnswers()
	o.async(1, 4)
	o.kept(3)
	p := o.next(o.image())
	for first, outcome := range o.wantSettled(3) {
		if outcome != sdk.ResolveStored {
			t.Errorf("sequence %d: %v", first, outcome)
		}
	}
	for ctx := testContext(t); ; {
		switch lane, err := o.direct.DescribeProducer(ctx, "t", 0, p.ID()); {
		case err != nil:
			t.Fatalf("it is not confirmed: %v", err)
		case lane.Confirmed == 3:
			return
		}
	}
}

// A batch that was unknown, and is settled as stored, is confirmed likewise.
func TestSettledIsConfirmed(t *testing.T) {
	s := startStage(t, 1, servertest.InMemory())
	p := build(t, s.client.Producer("t").DeliveryTimeout(time.Second))
	s.net.loseReplies(func(k wire.Kind) bool { return k == wire.KindProduceResults || k == wire.KindResolved })
	_, err := p.Send(testContext(t), value(0))
	token := wantUnknown(t, err).Token()
	s.net.loseReplies(nil)
	s.settled.want(t, token, sdk.ResolveStored, 0)
	confirmed := make(chan batchfmt.Seq, 10)
	s.server.HookFrames(servertest.FrameHooks{End: func(in bool, m wire.Message) bool {
		if m, is := m.(*wire.Produce); is && in {
			confirmed <- m.ConfirmedThrough
		}
		return false
	}})
	goesOn(t, p, 1, 1, 0)
	if through := await(t, confirmed, 1)[0]; through != 0 {
		t.Errorf("the next batch confirms %d", through)
	}
}
