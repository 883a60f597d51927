package sdk_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// settledEvents is a client's OnEvent that keeps EventSettled.
type settledEvents chan sdk.Event

func newSettledEvents() settledEvents { return make(settledEvents, 1000) }

func (e settledEvents) option() sdk.DialOption {
	return sdk.OnEvent(func(ev sdk.Event) {
		if ev.Kind == sdk.EventSettled {
			e <- ev
		}
	})
}

// want waits for the next event, which must be about this batch.
func (e settledEvents) want(t *testing.T, token sdk.Token, outcome sdk.ResolveOutcome, offset int64) {
	t.Helper()
	select {
	case ev := <-e:
		if ev.Token != token || ev.Resolution.Outcome != outcome || ev.Resolution.Offset != offset || ev.Topic != "t" {
			t.Errorf("event about %v: %+v, want %v: %v at %d", ev.Token, ev.Resolution, token, outcome, offset)
		}
	case <-testContext(t).Done():
		t.Fatalf("no event about %v", token)
	}
}

func (e settledEvents) wantNone(t *testing.T) {
	t.Helper()
	select {
	case ev := <-e:
		t.Errorf("another event: %+v", ev)
	default:
	}
}

// wantUnknown is err as what it must be.
func wantUnknown(t *testing.T, err error) *sdk.OutcomeUnknown {
	t.Helper()
	var unknown *sdk.OutcomeUnknown
	if !errors.As(err, &unknown) {
		t.Fatalf("not unknown: %v", err)
	}
	return unknown
}

func wantNotStored(t *testing.T, err, cause error) {
	t.Helper()
	var notStored *sdk.NotStored
	if !errors.As(err, &notStored) || !errors.Is(err, cause) {
		t.Errorf("want not stored, because of %v: %v", cause, err)
	}
}

// Ways in which a stranded batch goes on.
const (
	neverRead = iota // the connection is cut in front of it
	ackLost          // it is stored, the connection is cut in front of its ack
	inTime           // nothing more happens to it
)

// stranded gives up a Send of record 0 after its batch was handed to the network and
// before the server has read it, with records 1 and 2 sent behind it. What happens to it
// then is said by way.
func stranded(t *testing.T, s *servertest.Server, p *sdk.Producer, way int, meanwhile func(sdk.Token)) (token sdk.Token, acks func() [2]sdk.Ack) {
	t.Helper()
	arrived, gate := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(goOn) // also when the test ends here
	var once sync.Once
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		cut := -1
		if in && k == wire.KindProduce {
			once.Do(func() {
				close(arrived)
				<-gate
				if way == neverRead {
					cut = 0
				}
			})
		}
		return cut
	}})
	ctx, cancel := context.WithCancel(testContext(t))
	gaveUp := make(chan error, 1)
	go func() {
		_, err := p.Send(ctx, value(0))
		gaveUp <- err
	}()
	<-arrived
	type result struct {
		ack sdk.Ack
		err error
	}
	results := make(chan result, 2)
	for i := 1; i <= 2; i++ {
		if err := p.SendAsync(testContext(t), value(i), func(ack sdk.Ack, err error) { results <- result{ack, err} }); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	unknown := wantUnknown(t, <-gaveUp)
	token = unknown.Token()
	if !errors.Is(unknown, context.Canceled) || unknown.Record != 0 || token.First() != 0 || token.Last() != 0 ||
		token.ProducerID() != p.ID() || token.Topic() != "t" || token.Partition() != 0 {
		t.Errorf("given up: %v, %v", unknown, token)
	}
	if way == ackLost {
		s.DropAck(1)
	}
	meanwhile(token)
	goOn()
	return token, func() (acks [2]sdk.Ack) {
		t.Helper()
		for i, r := range await(t, results, len(acks)) {
			if r.err != nil {
				t.Fatalf("record %d: %v", i+1, r.err)
			}
			acks[i] = r.ack
		}
		return acks
	}
}

