package sdk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// plainSetUp is a server with topic "t", and a plain producer.
func plainSetUp(t *testing.T, set func(*sdk.ProducerBuilder)) (*servertest.Server, *sdk.Client, *sdk.Producer) {
	t.Helper()
	s := servertest.Start(t, servertest.InMemory())
	c := dial(t, s)
	createTopic(t, c, "t", 1)
	b := c.Producer("t")
	if set != nil {
		set(b)
	}
	p, err := b.Build(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return s, c, p
}

// cutAnswers cuts the connection n times in the place of an answer to a batch, which is
// stored by then.
func cutAnswers(s *servertest.Server, n int) {
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if in || k != wire.KindProduceResults || n == 0 {
			return -1
		}
		n--
		return 0
	}})
}

func wantPlainUnknown(t *testing.T, err error) {
	t.Helper()
	var unknown *sdk.OutcomeUnknown
	if !errors.As(err, &unknown) || !unknown.Token().IsZero() || unknown.Sequence != -1 || unknown.ProducerID != 0 {
		t.Errorf("got %v, not unknown without an identity", err)
	}
}

func TestPlainProducer(t *testing.T) {
	_, c, p := plainSetUp(t, nil)
	ctx := testContext(t)
	const records = 500
	for i := range records {
		err := p.SendAsync(ctx, value(i), func(ack sdk.Ack, err error) {
			if err != nil || ack.Offset != int64(i) || ack.Sequence != -1 || ack.Duplicate {
				t.Errorf("record %d: %+v, %v", i, ack, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if left, err := p.Close(ctx); err != nil || left != nil {
		t.Errorf("%v, %v", left, err)
	}
	all := readAll(t, c, "t")[0]
	if diff := cmp.Diff(numbers(0, records), values(all)); diff != "" {
		t.Error(diff)
	}
	if all[0].Producer != (sdk.ProducerRef{}) || p.ID() != 0 || p.Epoch() != 0 {
		t.Errorf("a plain producer has an identity: %+v", all[0].Producer)
	}
	if err := p.ContinueAfterLoss(ctx, 0); !errors.Is(err, sdk.ErrNotLost) {
		t.Errorf("ContinueAfterLoss: %v", err)
	}
}

// What has no answer is not sent again: it is stored once, and nobody is told that it is not.
func TestPlainProducerDoesNotSendAgain(t *testing.T) {
	s, c, p := plainSetUp(t, nil)
	ctx := testContext(t)
	cutAnswers(s, 1)
	_, err := p.Send(ctx, value(0))
	wantPlainUnknown(t, err)
	if !errors.Is(err, sdk.ErrConnectionLost) {
		t.Errorf("the cause is missing: %v", err)
	}
	if _, err := p.Send(ctx, value(1)); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
	wantLog(t, c, "0", "1")
	left, err := p.Close(ctx)
	if len(left) != 1 || left[0].Records != 1 || left[0].First != -1 || !left[0].Token.IsZero() || err == nil {
		t.Errorf("Close: %+v, %v", left, err)
	}
}

// With permission it is sent again, and stored twice.
func TestPlainProducerMayDuplicate(t *testing.T) {
	s, c, p := plainSetUp(t, func(b *sdk.ProducerBuilder) { b.RetryMayDuplicate() })
	ctx := testContext(t)
	cutAnswers(s, 1)
	if ack, err := p.Send(ctx, value(0)); err != nil || ack.Offset != 1 || ack.Duplicate {
		t.Errorf("%+v, %v", ack, err)
	}
	wantLog(t, c, "0", "0")
}

// A refusal that says that nothing happened is safe to repeat.
func TestPlainProducerWaitsForRoom(t *testing.T) {
	s, c, p := plainSetUp(t, nil)
	ctx := testContext(t)
	s.FailAppend()
	if ack, err := p.Send(ctx, value(0)); err != nil || ack.Offset != 0 {
		t.Errorf("%+v, %v", ack, err)
	}
	wantLog(t, c, "0")
}

func TestPlainProducerWithoutAnswers(t *testing.T) {
	ends := map[string]func(t *testing.T, p *sdk.Producer, stored <-chan struct{}) error{
		"context": func(t *testing.T, p *sdk.Producer, stored <-chan struct{}) error {
			ctx, cancel := context.WithCancelCause(testContext(t))
			over := errors.New("over")
			go func() {
				<-stored
				cancel(over)
			}()
			_, err := p.Send(ctx, value(0))
			if !errors.Is(err, over) {
				t.Errorf("the cause is missing: %v", err)
			}
			return err
		},
		"delivery timeout": func(t *testing.T, p *sdk.Producer, _ <-chan struct{}) error {
			_, err := p.Send(testContext(t), value(0))
			if !errors.Is(err, sdk.ErrDeliveryTimeout) {
				t.Errorf("the cause is missing: %v", err)
			}
			return err
		},
		"close": func(t *testing.T, p *sdk.Producer, _ <-chan struct{}) error {
			outcome := make(chan error, 1)
			if err := p.SendAsync(testContext(t), value(0), func(_ sdk.Ack, err error) { outcome <- err }); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
			defer cancel()
			if left, err := p.Close(ctx); len(left) != 1 || err == nil {
				t.Errorf("Close: %v, %v", left, err)
			}
			return <-outcome
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s, c, p := plainSetUp(t, func(b *sdk.ProducerBuilder) { b.DeliveryTimeout(time.Second) })
			stored, gate := make(chan struct{}, 1), make(chan struct{})
			s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
				if !in && k == wire.KindProduceResults {
					stored <- struct{}{}
					<-gate
				}
				return -1
			}})
			defer close(gate)
			wantPlainUnknown(t, end(t, p, stored))
			wantLog(t, c, "0")
		})
	}
}

func TestPlainProducerOfDeletedTopic(t *testing.T) {
	_, c, p := plainSetUp(t, nil)
	ctx := testContext(t)
	if _, err := p.Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	createTopic(t, c, "t", 1)
	for range 2 {
		if _, err := p.Send(ctx, value(1)); !errors.Is(err, sdk.ErrUnknownTopic) {
			t.Errorf("got %v", err)
		}
	}
	if all := readAll(t, c, "t"); len(all) != 0 {
		t.Errorf("the new topic holds %v", all)
	}
}
