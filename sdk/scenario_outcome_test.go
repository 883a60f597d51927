package sdk_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// What the application is told, and when: contexts, errors, Flush, Close and callbacks.
var outcomeScenarios = []scenario{
	{75, "cancelled-before-it-is-sent", "the context ends before anything was handed to the network: taken back, not stored, no sequence spent",
		[]string{"cancel-leaves"}, cancelledBefore},
	{76, "cancelled-after-it-was-sent", "the context ends later: unknown, with a token; the lane keeps the batch until it is settled, and does not send it again",
		[]string{"cancel-fails", "resend-unknown"}, cancelledAfter},
	{77, "unknown-stays-unknown", "the sync was uncertain once, then an error says that nothing happened: unknown all the same",
		[]string{"cancel-fails", "sticky-off", "unknown-fails"}, unknownStaysUnknown},
	{83, "flush-through-trouble", "Flush during retries and a restart: returns when every record before it has its outcome, not sooner",
		[]string{"flush-early"}, flushThroughTrouble},
	{84, "close-with-open-outcomes", "Close in time with batches uncertain: a token for each, none is told to have failed",
		[]string{"unknown-fails"}, closeWithOpenOutcomes},
	{86, "callbacks-through-retries", "callbacks while batches are sent again: in the order of each partition, each once",
		[]string{"callbacks-swapped"}, callbacksThroughRetries},
}

func cancelledBefore(t *testing.T) {
	s := startStage(t, 1)
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(testContext(t))
	p := build(t, s.client.Producer("t").Partitioner(func(*sdk.Record, int) int {
		cancel(over) // the record is about to be accepted
		return 0
	}))
	open := hold(t, s.server, false, wire.KindLaneOpened) // until then nothing can be sent
	_, err := p.Send(ctx, value(0))
	wantNotStored(t, err, over)
	open()
	goesOn(t, p, 1, 0, 0)
	wantLog(t, s.client, "1")
}

func cancelledAfter(t *testing.T) {
	t.Run("it arrives", func(t *testing.T) {
		s := startStage(t, 1)
		p := build(t, s.client.Producer("t").BatchBytes(1))
		token, acks := stranded(t, s.server, p, inTime, func(sdk.Token) {})
		s.settled.want(t, token, sdk.ResolveStored, 0)
		acks()
		goesOn(t, p, 3, 3, 0)
		wantLog(t, s.client, numbers(0, 4)...)
	})
	t.Run("it is lost", func(t *testing.T) {
		s := startStage(t, 1)
		p := build(t, s.client.Producer("t").BatchBytes(1))
		token, acks := stranded(t, s.server, p, neverRead, func(sdk.Token) {})
		s.settled.want(t, token, sdk.ResolveNotStored, -1)
		acks()
		goesOn(t, p, 3, 2, 1)
		wantLog(t, s.client, "1", "2", "3")
	})
}

// answerInstead gives these codes in turn in the place of what the server says, and the last
// of them again and again.
func answerInstead(codes ...wire.Code) func(*wire.ProduceResults) {
	var mu sync.Mutex
	return func(m *wire.ProduceResults) {
		mu.Lock()
		defer mu.Unlock()
		for i := range m.Results {
			r := &m.Results[i]
			*r = wire.ProduceResult{Lane: r.Lane, BaseSequence: r.BaseSequence, Code: codes[0], BaseOffset: -1, Expected: -1, PersistedThrough: -1}
			if len(codes) > 1 {
				codes = codes[1:]
			}
		}
	}
}