// goesOn sends one more record and wants it behind the others.
func goesOn(t *testing.T, p *sdk.Producer, i int, sequence int64, epoch uint32) {
	t.Helper()
	ack, err := p.Send(testContext(t), value(i))
	if err != nil || ack.Sequence != sequence || p.Epoch() != epoch {
		t.Errorf("record %d: sequence %d, epoch %d, %v; want sequence %d, epoch %d", i, ack.Sequence, p.Epoch(), err, sequence, epoch)
	}
}

func wantLog(t *testing.T, c *sdk.Client, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, values(readAll(t, c, "t")[0])); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}

// TestGivenUpIsNeverSentAgain: the batch of a Send that gave up did not arrive. It is
// settled, and what stood behind it takes its place under the next epoch, whatever happens
// on the way there.
func TestGivenUpIsNeverSentAgain(t *testing.T) {
	lost := func(kind wire.Kind, times int, harm func(s *servertest.Server)) func(s *servertest.Server, m *meddler) {
		return func(s *servertest.Server, m *meddler) {
			var mu sync.Mutex
			m.loseReplies(func(k wire.Kind) bool {
				mu.Lock()
				defer mu.Unlock()
				if k != kind || times == 0 {
					return false
				}
				times--
				if harm != nil {
					harm(s)
				}
				return true
			})
		}
	}
	tests := []struct {
		name   string
		meddle func(s *servertest.Server, m *meddler)
	}{
		{"nothing else happens", func(*servertest.Server, *meddler) {}},
		{"the answer to Resolve is lost", lost(wire.KindResolved, 1, nil)},
		{"the answer to Resolve is lost again and again", lost(wire.KindResolved, 3, nil)},
		{"the answer to BumpEpoch is lost", lost(wire.KindEpochBumped, 1, nil)},
		{"the answer to BumpEpoch is lost again and again", lost(wire.KindEpochBumped, 3, nil)},
		{"the answer to OpenLane is lost", lost(wire.KindLaneOpened, 2, nil)},
		{"a restart between fence and answer", lost(wire.KindResolved, 1, (*servertest.Server).Restart)},
		{"a power cut between fence and answer", lost(wire.KindResolved, 1, (*servertest.Server).Crash)},
		{"a restart between epoch and answer", lost(wire.KindEpochBumped, 1, (*servertest.Server).Restart)},
		{"a power cut between epoch and answer", lost(wire.KindEpochBumped, 1, (*servertest.Server).Crash)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := servertest.Start(t, servertest.InMemory())
			m := startMeddler(t, s)
			events := newSettledEvents()
			ctx := testContext(t)
			c, err := sdk.Dial(ctx, m.url, events.option())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(ctx)
			createTopic(t, c, "t", 1)
			p := build(t, c.Producer("t").BatchBytes(1))
			tt.meddle(s, m)
			token, acks := stranded(t, s, p, neverRead, func(sdk.Token) {})
			events.want(t, token, sdk.ResolveNotStored, -1)
			for i, ack := range acks() {
				if ack.Sequence != int64(i) || ack.Offset != int64(i) {
					t.Errorf("record %d: %+v", i+1, ack)
				}
			}
			goesOn(t, p, 3, 2, 1)
			wantLog(t, c, "1", "2", "3")
			events.wantNone(t)
		})
	}
}

// TestGivenUpAndStored: the batch arrived, its ack was lost. It is found, and nothing
// needs another epoch.
func TestGivenUpAndStored(t *testing.T) {
	s := servertest.Start(t)
	events := newSettledEvents()
	c := dial(t, s, events.option())
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t").BatchBytes(1))
	token, acks := stranded(t, s, p, ackLost, func(sdk.Token) {})
	events.want(t, token, sdk.ResolveStored, 0)
	acks()
	goesOn(t, p, 3, 3, 0)
	wantLog(t, c, "0", "1", "2", "3")
}

