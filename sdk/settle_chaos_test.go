package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// fate is what the application was told of one record.
type fate struct {
	ack     sdk.Ack
	err     error
	unknown *sdk.OutcomeUnknown // err, if it is that
}

// fates are those of all records, by value, and what the events said of batches.
type fates struct {
	mu      sync.Mutex
	of      map[string]fate
	settled map[sdk.Token]sdk.Resolution
	events  chan struct{} // wakes who waits for an event
}

func (f *fates) note(value string, ack sdk.Ack, err error) {
	told := fate{ack: ack, err: err}
	errors.As(err, &told.unknown)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[value] = told
}

func (f *fates) event(t *testing.T) func(sdk.Event) {
	return func(e sdk.Event) {
		if e.Kind == sdk.EventDropped {
			t.Error("events were dropped")
		}
		if e.Kind != sdk.EventSettled {
			return
		}
		f.mu.Lock()
		if _, twice := f.settled[e.Token]; twice {
			t.Errorf("%v is settled twice", e.Token)
		}
		f.settled[e.Token] = e.Resolution
		f.mu.Unlock()
		select {
		case f.events <- struct{}{}:
		default:
		}
	}
}

// await waits until every token that was told is settled.
func (f *fates) await(t *testing.T, ctx context.Context) {
	t.Helper()
	for {
		f.mu.Lock()
		missing := 0
		for _, told := range f.of {
			if told.unknown != nil && !told.unknown.Token().IsZero() {
				if _, ok := f.settled[told.unknown.Token()]; !ok {
					missing++
				}
			}
		}
		f.mu.Unlock()
		if missing == 0 {
			return
		}
		select {
		case <-f.events:
		case <-ctx.Done():
			t.Fatalf("%d records that were told to be unknown were not settled", missing)
		}
	}
}

// check compares what was told with what is stored.
func (f *fates) check(t *testing.T, all map[int][]*sdk.Record) {
	t.Helper()
	at := make(map[string]*sdk.Record)
	for partition, records := range all {
		before := -1
		for _, r := range records {
			var i int
			if _, err := fmt.Sscanf(string(r.Value), fmt.Sprintf("%d async %%d", partition), &i); err == nil {
				if i <= before {
					t.Errorf("partition %d: record %d is behind %d", partition, i, before)
				}
				before = i
			}
			if at[string(r.Value)] != nil {
				t.Errorf("record %s is stored twice", r.Value)
			}
			at[string(r.Value)] = r
		}
	}
	kinds := make(map[string]int)
	for value, told := range f.of {
		r := at[value]
		var notStored *sdk.NotStored
		switch {
		case told.err == nil:
			kinds["stored"]++
			if r == nil || r.Offset != told.ack.Offset || r.Partition != told.ack.Partition || r.Producer.Sequence != told.ack.Sequence {
				t.Errorf("record %s was acknowledged as %+v, and %+v is stored", value, told.ack, r)
			}
		case errors.As(told.err, &notStored):
			kinds["not stored"]++
			if r != nil {
				t.Errorf("record %s is stored, and was told not to be: %v", value, told.err)
			}
		case told.unknown != nil && told.unknown.Token().IsZero():
			kinds["unknown, never handed over"]++
		case told.unknown != nil:
			found := f.settled[told.unknown.Token()]
			kinds["unknown, then "+found.Outcome.String()]++
			f.checkSettled(t, value, told.unknown, found, r)
		default:
			t.Errorf("record %s: %v", value, told.err)
		}
	}
	t.Logf("%v", kinds)
}

func (f *fates) checkSettled(t *testing.T, value string, unknown *sdk.OutcomeUnknown, found sdk.Resolution, r *sdk.Record) {
	t.Helper()
	switch found.Outcome {
	case sdk.ResolveStored:
		if r == nil || r.Offset != found.OffsetOf(unknown.Record) || r.Producer.Sequence != unknown.Sequence {
			t.Errorf("record %s was settled as stored at %d, and %+v is", value, found.OffsetOf(unknown.Record), r)
		}
	case sdk.ResolveNotStored:
		if r != nil {
			t.Errorf("record %s was settled as not stored and is at %d", value, r.Offset)
		}
	default:
		t.Errorf("record %s was settled as %v: %s", value, found.Outcome, found.Reason)
	}
}

// TestEverySettlementIsTrue: producers with little patience and applications that give up,
// while connections break at any byte and answers are lost; now and then the application
// settles a batch by itself. In the end each word that was said is held against the log.
func TestEverySettlementIsTrue(t *testing.T) {
	const partitions, records = 3, 300
	s := servertest.Start(t, servertest.InMemory())
	f := &fates{of: make(map[string]fate), settled: make(map[sdk.Token]sdk.Resolution), events: make(chan struct{}, 1)}
	c := dial(t, s, sdk.OnEvent(f.event(t)))
	createTopic(t, c, "t", partitions)
	p := build(t, c.Producer("t").BatchBytes(100).MaxBuffered(4<<10).DeliveryTimeout(250*time.Millisecond).
		Partitioner(func(r *sdk.Record, _ int) int { return len(r.Key) }))
	ctx := testContext(t)
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, size int) int {
		if k != wire.KindProduce && k != wire.KindProduceResults || rand.IntN(15) > 0 {
			return -1
		}
		return rand.IntN(size)
	}})
	var wg sync.WaitGroup
	record := func(partition int, who string, i int) sdk.Record {
		return sdk.Record{Key: make([]byte, partition), Value: fmt.Appendf(nil, "%d %s %d", partition, who, i)}
	}
	for partition := range partitions {
		wg.Go(func() {
			for i := range records {
				r := record(partition, "async", i)
				err := p.SendAsync(ctx, r, func(ack sdk.Ack, err error) { f.note(string(r.Value), ack, err) })
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for i := range records / 3 {
				r := record(partition, "given up", i)
				given, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
				ack, err := p.Send(given, r)
				cancel()
				var full *sdk.BufferFullError
				if errors.As(err, &full) || errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*sdk.OutcomeUnknown)) {
					continue // it was not accepted
				}
				f.note(string(r.Value), ack, err)
				var unknown *sdk.OutcomeUnknown
				if errors.As(err, &unknown) && !unknown.Token().IsZero() && rand.IntN(3) == 0 {
					if _, err := c.Resolve(ctx, unknown.Token(), sdk.Settle()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	s.HookFrames(servertest.FrameHooks{})
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	f.await(t, ctx)
	if _, err := p.Send(ctx, sdk.Record{Value: []byte("the last one")}); err != nil {
		t.Error(err)
	}
	t.Logf("epoch %d", p.Epoch())
	if abandoned, err := p.Close(ctx); len(abandoned) != 0 || err != nil {
		t.Errorf("abandoned %v, %v", abandoned, err)
	}
	f.check(t, readAll(t, c, "t"))
}
