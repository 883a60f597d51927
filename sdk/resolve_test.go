package sdk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// unknownTokens sends a batch of two records, which the server holds up until both are
// told to be unknown.
func unknownTokens(t *testing.T, s *servertest.Server, p *sdk.Producer) (sdk.Token, *sdk.OutcomeUnknown) {
	t.Helper()
	_, release := s.HoldSync()
	outcomes := make(chan error, 2)
	for i := range 2 {
		if err := p.SendAsync(testContext(t), value(i), func(_ sdk.Ack, err error) { outcomes <- err }); err != nil {
			t.Fatal(err)
		}
	}
	first, second := wantUnknown(t, <-outcomes), wantUnknown(t, <-outcomes)
	release()
	if first.Token() != second.Token() || first.Record != 0 || second.Record != 1 || second.Sequence != first.Sequence+1 {
		t.Errorf("two records of a batch: %+v and %+v", first, second)
	}
	return first.Token(), second
}

func TestResolveFindsWhatIsStored(t *testing.T) {
	s, c, _ := setUp(t, 1)
	ctx := testContext(t)
	p := build(t, c.Producer("t").DeliveryTimeout(100*time.Millisecond).Linger(20*time.Millisecond))
	token, second := unknownTokens(t, s, p)
	other := dial(t, s) // another client, which has the text only
	parsed, err := sdk.ParseToken(token.String())
	if err != nil || parsed != token {
		t.Fatalf("%v, %v", parsed, err)
	}
	for _, opts := range [][]sdk.ResolveOption{{sdk.Settle()}, nil} {
		r, err := other.Resolve(ctx, parsed, opts...)
		if err != nil || r.Outcome != sdk.ResolveStored || r.Offset != 0 || !r.Verified || r.Unreadable {
			t.Errorf("%+v, %v", r, err)
		}
		if got := r.OffsetOf(second.Record); got != 1 {
			t.Errorf("the second record is at %d", got)
		}
		if r.OffsetOf(2) != -1 || r.OffsetOf(-1) != -1 {
			t.Error("records that are not there have an offset")
		}
	}
	if err := c.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if r, err := other.Resolve(ctx, parsed, sdk.Settle()); err != nil || r.Outcome != sdk.ResolveTopicGone || r.Offset != -1 {
		t.Errorf("in a topic that is gone: %+v, %v", r, err)
	}
}

func TestResolveOfWhatNeverArrived(t *testing.T) {
	s := servertest.Start(t)
	m := startMeddler(t, s)
	ctx := testContext(t)
	events := newSettledEvents()
	c, err := sdk.Dial(ctx, m.url, events.option())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	createTopic(t, c, "t", 1)
	p := build(t, c.Producer("t").DeliveryTimeout(time.Second))
	goesOn(t, p, 0, 0, 0)
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if !in || k != wire.KindProduce {
			return -1
		}
		m.cutOff(true) // no sooner: it has been handed over
		return 0
	}})
	_, err = p.Send(ctx, value(1))
	token := wantUnknown(t, err).Token()
	s.HookFrames(servertest.FrameHooks{})
	direct := dial(t, s)
	looked, err := direct.Resolve(ctx, token)
	if err != nil || looked.Outcome != sdk.ResolveNotStoredYet || looked.Offset != -1 || looked.OffsetOf(0) != -1 {
		t.Errorf("%+v, %v", looked, err)
	}
	for _, opts := range [][]sdk.ResolveOption{{sdk.Settle()}, nil} {
		settled, err := direct.Resolve(ctx, token, opts...)
		if err != nil || settled.Outcome != sdk.ResolveNotStored || settled.Reason == "" {
			t.Errorf("%+v, %v", settled, err)
		}
	}
	m.cutOff(false)
	events.want(t, token, sdk.ResolveNotStored, -1)
	goesOn(t, p, 2, 1, 1) // the lane meets the fence that another client set
	wantLog(t, c, "0", "2")
}

func TestResolveRefuses(t *testing.T) {
	s, c, _ := setUp(t, 1)
	ctx := testContext(t)
	if _, err := c.Resolve(ctx, sdk.Token{}); !errors.Is(err, sdk.ErrInvalidToken) {
		t.Errorf("the zero token: %v", err)
	}
	p := build(t, c.Producer("t").DeliveryTimeout(100*time.Millisecond))
	_, release := s.HoldSync()
	_, err := p.Send(ctx, value(0))
	release()
	token := wantUnknown(t, err).Token()
	stranger := servertest.Start(t)
	createTopic(t, dial(t, stranger), "t", 1)
	if r, err := dial(t, stranger).Resolve(ctx, token); err != nil || r.Outcome != sdk.ResolveTopicGone {
		t.Errorf("by a server that never heard of it: %+v, %v", r, err)
	}
	_, err = dial(t, stranger).Resolve(ctx, token, sdk.Settle())
	var refusal *sdk.ServerError
	if !errors.As(err, &refusal) || refusal.ProducerID != p.ID() || refusal.Op != "resolve" ||
		refusal.Code != wire.CodeUnknownProducerID && refusal.Code != wire.CodeProducerKeyMismatch {
		t.Errorf("settled by a server that never heard of it: %v", err)
	}
}