// TestFenceOfTheApplication: the application settles a batch that the lane still waits
// for. The lane meets the fence, and goes on.
func TestFenceOfTheApplication(t *testing.T) {
	s := servertest.Start(t)
	events := newSettledEvents()
	c := dial(t, s, events.option())
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t"))
	ctx := testContext(t)
	goesOn(t, p, 0, 0, 0)
	began, release := s.HoldAppend()
	gone, cancel := context.WithCancel(ctx)
	go func() {
		<-began
		cancel()
	}()
	_, err := p.Send(gone, value(1))
	token := wantUnknown(t, err).Token()
	release()
	r, err := c.Resolve(ctx, token, sdk.Settle())
	if err != nil {
		t.Fatal(err)
	}
	events.want(t, token, r.Outcome, r.Offset)
	again, err := c.Resolve(ctx, token)
	if err != nil || again.Outcome != r.Outcome || again.Offset != r.Offset {
		t.Errorf("settled as %+v, then %+v, %v", r, again, err)
	}
	// Whatever it was, the partition takes records.
	if _, err := p.Send(ctx, value(2)); err != nil {
		t.Fatal(err)
	}
}

// TestFenceInFrontOfALivingLane: somebody else settles the batch while it is on its way, so
// it and those behind it run into the fence. Those behind it are stored all the same.
func TestFenceInFrontOfALivingLane(t *testing.T) {
	s := servertest.Start(t)
	events := newSettledEvents()
	c, somebody := dial(t, s, events.option()), dial(t, s)
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t").BatchBytes(1))
	token, acks := stranded(t, s, p, inTime, func(token sdk.Token) {
		r, err := somebody.Resolve(testContext(t), token, sdk.Settle())
		if err != nil || r.Outcome != sdk.ResolveNotStored {
			t.Errorf("%+v, %v", r, err)
		}
	})
	events.want(t, token, sdk.ResolveNotStored, -1)
	for i, ack := range acks() {
		if ack.Sequence != int64(i) || ack.Duplicate {
			t.Errorf("record %d: %+v", i+1, ack)
		}
	}
	goesOn(t, p, 3, 2, 1)
	wantLog(t, c, "1", "2", "3")
}

// unread lets batches lie with the server, which does not read them until open is called.
func unread(t *testing.T, s *servertest.Server) (open func()) {
	return hold(t, s, true, wire.KindProduce)
}

// unanswered keeps back every answer to a batch until open is called.
func unanswered(t *testing.T, s *servertest.Server) (open func()) {
	return hold(t, s, false, wire.KindProduceResults)
}

func hold(t *testing.T, s *servertest.Server, in bool, kind wire.Kind) (open func()) {
	gate := make(chan struct{})
	s.HookFrames(servertest.FrameHooks{Start: func(comesIn bool, k wire.Kind, _ int) int {
		if comesIn == in && k == kind {
			<-gate
		}
		return -1
	}})
	open = sync.OnceFunc(func() {
		s.HookFrames(servertest.FrameHooks{})
		close(gate)
	})
	t.Cleanup(open)
	return open
}

