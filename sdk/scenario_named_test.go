package sdk_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// Producers with a name: whoever comes next, and what it finds.
var namedScenarios = []scenario{
	{80, "outbox-with-three", "a new process, and three uncertain batches in the outbox of which one is stored: the old holder is fenced, each is stored once",
		[]string{"outbox-forgets"}, outboxWithThree},
	{81, "position-without-outbox", "a new process without an outbox: it learns the position of what is stored, and goes on behind it",
		[]string{"position-lost"}, positionWithoutOutbox},
	{82, "one-name-twice", "two instances start with one name at once: one holds it, the other is fenced, told so once, and does not claim it again",
		[]string{"claim-war"}, oneNameTwice},
}

func outboxWithThree(t *testing.T) {
	o := startOutboxed(t)
	_, release := o.server.HoldSync()
	over := make(chan struct{})
	var arrivals atomic.Int64
	o.server.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if !in || k != wire.KindProduce || arrivals.Add(1) != 2 {
			return -1
		}
		o.meddler.cutOff(true) // the first one is stored, the others never arrive
		close(over)
		return 0
	}})
	o.async(1, 4)
	await(t, over, 1)
	o.server.HookFrames(servertest.FrameHooks{})
	release()
	o.kept(3)
	p := o.next(o.image())
	o.wantFound(p, 3, 0)
	for first, outcome := range o.wantSettled(3) {
		if outcome != sdk.ResolveStored {
			t.Errorf("sequence %d: %v", first, outcome)
		}
	}
	o.meddler.cutOff(false) // the old process lives, and comes back
	_, err := o.producer.Send(testContext(t), value(9))
	wantFenced(t, err)
	goesOn(t, p, 4, 4, 1)
	wantLog(t, o.direct, numbers(0, 5)...)
}

func positionWithoutOutbox(t *testing.T) {
	s := startStage(t, 1)
	direct := dial(t, s.server)
	p := build(t, positioned(s.client))
	for i := range 2 {
		if _, err := p.Send(testContext(t), value(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	dead := make(chan struct{})
	die := sync.OnceFunc(func() {
		s.net.cutOff(true)
		close(dead)
	})
	s.net.loseReplies(func(k wire.Kind) bool {
		if k == wire.KindProduceResults {
			die() // 3 is stored, and its process never learns that
		}
		return k == wire.KindProduceResults
	})
	async(t, p, 3, 4)
	await(t, dead, 1)
	q := build(t, positioned(direct))
	wantPosition(t, q, "3")
	if ack, err := q.Send(testContext(t), value(4)); err != nil || ack.Sequence != 3 {
		t.Errorf("behind the position: %+v, %v", ack, err)
	}
	wantLog(t, direct, numbers(1, 5)...)
}

func oneNameTwice(t *testing.T) {
	s := startStage(t, 1)
	var claims atomic.Int64
	s.net.loseReplies(func(k wire.Kind) bool {
		if k == wire.KindProducerInited {
			claims.Add(1)
		}
		return false
	})
	var both [2]*sdk.Producer
	var wg sync.WaitGroup
	for i := range both {
		wg.Go(func() { both[i] = build(t, s.client.Producer("t").Named("n")) })
	}
	wg.Wait()
	stored := 0
	for range 3 {
		before := stored
		for _, p := range both {
			switch _, err := p.Send(testContext(t), value(stored)); {
			case err == nil:
				stored++
			case !errors.Is(err, sdk.ErrFenced):
				t.Errorf("got %v", err)
			}
		}
		if stored != before+1 {
			t.Errorf("%d hold the name", stored-before)
		}
	}
	wantLog(t, s.client, numbers(0, stored)...)
	if err := s.client.Close(testContext(t)); err != nil { // and every event was told
		t.Error(err)
	}
	if told := len(s.fenced); told != 1 || claims.Load() != 2 {
		t.Errorf("the name was claimed %d times, and it was told %d times that it is lost", claims.Load(), told)
	}
}
