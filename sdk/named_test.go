package sdk_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// fences counts how often a client was told that a producer was taken over.
type fences struct {
	seen chan sdk.Event
}

func newFences() *fences { return &fences{seen: make(chan sdk.Event, 100)} }

func (f *fences) option() sdk.DialOption {
	return sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventFenced {
			f.seen <- e
		}
	})
}

func wantFenced(t *testing.T, err error) {
	t.Helper()
	var refusal *sdk.ServerError
	if !errors.Is(err, sdk.ErrFenced) || !errors.As(err, &refusal) ||
		!strings.Contains(refusal.Detail, "since "+time.Now().UTC().Format("2006-")) || !strings.Contains(refusal.Detail, "quoin-go") {
		t.Errorf("who took over, and when? %v", err)
	}
}

// A name has one holder. The next one goes on where the one before stopped, and that one is
// told, once, by an event.
func TestNamedProducerIsTakenOver(t *testing.T) {
	s := servertest.Start(t)
	told := newFences()
	c := dial(t, s, told.option())
	createTopic(t, c, "t", 2)
	ctx := testContext(t)
	byKey := func(r *sdk.Record, _ int) int { return int(r.Key[0] - '0') }
	first := build(t, c.Producer("t").Named("checkout").Partitioner(byKey))
	send := func(p *sdk.Producer, partition, text string, sequence int64) {
		t.Helper()
		ack, err := p.Send(ctx, sdk.Record{Key: []byte(partition), Value: []byte(text)})
		if err != nil || ack.Sequence != sequence {
			t.Errorf("%s: sequence %d, want %d; %v", text, ack.Sequence, sequence, err)
		}
	}
	send(first, "0", "a", 0)
	send(first, "0", "b", 1)
	send(first, "1", "c", 0)
	second := build(t, dial(t, s).Producer("t").Named("checkout").Partitioner(byKey))
	if second.ID() != first.ID() || second.Epoch() != first.Epoch()+1 || second.Name() != "checkout" {
		t.Errorf("producer %d epoch %d after %d epoch %d", second.ID(), second.Epoch(), first.ID(), first.Epoch())
	}
	for _, partition := range []string{"0", "1", "0"} {
		_, err := first.Send(ctx, sdk.Record{Key: []byte(partition), Value: []byte("zombie")})
		wantFenced(t, err)
	}
	if e := <-told.seen; e.ProducerID != first.ID() || e.Topic != "t" || !errors.Is(e.Err, sdk.ErrFenced) {
		t.Errorf("event %+v", e)
	}
	send(second, "0", "d", 2)
	send(second, "1", "e", 1)
	if _, err := first.Close(ctx); err != nil {
		t.Errorf("nothing is open, and Close says %v", err)
	}
	all := readAll(t, c, "t")
	if got := strings.Join(append(values(all[0]), values(all[1])...), ""); got != "abdce" {
		t.Errorf("stored are %s", got)
	}
	if len(told.seen) > 0 {
		t.Error("told twice")
	}
}

// What the older holder does not know when it is fenced, it asks before it says anything.
func TestFencedProducerAsksWhatIsStored(t *testing.T) {
	s := servertest.Start(t)
	m := startMeddler(t, s)
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, m.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	createTopic(t, c, "t", 1)
	first := build(t, c.Producer("t").Named("n"))
	if _, err := first.Send(ctx, value(0)); err != nil {
		t.Fatal(err)
	}
	direct := dial(t, s)
	lost := false
	m.loseReplies(func(k wire.Kind) bool {
		if lost || k != wire.KindProduceResults {
			return false
		}
		lost = true
		second, err := direct.Producer("t").Named("n").Build(ctx)
		if err == nil {
			_, err = second.Send(ctx, value(2))
		}
		if err != nil {
			t.Error(err)
		}
		return true
	})
	ack, err := first.Send(ctx, value(1))
	if err != nil || ack.Offset != 1 || !ack.Duplicate {
		t.Errorf("stored, and told %+v, %v", ack, err)
	}
	_, err = first.Send(ctx, value(9))
	wantFenced(t, err)
	wantLog(t, direct, "0", "1", "2")
}

// Of two that start at once one is fenced, for good: it does not fight for the name.
func TestNamedProducersAtOnce(t *testing.T) {
	s := servertest.Start(t)
	told := newFences()
	c := dial(t, s, told.option())
	createTopic(t, c, "t", 1)
	ctx := testContext(t)
	producers := make([]*sdk.Producer, 5)
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() { producers[i] = build(t, c.Producer("t").Named("n")) })
	}
	wg.Wait()
	holders, stored := 0, 0
	for range 3 {
		holders = 0
		for _, p := range producers {
			switch _, err := p.Send(ctx, value(stored)); {
			case err == nil:
				holders++
				stored++
			case !errors.Is(err, sdk.ErrFenced):
				t.Errorf("got %v", err)
			}
		}
		if holders != 1 {
			t.Fatalf("%d hold the name", holders)
		}
	}
	for range len(producers) - 1 {
		<-told.seen
	}
	wantLog(t, c, numbers(0, stored)...)
	if len(told.seen) > 0 {
		t.Error("somebody was told twice")
	}
}

// A name survives its process and a restart of the server.
func TestNamedProducerComesBack(t *testing.T) {
	s, c, _ := setUp(t, 1)
	ctx := testContext(t)
	first := build(t, c.Producer("t").Named("n"))
	goesOn(t, first, 0, 0, 0)
	if _, err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	for i := range 3 {
		p := build(t, dial(t, s).Producer("t").Named("n"))
		if p.ID() != first.ID() {
			t.Errorf("id %d, not %d", p.ID(), first.ID())
		}
		goesOn(t, p, i+1, int64(i)+1, uint32(i)+1)
		if i == 1 {
			closing, cancel := context.WithCancel(ctx)
			cancel()
			p.Close(closing) // whatever: it was there
		}
	}
	wantLog(t, c, "0", "1", "2", "3")
	for _, name := range []string{"", strings.Repeat("x", 256), "a\nb", "\xff"} {
		if _, err := c.Producer("t").Named(name).Build(ctx); err == nil {
			t.Errorf("a name of %d bytes, %.5q, is taken", len(name), name)
		}
	}
}
