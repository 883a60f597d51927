package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// positioned builds a producer whose position is the value of the last record.
func positioned(c *sdk.Client) *sdk.ProducerBuilder {
	return c.Producer("t").Named("source").Position(func(r *sdk.Record) []byte { return r.Value })
}

func wantPosition(t *testing.T, p *sdk.Producer, want string) {
	t.Helper()
	if got := p.Position(); string(got) != want || (got == nil) != (want == "") {
		t.Errorf("position %q, want %q", got, want)
	}
}

func TestPositionComesBack(t *testing.T) {
	s := servertest.Start(t)
	c := dial(t, s)
	createTopic(t, c, "t", 1)
	ctx := testContext(t)
	p := build(t, positioned(c))
	wantPosition(t, p, "")
	if _, err := p.SendBatch(ctx, []sdk.Record{value(1), value(2), value(3)}); err != nil {
		t.Fatal(err)
	}
	p = build(t, positioned(dial(t, s)))
	wantPosition(t, p, "3")
	var acks []sdk.Ack
	done := make(chan error, 1)
	err := p.SendBatchAsync(ctx, []sdk.Record{value(4), value(5)}, func(a []sdk.Ack, err error) {
		acks = a
		done <- err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || len(acks) != 2 || acks[1].Offset != 4 || acks[1].Sequence != 4 {
		t.Errorf("%+v, %v", acks, err)
	}
	s.Restart()
	if ack, err := p.Send(ctx, value(6)); err != nil || ack.Offset != 5 {
		t.Errorf("%+v, %v", ack, err)
	}
	s.Restart()
	wantPosition(t, build(t, positioned(dial(t, s))), "6")
}

// All records of one call are in one batch, however many fit into others.
func TestRecordsOfAPositionAreOneBatch(t *testing.T) {
	s := servertest.Start(t)
	c := dial(t, s)
	createTopic(t, c, "t", 1)
	ctx := testContext(t)
	p := build(t, positioned(c).BatchBytes(100))
	batches := 0
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if in && k == wire.KindProduce {
			batches++
		}
		return -1
	}})
	records := make([]sdk.Record, 100)
	for i := range records {
		records[i] = value(i)
	}
	if _, err := p.SendBatch(ctx, records); err != nil {
		t.Fatal(err)
	}
	s.HookFrames(servertest.FrameHooks{})
	if batches != 1 {
		t.Errorf("%d batches", batches)
	}
	var large *sdk.RecordTooLargeError
	records[0].Value = make([]byte, 1<<20)
	if _, err := p.SendBatch(ctx, records); !errors.As(err, &large) {
		t.Errorf("more than a batch takes: %v", err)
	}
	if _, err := p.Send(ctx, sdk.Record{Value: make([]byte, sdk.MaxPosition+1)}); err == nil || !strings.Contains(err.Error(), "position") {
		t.Errorf("a position that is too long: %v", err)
	}
	headers := sdk.Record{Value: []byte("h"), Headers: make([]sdk.Header, batchfmt.MaxHeaders+1)}
	if _, err := p.SendBatch(ctx, []sdk.Record{value(1000), headers}); err == nil || !strings.Contains(err.Error(), "headers") {
		t.Errorf("with too many headers: %v", err)
	}
	if ack, err := p.Send(ctx, value(100)); err != nil || ack.Offset != 100 {
		t.Errorf("nothing of the refused calls may be stored: %+v, %v", ack, err)
	}
}

// Behind a record that is not stored nothing more is: its position would hide the gap.
func TestPositionStopsAtTheFirstFailure(t *testing.T) {
	s := servertest.Start(t, servertest.InMemory())
	c := dial(t, s)
	createTopic(t, c, "t", 1)
	ctx := testContext(t)
	p := build(t, positioned(c).DeliveryTimeout(300*time.Millisecond))
	if _, err := p.Send(ctx, value(1)); err != nil {
		t.Fatal(err)
	}
	s.FillDisk()
	outcomes := make(chan error, 5)
	for i := range 3 {
		if err := p.SendAsync(ctx, value(2+i), func(_ sdk.Ack, err error) { outcomes <- err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-outcomes; err == nil {
		t.Error("stored on a full disk")
	}
	s.FreeDisk()
	for range 2 {
		if err := <-outcomes; err == nil {
			t.Error("stored behind a gap")
		}
	}
	if _, err := p.Send(ctx, value(9)); !errors.Is(err, sdk.ErrStopped) {
		t.Errorf("it goes on: %v", err)
	}
	p = build(t, positioned(dial(t, s)))
	wantPosition(t, p, "1")
	if _, err := p.Send(ctx, value(2)); err != nil {
		t.Error(err)
	}
	wantLog(t, c, "1", "2")
}

// Build returns with the position of what was left in the outbox.
func TestPositionOfTheOutbox(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("unknown %v", told), func(t *testing.T) {
			o := startOutboxed(t)
			o.producer.Close(testContext(t))
			c, err := sdk.Dial(testContext(t), o.meddler.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				closing, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				c.Close(closing)
			})
			o.producer = build(t, positioned(c).Named("n").Outbox(o.dir).BatchBytes(1))
			given, giveUp := context.WithCancel(testContext(t))
			sent := make(chan struct{})
			o.server.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
				if !in || k != wire.KindProduce {
					return -1
				}
				o.meddler.cutOff(true)
				close(sent)
				return 0
			}})
			if told {
				go func() {
					<-sent
					giveUp()
				}()
				_, err := o.producer.Send(given, value(1))
				wantUnknown(t, err)
			} else {
				o.async(1, 2)
				<-sent
			}
			giveUp()
			o.server.HookFrames(servertest.FrameHooks{})
			p := build(t, positioned(o.direct).Named("n").Outbox(o.image()).BatchBytes(1))
			if told {
				wantPosition(t, p, "")
				wantLog(t, o.direct, "0")
			} else {
				wantPosition(t, p, "1")
				wantLog(t, o.direct, "0", "1")
			}
			if _, err := p.Send(testContext(t), value(2)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPositionRefuses(t *testing.T) {
	_, c, _ := setUp(t, 2)
	ctx := testContext(t)
	fn := func(*sdk.Record) []byte { return nil }
	if _, err := c.Producer("t").Idempotent().Position(fn).Build(ctx); err == nil || !strings.Contains(err.Error(), "Named") {
		t.Errorf("without a name: %v", err)
	}
	if _, err := c.Producer("t").Named("n").Position(fn).Build(ctx); err == nil || !strings.Contains(err.Error(), "one partition") {
		t.Errorf("with two partitions: %v", err)
	}
	p := build(t, c.Producer("t").Named("n").Position(fn).Partition(1))
	if ack, err := p.Send(ctx, value(0)); err != nil || ack.Partition != 1 {
		t.Errorf("%+v, %v", ack, err)
	}
	wantPosition(t, p, "")
}