func TestDeliveryTimeoutIsSettled(t *testing.T) {
	t.Run("not stored", func(t *testing.T) {
		s, c, _ := setUp(t, 1)
		p := build(t, c.Producer("t").DeliveryTimeout(400*time.Millisecond))
		open := unread(t, s)
		_, err := p.Send(testContext(t), value(0))
		wantNotStored(t, err, sdk.ErrDeliveryTimeout)
		open()
		goesOn(t, p, 1, 0, 1)
		wantLog(t, c, "1")
		if abandoned, err := p.Close(testContext(t)); len(abandoned) != 0 || err != nil {
			t.Errorf("abandoned %v, %v", abandoned, err)
		}
	})
	t.Run("stored", func(t *testing.T) {
		s, c, _ := setUp(t, 1)
		p := build(t, c.Producer("t").DeliveryTimeout(400*time.Millisecond))
		open := unanswered(t, s)
		ack, err := p.Send(testContext(t), value(0))
		if err != nil || !ack.Duplicate || !ack.Verified || ack.Offset != 0 || ack.Sequence != 0 {
			t.Errorf("%+v, %v", ack, err)
		}
		open()
		goesOn(t, p, 1, 1, 0)
		wantLog(t, c, "0", "1")
	})
	t.Run("unknown, and stored after all", func(t *testing.T) {
		s := servertest.Start(t)
		events := newSettledEvents()
		c := dial(t, s, events.option())
		createTopic(t, c, "t", 1)
		p := build(t, c.Producer("t").DeliveryTimeout(100*time.Millisecond))
		_, release := s.HoldSync()
		_, err := p.Send(testContext(t), value(0))
		token := wantUnknown(t, err).Token()
		release()
		events.want(t, token, sdk.ResolveStored, 0)
		goesOn(t, p, 1, 1, 0)
		if abandoned, err := p.Close(testContext(t)); len(abandoned) != 0 || err != nil {
			t.Errorf("abandoned %v, %v", abandoned, err)
		}
		wantLog(t, c, "0", "1")
	})
	t.Run("unknown without a server, and not stored after all", func(t *testing.T) {
		s := servertest.Start(t)
		events := newSettledEvents()
		c := dial(t, s, events.option())
		createTopic(t, c, "t", 1)
		p := build(t, c.Producer("t").DeliveryTimeout(400*time.Millisecond))
		arrived := make(chan struct{})
		var once sync.Once
		s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
			if in && k == wire.KindProduce {
				once.Do(func() { close(arrived) })
				return 0
			}
			return -1
		}})
		outcome := make(chan error, 1)
		go func() {
			_, err := p.Send(testContext(t), value(0))
			outcome <- err
		}()
		<-arrived
		var token sdk.Token
		s.RestartWith(func() {
			unknown := wantUnknown(t, <-outcome)
			if token = unknown.Token(); !errors.Is(unknown, sdk.ErrDeliveryTimeout) {
				t.Errorf("because of %v", unknown.Cause)
			}
			s.HookFrames(servertest.FrameHooks{})
		})
		events.want(t, token, sdk.ResolveNotStored, -1)
		goesOn(t, p, 1, 0, 1)
		wantLog(t, c, "1")
	})
}

// ContinueAfterLoss raised the epoch, its answer was lost, and its ctx ended. Another
// partition, whose lane is healthy, has to go on after the reconnect.
func TestContinueWithLostBumpDoesNotStopOtherPartitions(t *testing.T) {
	s := servertest.Start(t)
	m := startMeddler(t, s)
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, m.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(ctx)
	}()
	createTopic(t, c, "t", 2)
	byKey := func(r *sdk.Record, _ int) int { return int(r.Key[0] - '0') }
	p := build(t, c.Producer("t").Partitioner(byKey).DeliveryTimeout(2*time.Second))
	other := build(t, c.Producer("t").Partition(0))
	send := func(partition string, text string) error {
		_, err := p.Send(ctx, sdk.Record{Key: []byte(partition), Value: []byte(text)})
		return err
	}
	if err := send("0", "this one is lost"); err != nil {
		t.Fatal(err)
	}
	if err := send("1", "healthy"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Send(ctx, value(1)); err != nil {
		t.Fatal(err)
	}
	damage(t, s, "this one is lost")
	if err := send("0", "x"); err == nil {
		t.Fatal("no loss")
	}
	gaveUp, cancel := context.WithCancel(ctx)
	m.loseReplies(func(k wire.Kind) bool {
		if k == wire.KindEpochBumped {
			cancel()
		}
		return k == wire.KindEpochBumped
	})
	if err := p.ContinueAfterLoss(gaveUp, 0); err == nil {
		t.Fatal("it went on")
	}
	m.loseReplies(nil)
	for i := range 3 {
		if err := send("1", "healthy still"); err != nil {
			t.Errorf("record %d to the other partition: %v", i, err)
		}
	}
}
