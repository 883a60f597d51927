package sdk_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// closeShort closes p within d and says what became of the records that it was given.
func closeShort(t *testing.T, p *sdk.Producer, records int, d time.Duration) ([]sdk.Abandoned, []error, error) {
	t.Helper()
	outcomes := make(chan error, records)
	for i := range records {
		if err := p.SendAsync(testContext(t), value(i), func(_ sdk.Ack, err error) { outcomes <- err }); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(testContext(t), d)
	defer cancel()
	abandoned, err := p.Close(short)
	var all []error
	for range records {
		all = append(all, <-outcomes)
	}
	return abandoned, all, err
}

func TestCloseSettles(t *testing.T) {
	t.Run("stored", func(t *testing.T) {
		s, c, _ := setUp(t, 1)
		p := build(t, c.Producer("t").BatchBytes(1))
		open := unanswered(t, s)
		abandoned, outcomes, err := closeShort(t, p, 3, time.Second)
		open()
		if told := errors.Join(outcomes...); told != nil || len(abandoned) != 0 || err != nil {
			t.Errorf("abandoned %v, %v; told %v", abandoned, err, told)
		}
		wantLog(t, c, numbers(0, 3)...)
	})
	t.Run("not stored", func(t *testing.T) {
		s, c, _ := setUp(t, 1)
		p := build(t, c.Producer("t").BatchBytes(1))
		open := unread(t, s)
		abandoned, outcomes, err := closeShort(t, p, 3, time.Second)
		open()
		for _, outcome := range outcomes {
			wantNotStored(t, outcome, sdk.ErrClosed)
		}
		if len(abandoned) != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("abandoned %v, %v", abandoned, err)
		}
		wantLog(t, c)
	})
	t.Run("cancelled without a deadline", func(t *testing.T) {
		s, c, _ := setUp(t, 1)
		p := build(t, c.Producer("t"))
		outcome := make(chan error, 1)
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
			if in && k == wire.KindProduce {
				cancel()
				return 0
			}
			return -1
		}})
		if err := p.SendAsync(testContext(t), value(0), func(_ sdk.Ack, err error) { outcome <- err }); err != nil {
			t.Fatal(err)
		}
		abandoned, err := p.Close(ctx)
		// There were 50 ms to settle: mostly enough to connect again and ask.
		var notStored *sdk.NotStored
		if told := <-outcome; errors.As(told, &notStored) == (len(abandoned) == 1) || !errors.Is(err, context.Canceled) {
			t.Errorf("abandoned %v, %v; told %v", abandoned, err, told)
		}
	})
	t.Run("unknown, and settled when the server is back", func(t *testing.T) {
		s := servertest.Start(t)
		events := newSettledEvents()
		c := dial(t, s, events.option())
		createTopic(t, c, "t", 1)
		p := build(t, c.Producer("t"))
		_, release := s.HoldSync()
		abandoned, outcomes, err := closeShort(t, p, 1, 200*time.Millisecond)
		unknown := wantUnknown(t, outcomes[0])
		if len(abandoned) != 1 || abandoned[0].Token != unknown.Token() || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("abandoned %v, %v", abandoned, err)
		}
		release()
		events.want(t, unknown.Token(), sdk.ResolveStored, 0)
		if r, err := c.Resolve(testContext(t), abandoned[0].Token); err != nil || r.Outcome != sdk.ResolveStored {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestCloseTellsTheServer(t *testing.T) {
	s := servertest.Start(t)
	m := startMeddler(t, s)
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, m.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	createTopic(t, c, "t", 1)
	closed := func(p *sdk.Producer) bool {
		t.Helper()
		lane, err := c.DescribeProducer(ctx, "t", 0, p.ID())
		if err != nil {
			t.Fatal(err)
		}
		return lane.Closed
	}
	send := func() *sdk.Producer {
		t.Helper()
		p := build(t, c.Producer("t").DeliveryTimeout(300*time.Millisecond))
		if _, err := p.Send(ctx, value(0)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var said atomic.Int64
	lose := new(atomic.Bool)
	m.loseReplies(func(k wire.Kind) bool {
		if k != wire.KindProducerClosed {
			return false
		}
		said.Add(1)
		return lose.Load()
	})

	p := send()
	if closed(p) {
		t.Error("closed before Close")
	}
	if _, err := p.Close(ctx); err != nil || !closed(p) || said.Load() != 1 {
		t.Errorf("%v; the server knows: %v", err, closed(p))
	}

	lose.Store(true)
	p = send()
	if _, err := p.Close(ctx); err != nil || !closed(p) {
		t.Errorf("when the answer is lost: %v", err)
	}
	lose.Store(false)

	p = send()
	_, release := s.HoldSync()
	_, err = p.Send(ctx, value(1))
	wantUnknown(t, err)
	before := said.Load()
	if abandoned, err := p.Close(ctx); len(abandoned) != 1 || err == nil || said.Load() != before {
		t.Errorf("with a batch unknown: %v, %v, said %d times", abandoned, err, said.Load()-before)
	}
	release()

	p = send()
	m.cutOff(true)
	start := time.Now()
	if _, err := p.Close(ctx); err != nil {
		t.Errorf("without a server: %v", err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("without a server it took %v", d)
	}
	m.cutOff(false)
}

// TestContinueAfterLoss: the server was restored from a backup that is older than its
// acknowledgements.
func TestContinueAfterLoss(t *testing.T) {
	s, c, p := setUp(t, 2)
	ctx := testContext(t)
	if err := p.ContinueAfterLoss(ctx, 0); !errors.Is(err, sdk.ErrNotLost) {
		t.Errorf("before anything was sent: %v", err)
	}
	if err := p.ContinueAfterLoss(ctx, 2); !errors.Is(err, sdk.ErrUnknownPartition) {
		t.Errorf("a partition that is not there: %v", err)
	}
	send := func(i int) (sdk.Ack, error) { return p.Send(ctx, keyed(0, 2, i)) }
	other := func(i int) (sdk.Ack, error) { return p.Send(ctx, keyed(1, 2, i)) }
	must := func(ack sdk.Ack, err error) sdk.Ack {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return ack
	}
	must(send(0))
	must(other(0))
	restore := backUp(t, s)
	must(send(1))
	must(send(2))
	restore()
	_, err := send(3)
	wantNotStored(t, err, sdk.ErrDataLoss)
	if _, err := send(3); !errors.Is(err, sdk.ErrDataLoss) {
		t.Errorf("the partition takes records again by itself: %v", err)
	}
	must(other(1))
	if err := p.ContinueAfterLoss(ctx, 1); !errors.Is(err, sdk.ErrNotLost) {
		t.Errorf("a partition without loss: %v", err)
	}
	if err := p.ContinueAfterLoss(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if ack := must(send(4)); ack.Sequence != 1 || ack.Offset != 1 || p.Epoch() != 1 {
		t.Errorf("it goes on with %+v, epoch %d", ack, p.Epoch())
	}
	must(other(2)) // under the raised epoch, as if nothing had been
	if err := p.ContinueAfterLoss(ctx, 0); !errors.Is(err, sdk.ErrNotLost) {
		t.Errorf("a second time: %v", err)
	}
	all := readAll(t, c, "t")
	if got := values(all[0]); len(got) != 2 || got[0] != "0" || got[1] != "4" {
		t.Errorf("stored: %q", got)
	}
	if _, err := p.Close(ctx); err != nil {
		t.Error(err)
	}
}

// lostOne is a producer, behind a meddler, whose second record the server has acknowledged
// and lost: it was restored from a backup.
func lostOne(t *testing.T) (*meddler, *sdk.Client, *sdk.Producer) {
	t.Helper()
	s := servertest.Start(t)
	m := startMeddler(t, s)
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, m.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t"))
	goesOn(t, p, 0, 0, 0)
	restore := backUp(t, s)
	goesOn(t, p, 1, 1, 0)
	restore()
	if _, err := p.Send(ctx, value(2)); !errors.Is(err, sdk.ErrDataLoss) {
		t.Fatal(err)
	}
	return m, c, p
}

// backUp copies what the server has; restore gives it back.
func backUp(t *testing.T, s *servertest.Server) (restore func()) {
	t.Helper()
	backup := t.TempDir()
	s.RestartWith(func() {
		if err := os.CopyFS(backup, os.DirFS(s.Data())); err != nil {
			t.Error(err)
		}
	})
	return func() {
		s.RestartWith(func() {
			if err := errors.Join(os.RemoveAll(s.Data()), os.CopyFS(s.Data(), os.DirFS(backup))); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestContinueAfterLossThroughFaults loses the answers on the way.
func TestContinueAfterLossThroughFaults(t *testing.T) {
	for _, kind := range []wire.Kind{wire.KindEpochBumped, wire.KindLaneOpened} {
		t.Run(kind.String(), func(t *testing.T) {
			m, c, p := lostOne(t)
			var lost atomic.Int64
			m.loseReplies(func(k wire.Kind) bool { return k == kind && lost.Add(1) <= 2 })
			if err := p.ContinueAfterLoss(testContext(t), 0); err != nil {
				t.Fatal(err)
			}
			goesOn(t, p, 3, 1, 1)
			wantLog(t, c, "0", "3")
		})
	}
	t.Run("a call that gave up, and another", func(t *testing.T) {
		m, c, p := lostOne(t)
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		m.loseReplies(func(k wire.Kind) bool {
			if k == wire.KindEpochBumped {
				cancel()
			}
			return k == wire.KindEpochBumped
		})
		if err := p.ContinueAfterLoss(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		m.loseReplies(nil)
		if err := p.ContinueAfterLoss(testContext(t), 0); err != nil {
			t.Fatal(err)
		}
		goesOn(t, p, 3, 1, 1) // the epoch was raised once
		wantLog(t, c, "0", "3")
	})
}

// keyed is a record whose key belongs to a partition.
func keyed(partition, partitions, i int) sdk.Record {
	r := value(i)
	for r.Key = []byte{0}; sdk.PartitionForKey(r.Key, partitions) != partition; r.Key[0]++ {
	}
	return r
}
