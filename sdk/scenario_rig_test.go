package sdk_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A stage is where most stories play: a server with topic "t", and a client that hears of
// everything, behind a meddler.
type stage struct {
	t         *testing.T
	server    *servertest.Server
	net       *meddler
	client    *sdk.Client
	settled   settledEvents
	throttled chan sdk.Event
	fenced    chan sdk.Event
	sent      chan sdk.BatchInfo // handed to the network, each time
	ended     chan sdk.BatchInfo // that have their outcome
}

func startStage(t *testing.T, partitions int, opts ...servertest.Option) *stage {
	t.Helper()
	s := &stage{t: t, server: servertest.Start(t, opts...), settled: newSettledEvents(), throttled: make(chan sdk.Event, 1000),
		fenced: make(chan sdk.Event, 1000), sent: make(chan sdk.BatchInfo, 10_000), ended: make(chan sdk.BatchInfo, 10_000)}
	s.net = startMeddler(t, s.server)
	c, err := sdk.Dial(testContext(t), s.net.url, sdk.OnEvent(s.heard), sdk.WithHooks(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(closing)
	})
	s.client = c
	createTopic(t, c, "t", partitions)
	return s
}

// BatchSent is a hook.
func (s *stage) BatchSent(b sdk.BatchInfo) { s.sent <- b }

// BatchEnded is a hook.
func (s *stage) BatchEnded(b sdk.BatchInfo, _ error) { s.ended <- b }

func (s *stage) heard(e sdk.Event) {
	switch e.Kind {
	case sdk.EventSettled:
		s.settled <- e
	case sdk.EventThrottled:
		s.throttled <- e
	case sdk.EventFenced:
		s.fenced <- e
	}
}

// await takes n of what must come.
func await[T any](t *testing.T, from <-chan T, n int) (all []T) {
	t.Helper()
	for len(all) < n {
		select {
		case one := <-from:
			all = append(all, one)
		case <-testContext(t).Done():
			t.Fatalf("%d of %d came", len(all), n)
		}
	}
	return all
}

// A telling is what the application is told of one record.
type telling struct {
	record int
	ack    sdk.Ack
	err    error
}

// async sends records without waiting. What is told of them comes in the order of telling.
func async(t *testing.T, p *sdk.Producer, from, to int) <-chan telling {
	t.Helper()
	told := make(chan telling, to-from)
	for i := from; i < to; i++ {
		if err := p.SendAsync(testContext(t), value(i), func(ack sdk.Ack, err error) { told <- telling{i, ack, err} }); err != nil {
			t.Fatal(err)
		}
	}
	return told
}

// given sends a record with a context that the caller ends, and says what the Send returns.
func given(t *testing.T, p *sdk.Producer, i int) (giveUp context.CancelFunc, gaveUp <-chan error) {
	ctx, giveUp := context.WithCancel(testContext(t))
	t.Cleanup(giveUp)
	said := make(chan error, 1)
	go func() {
		_, err := p.Send(ctx, value(i))
		said <- err
	}()
	return giveUp, said
}

// wantStored wants the next record that is told to be stored at a place of its own.
func wantStored(t *testing.T, told <-chan telling, record int, sequence int64, duplicate bool) {
	t.Helper()
	got := await(t, told, 1)[0]
	if got.record != record || got.err != nil || got.ack.Sequence != sequence || got.ack.Duplicate != duplicate {
		t.Errorf("told of record %d: %+v, %v; want record %d with sequence %d, duplicate %v",
			got.record, got.ack, got.err, record, sequence, duplicate)
	}
}

// copies keeps what arrives at the server, as it arrives.
type copies struct {
	mu  sync.Mutex
	all []wire.Produce
}

// hook sees every batch, may change it, and may cut the connection behind it.
func (c *copies) hook(change func(m *wire.Produce) (cut bool)) servertest.FrameHooks {
	return servertest.FrameHooks{End: func(in bool, m wire.Message) bool {
		p, is := m.(*wire.Produce)
		if !is || !in {
			return false
		}
		kept := *p
		kept.Batch = bytes.Clone(p.Batch)
		c.mu.Lock()
		c.all = append(c.all, kept)
		c.mu.Unlock()
		return change != nil && change(p)
	}}
}

// of is a copy of the batch with this base sequence and epoch.
func (c *copies) of(t *testing.T, base int64, epoch uint32) []byte {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.all {
		if b := parsed(t, c.all[i].Batch); int64(b.BaseSequence()) == base && uint32(b.Epoch()) == epoch {
			return c.all[i].Batch
		}
	}
	t.Fatalf("no batch with sequence %d and epoch %d has arrived", base, epoch)
	return nil
}
