package sdk_test

import (
	"context"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// neverArrives leaves an outbox with one batch, of record 1, that was handed over and that
// the server never got.
func neverArrives(t *testing.T) (o *outboxed, image string) {
	o = startOutboxed(t)
	over := make(chan struct{})
	o.server.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if !in || k != wire.KindProduce {
			return -1
		}
		o.meddler.cutOff(true)
		close(over)
		return 0
	}})
	o.async(1, 2)
	<-over
	o.server.HookFrames(servertest.FrameHooks{})
	return o, o.image()
}

// Close flushes: what an earlier process had left is sent, and not given up, as long as
// there is time.
func TestCloseFlushesWhatTheOutboxHolds(t *testing.T) {
	o, image := neverArrives(t)
	p := o.next(image)
	o.wantFound(p, 1, 0)
	left, err := p.Close(testContext(t))
	if err != nil || len(left) > 0 {
		t.Errorf("Close: %v, %v", left, err)
	}
	if got := o.wantSettled(1); got[1] != sdk.ResolveStored {
		t.Errorf("settled as %v", got)
	}
	again := o.next(image)
	o.wantFound(again, 0, 0)
	wantLog(t, o.direct, "0", "1")
}

// So does Flush.
func TestFlushWaitsForWhatTheOutboxHolds(t *testing.T) {
	o, image := neverArrives(t)
	p := o.next(image)
	if err := p.Flush(testContext(t)); err != nil {
		t.Error(err)
	}
	wantLog(t, o.direct, "0", "1")
}

// What Close has no time for stays in the outbox, and is sent by the next process.
func TestCloseLeavesWhatTheOutboxHolds(t *testing.T) {
	o, image := neverArrives(t)
	o.meddler.cutOff(false)
	c, err := sdk.Dial(testContext(t), o.meddler.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(testContext(t))
	release := unanswered(t, o.server)
	p := build(t, c.Producer("t").Named("n").Outbox(image).BatchBytes(1))
	o.wantFound(p, 1, 0)
	o.meddler.cutOff(true)
	closing, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
	defer cancel()
	if left, err := p.Close(closing); err == nil || len(left) > 0 {
		t.Errorf("Close: %v, %v", left, err)
	}
	release()
	again := o.next(image)
	o.wantFound(again, 1, 0)
	if err := again.Flush(testContext(t)); err != nil {
		t.Error(err)
	}
	wantLog(t, o.direct, "0", "1")
}
