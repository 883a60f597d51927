package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

func isError(err, target error) bool { return errors.Is(err, target) }

// A sending is a producer in the middle of its work, as faults see it.
type sending struct {
	*servertest.Server
	next  func() // sends the next record
	flush func()
}

// TestFaultsLoseAndDoubleNothing sends while something bad happens again and again, and
// then wants every record once, in order, at the offset of its ack.
func TestFaultsLoseAndDoubleNothing(t *testing.T) {
	tests := []struct {
		name  string
		fault func(s sending)
	}{
		{"cut connections", func(s sending) { s.CutConnection() }},
		{"restarts", func(s sending) { s.Restart() }},
		{"power cuts", cutPower},
		{"lost acknowledgements", func(s sending) { s.DropAck(1 + rand.IntN(3)) }},
		{"failing writes", func(s sending) { s.FailAppend() }},
		{"failing syncs", func(s sending) {
			s.FailSync()
			s.Restart()
		}},
		{"cuts inside of frames", cutFramesSometimes},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { sendThrough(t, tt.fault) })
	}
}

func sendThrough(t *testing.T, fault func(sending)) {
	const records, faults, partitions = 2000, 6, 2
	s, c, _ := setUp(t, partitions, servertest.InMemory())
	p := build(t, c.Producer("t").BatchBytes(300).MaxBuffered(8<<10).
		Partitioner(func(r *sdk.Record, n int) int { return len(r.Key) % n }))
	ctx := testContext(t)
	var acks []*sdk.Ack
	send := func() {
		i := len(acks)
		acks = append(acks, new(sdk.Ack))
		r, into := value(i), acks[i]
		r.Key = make([]byte, i%partitions)
		err := p.SendAsync(ctx, r, func(ack sdk.Ack, err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
			*into = ack
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	flush := func() {
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range records {
		if i%(records/faults) == records/faults/2 {
			fault(sending{s, send, flush})
		}
		send()
	}
	flush()
	s.HookFrames(servertest.FrameHooks{})
	all := readAll(t, c, "t")
	for i, ack := range acks {
		at := all[ack.Partition]
		if ack.Partition != i%partitions || ack.Offset >= int64(len(at)) || string(at[ack.Offset].Value) != fmt.Sprint(i) {
			t.Fatalf("record %d is not at %d/%d, where its ack says", i, ack.Partition, ack.Offset)
		}
	}
	if n := len(all[0]) + len(all[1]); n != len(acks) {
		t.Errorf("%d records are stored, %d were sent", n, len(acks))
	}
}

// cutPower cuts the power while batches are appended and not synced.
func cutPower(s sending) {
	s.flush()
	began, release := s.HoldSync()
	for range 20 {
		s.next()
	}
	<-began
	s.CrashWith(release)
}

// cutFramesSometimes cuts the connection at any byte of one frame in fifty.
func cutFramesSometimes(s sending) {
	s.HookFrames(servertest.FrameHooks{Start: func(_ bool, _ wire.Kind, size int) int {
		if rand.IntN(50) > 0 {
			return -1
		}
		return rand.IntN(size)
	}})
}

// TestFailedSyncIsMendedByARestart: the server cannot say whether the batch is on disk
// until it is started again; the producer asks until then.
func TestFailedSyncIsMendedByARestart(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	throttled := make(chan sdk.Event, 1000)
	c := dial(t, s, sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventThrottled {
			throttled <- e
		}
	}))
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t"))
	s.FailSync()
	outcome := make(chan error, 1)
	go func() {
		_, err := p.Send(testContext(t), value(0))
		outcome <- err
	}()
	<-throttled
	s.Restart()
	if err := <-outcome; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbers(0, 1), values(readAll(t, c, "t")[0])); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}

func TestLostAckIsADuplicate(t *testing.T) {
	s, c, p := setUp(t, 1)
	ctx := testContext(t)
	if _, err := p.Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	s.DropAck(1)
	ack, err := p.Send(ctx, value(1))
	if err != nil {
		t.Fatal(err)
	}
	if !ack.Duplicate || ack.Offset != 1 || ack.Sequence != 1 || !ack.AppendTime.IsZero() && ack.AppendTime.Year() < 2000 {
		t.Errorf("ack %+v", ack)
	}
	if diff := cmp.Diff(numbers(0, 2), values(readAll(t, c, "t")[0])); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}

func TestReconnectIsQuick(t *testing.T) {
	s, _, p := setUp(t, 1)
	ctx := testContext(t)
	start := time.Now()
	const cuts = 50
	for i := range cuts {
		s.CutConnection()
		if _, err := p.Send(ctx, value(i)); err != nil {
			t.Fatal(err)
		}
	}
	each := time.Since(start) / cuts
	t.Logf("%v for a reconnect and a send", each)
	if each > 500*time.Millisecond {
		t.Errorf("a reconnect and a send take %v", each)
	}
}

func TestEventsTellOfTheConnection(t *testing.T) {
	s := servertest.Start(t)
	events := make(chan sdk.Event, 100)
	c := dial(t, s, sdk.OnEvent(func(e sdk.Event) { events <- e }))
	ctx := testContext(t)
	await := func(kind sdk.EventKind) sdk.Event {
		t.Helper()
		for {
			select {
			case e := <-events:
				if e.Time.IsZero() {
					t.Errorf("%v has no time", e.Kind)
				}
				if e.Kind == kind {
					return e
				}
			case <-ctx.Done():
				t.Fatalf("no event %v", kind)
			}
		}
	}
	await(sdk.EventConnected)
	s.CutConnection()
	if e := await(sdk.EventDisconnected); e.Err == nil || e.Addr == "" {
		t.Errorf("disconnected: %+v", e)
	}
	await(sdk.EventConnected)
	s.Restart()
	await(sdk.EventDrained)
	await(sdk.EventConnected)
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t"))
	s.FailAppend()
	if _, err := p.Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	if e := await(sdk.EventThrottled); e.Topic != "t" || e.Err == nil {
		t.Errorf("throttled: %+v", e)
	}
}

func TestDeliveryTimeoutOfWhatWasSentIsUnknown(t *testing.T) {
	s, c, _ := setUp(t, 1)
	p := build(t, c.Producer("t").DeliveryTimeout(100*time.Millisecond))
	ctx := testContext(t)
	_, release := s.HoldSync()
	defer release()
	_, err := p.Send(ctx, value(0))
	var unknown *sdk.OutcomeUnknown
	if !errors.As(err, &unknown) || !errors.Is(err, sdk.ErrDeliveryTimeout) || unknown.Sequence != 0 || unknown.ProducerID != p.ID() {
		t.Fatalf("got %v", err)
	}
	_, err = p.Send(ctx, value(1))
	var notStored *sdk.NotStored
	if !errors.As(err, &notStored) || !errors.Is(err, sdk.ErrDeliveryTimeout) {
		t.Errorf("the partition still takes records: %v", err)
	}
	abandoned, err := p.Close(ctx)
	if len(abandoned) != 1 || abandoned[0].First != 0 || abandoned[0].Last != 0 || err == nil {
		t.Errorf("abandoned %+v, %v", abandoned, err)
	}
}

func TestDeliveryTimeoutOfWhatWasNeverSentIsNotStored(t *testing.T) {
	srv, stop := startServer(t)
	ctx := testContext(t)
	retries := make(chan sdk.Event, 1000)
	c, err := sdk.Dial(ctx, srv.URL(), sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventRetry {
			retries <- e
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t").DeliveryTimeout(300*time.Millisecond))
	stop()
	_, err = p.Send(ctx, value(0))
	var notStored *sdk.NotStored
	if !errors.As(err, &notStored) || !errors.Is(err, sdk.ErrDeliveryTimeout) {
		t.Errorf("got %v", err)
	}
	if e := <-retries; e.Attempt != 1 || e.Err == nil {
		t.Errorf("first failed attempt: %+v", e)
	}
	if err := c.Close(ctx); err != nil {
		t.Errorf("close with a server that is gone: %v", err)
	}
}

// TestWhatAPartitionWaitsForIsSaid: a timeout alone would hide that the disk is full.
func TestWhatAPartitionWaitsForIsSaid(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	throttled := make(chan struct{}, 1000)
	c := dial(t, s, sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventThrottled {
			throttled <- struct{}{}
		}
	}))
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t").MaxBuffered(1<<10).DeliveryTimeout(500*time.Millisecond))
	ctx := testContext(t)
	s.FillDisk()
	defer s.FreeDisk()
	outcome := make(chan error, 1)
	if err := p.SendAsync(ctx, sdk.Record{Value: make([]byte, 900)}, func(_ sdk.Ack, err error) { outcome <- err }); err != nil {
		t.Fatal(err)
	}
	<-throttled
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	err := p.SendAsync(short, sdk.Record{Value: make([]byte, 900)}, nil)
	for _, err := range []error{err, <-outcome} {
		var refusal *sdk.ServerError
		if !errors.As(err, &refusal) || refusal.Code != wire.CodeDiskFull {
			t.Errorf("the reason is missing: %v", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, sdk.ErrDeliveryTimeout) {
			t.Errorf("the timeout is missing: %v", err)
		}
	}
}

// TestOutcomesComeInOrderAndInTime: what was sent ends before what never was, and neither
// a server that does not read nor one that does not answer delays either. What it has not
// answered is found by asking.
func TestOutcomesComeInOrderAndInTime(t *testing.T) {
	const delivery = time.Second // and a quarter of it to ask
	hooks := map[string]func(s *servertest.Server, gate <-chan struct{}){
		"does not read": func(s *servertest.Server, gate <-chan struct{}) {
			s.HookFrames(servertest.FrameHooks{Start: func(_ bool, k wire.Kind, _ int) int {
				if k == wire.KindProduce {
					<-gate
				}
				return -1
			}})
		},
		"does not answer": func(s *servertest.Server, gate <-chan struct{}) {
			s.HookFrames(servertest.FrameHooks{Start: func(_ bool, k wire.Kind, _ int) int {
				if k == wire.KindProduceResults {
					<-gate
				}
				return -1
			}})
		},
	}
	for name, hook := range hooks {
		t.Run(name, func(t *testing.T) {
			s, c, _ := setUp(t, 1, servertest.InMemory())
			p := build(t, c.Producer("t").DeliveryTimeout(delivery).BatchBytes(900<<10))
			gate := make(chan struct{})
			defer close(gate)
			hook(s, gate)
			const records = 10
			order := make(chan int, records)
			stored := 0 // callbacks of a partition never overlap
			start := time.Now()
			for i := range records {
				err := p.SendAsync(testContext(t), sdk.Record{Value: make([]byte, 800<<10)}, func(_ sdk.Ack, err error) {
					switch {
					case err == nil:
						stored++
					case !errors.Is(err, sdk.ErrDeliveryTimeout):
						t.Errorf("record %d: %v", i, err)
					}
					order <- i
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := range records {
				if got := <-order; got != i {
					t.Errorf("outcome %d is that of record %d", i, got)
				}
			}
			if d := time.Since(start); d > delivery+5*time.Second {
				t.Errorf("the last outcome came after %v", d)
			}
			if read := name == "does not answer"; read != (stored > 0) {
				t.Errorf("%d records are stored", stored)
			}
		})
	}
}

// TestManyProducersOneAfterTheOther: a server keeps every lane until its stream ends, and
// allows a connection a thousand streams.
func TestManyProducersOneAfterTheOther(t *testing.T) {
	const chains, producers, partitions = 40, 2000, 4
	quiet := servertest.Configure(func(c *server.Config) { c.Log = slog.New(slog.DiscardHandler) })
	_, c, _ := setUp(t, partitions, servertest.InMemory(), quiet)
	ctx := testContext(t)
	var wg sync.WaitGroup
	for chain := range chains {
		wg.Go(func() {
			for i := range producers / chains {
				if err := sendOne(ctx, c.Producer("t").Partition(chain%partitions)); err != nil {
					t.Errorf("producer %d of chain %d: %v", i+1, chain, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func sendOne(ctx context.Context, b *sdk.ProducerBuilder) error {
	p, err := b.Idempotent().Build(ctx)
	if err != nil {
		return err
	}
	_, err = p.Send(ctx, value(0))
	_, closing := p.Close(ctx)
	return errors.Join(err, closing)
}

func TestDeletedTopicEndsTheProducer(t *testing.T) {
	_, c, p := setUp(t, 1)
	ctx := testContext(t)
	if _, err := p.Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	createTopic(t, c, "t", 1)
	if _, err := p.Send(ctx, value(1)); !isError(err, sdk.ErrUnknownTopic) {
		t.Errorf("got %v", err)
	}
	if all := readAll(t, c, "t"); len(all) != 0 {
		t.Errorf("the new topic holds %v", all)
	}
}