func unknownStaysUnknown(t *testing.T) {
	t.Run("then full and cancelled", func(t *testing.T) {
		s := startStage(t, 1)
		p := build(t, s.client.Producer("t"))
		s.net.editAnswers(answerInstead(wire.CodeDurabilityUnknown, wire.CodeDiskFull))
		giveUp, gaveUp := given(t, p, 0)
		for full := (&sdk.ServerError{}); full.Code != wire.CodeDiskFull; {
			errors.As(await(t, s.throttled, 1)[0].Err, &full)
		}
		giveUp()
		token := wantUnknown(t, await(t, gaveUp, 1)[0]).Token()
		s.net.edit(wire.KindProduceResults, nil)
		s.settled.want(t, token, sdk.ResolveStored, 0)
		goesOn(t, p, 1, 1, 0)
		wantLog(t, s.client, "0", "1")
	})
	t.Run("then refused", func(t *testing.T) {
		s := startStage(t, 1)
		p := build(t, s.client.Producer("t"))
		s.net.editAnswers(answerInstead(wire.CodeDurabilityUnknown, wire.CodeMessageTooLarge))
		_, err := p.Send(testContext(t), value(0))
		unknown := wantUnknown(t, err)
		if refusal, ok := errors.AsType[*sdk.ServerError](unknown); !ok || refusal.Code != wire.CodeMessageTooLarge {
			t.Errorf("because of %v", unknown.Cause)
		}
		s.settled.want(t, unknown.Token(), sdk.ResolveStored, 0)
		wantLog(t, s.client, "0")
	})
}

func flushThroughTrouble(t *testing.T) {
	const records = 10
	s := startStage(t, 2)
	p := build(t, s.client.Producer("t").BatchBytes(1))
	for name, trouble := range map[string]func(release func()){
		"a lost connection": func(release func()) { s.server.CutConnection(); release() },
		"a lost answer":     func(release func()) { s.server.DropAck(2); release() },
		"a failed write":    func(release func()) { s.server.FailAppend(); release() },
		"a restart":         func(release func()) { release(); s.server.Restart() },
	} {
		began, release := s.server.HoldSync()
		told := make(chan error, records)
		for i := range records {
			err := p.SendAsync(testContext(t), keyed(i%2, 2, i), func(_ sdk.Ack, err error) { told <- err })
			if err != nil {
				t.Fatal(err)
			}
		}
		await(t, began, 1)
		over, cancel := context.WithCancel(testContext(t))
		cancel()
		if err := p.Flush(over); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: before anything is stored Flush returns %v", name, err)
		}
		trouble(release)
		if err := p.Flush(testContext(t)); err != nil || len(told) != records {
			t.Errorf("%s: Flush returns %v with %d of %d outcomes", name, err, len(told), records)
		}
		for _, err := range await(t, told, records) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func closeWithOpenOutcomes(t *testing.T) {
	s := startStage(t, 1)
	p := build(t, s.client.Producer("t").BatchBytes(1))
	goesOn(t, p, 0, 0, 0)
	_, release := s.server.HoldSync()
	told := async(t, p, 1, 4)
	await(t, s.sent, 4)
	s.untilLane(p, func(lane sdk.ProducerLane) bool { return lane.Last == 3 }) // sent is not arrived
	closing, cancel := context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancel()
	left, err := p.Close(closing)
	if len(left) != 3 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Close leaves %v, %v", left, err)
	}
	for i, one := range await(t, told, 3) {
		if token := wantUnknown(t, one.err).Token(); token != left[i].Token || token.First() != int64(i)+1 {
			t.Errorf("record %d has %v, Close left %v", one.record, token, left[i].Token)
		}
	}
	release()
	for i := range left {
		s.settled.want(t, left[i].Token, sdk.ResolveStored, int64(i)+1)
	}
	wantLog(t, s.client, numbers(0, 4)...)
}

func callbacksThroughRetries(t *testing.T) {
	const records = 60 // of each partition
	s := startStage(t, 2)
	p := build(t, s.client.Producer("t").BatchBytes(1))
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	var called [2][]int
	s.server.DropAck(3)
	for i := range records {
		for partition := range called {
			err := p.SendAsync(testContext(t), keyed(partition, 2, i), func(_ sdk.Ack, err error) {
				<-gate // so that outcomes queue up
				if err != nil {
					t.Errorf("record %d of partition %d: %v", i, partition, err)
				}
				called[partition] = append(called[partition], i)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, trouble := range []func(){s.server.CutConnection, s.server.FailAppend, func() { s.server.DropAck(2) }, s.server.Restart} {
		trouble()
		await(t, s.ended, records/2)
	}
	open()
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for partition, got := range called {
		var want []int
		for i := range records {
			want = append(want, i)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("partition %d (-sent +called):\n%s", partition, diff)
		}
	}
}
