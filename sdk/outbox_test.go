package sdk_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// An outboxed producer of topic "t" behind a meddler, and the means to go on without it.
type outboxed struct {
	t        *testing.T
	server   *servertest.Server
	meddler  *meddler
	dir      string
	producer *sdk.Producer
	direct   *sdk.Client // past the meddler
	settled  settledEvents
}

func startOutboxed(t *testing.T) *outboxed {
	o := &outboxed{t: t, server: servertest.Start(t), dir: filepath.Join(t.TempDir(), "outbox")}
	o.meddler = startMeddler(t, o.server)
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, o.meddler.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		c.Close(closing)
	})
	o.settled = newSettledEvents()
	o.direct = dial(t, o.server, o.settled.option())
	createTopic(t, o.direct, "t", 1)
	o.producer = build(t, c.Producer("t").Named("n").Outbox(o.dir).BatchBytes(1))
	if found := o.producer.Found(); found != (sdk.OutboxFound{}) {
		t.Errorf("a new outbox holds %+v", found)
	}
	goesOn(t, o.producer, 0, 0, 0)
	return o
}

// async sends records that have no outcome in the life of this producer.
func (o *outboxed) async(from, to int) {
	o.t.Helper()
	for i := from; i < to; i++ {
		if err := o.producer.SendAsync(testContext(o.t), value(i), nil); err != nil {
			o.t.Fatal(err)
		}
	}
}

// loseAnswers loses every answer to a batch; the client is not cut off.
func (o *outboxed) loseAnswers() {
	o.meddler.loseReplies(func(k wire.Kind) bool { return k == wire.KindProduceResults })
}

// image is the outbox as a crash of the application leaves it now.
func (o *outboxed) image() string {
	o.t.Helper()
	to := filepath.Join(o.t.TempDir(), "image")
	if err := os.CopyFS(to, os.DirFS(o.dir)); err != nil {
		o.t.Fatal(err)
	}
	return to
}

// kept waits until n batches are in the outbox.
func (o *outboxed) kept(n int) {
	o.t.Helper()
	for ctx := testContext(o.t); ; {
		dir := o.image()
		if got := sdk.BatchesInOutbox(o.t, dir, "t", "n"); got == n {
			return
		} else if got > n || ctx.Err() != nil {
			o.t.Fatalf("%d batches are in the outbox, want %d", got, n)
		}
	}
}

// next is the producer that a restarted application builds.
func (o *outboxed) next(dir string) *sdk.Producer {
	o.t.Helper()
	return build(o.t, o.direct.Producer("t").Named("n").Outbox(dir).BatchBytes(1))
}

func (o *outboxed) wantFound(p *sdk.Producer, pending, unknown int) {
	o.t.Helper()
	if found := p.Found(); found.Pending != pending || found.Records != pending || found.Unknown != unknown || found.Damage != nil {
		o.t.Errorf("found %+v, want %d pending and %d unknown batches", found, pending, unknown)
	}
}

// wantSettled takes the events of n batches, by their first sequence.
func (o *outboxed) wantSettled(n int) map[int64]sdk.ResolveOutcome {
	o.t.Helper()
	all := make(map[int64]sdk.ResolveOutcome)
	for range n {
		var e sdk.Event
		select {
		case e = <-o.settled:
		case <-testContext(o.t).Done():
			o.t.Fatalf("%d of %d batches are settled: %v", len(all), n, all)
		}
		all[e.Token.First()] = e.Resolution.Outcome
	}
	return all
}

// What is stored, and what never arrived: both come to be stored once, in their order.
func TestOutboxIsSentAgain(t *testing.T) {
	for _, arrived := range []bool{true, false} {
		o := startOutboxed(t)
		if arrived {
			o.loseAnswers()
			o.async(1, 4)
			o.kept(3)
		} else {
			over := make(chan struct{})
			o.server.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
				if !in || k != wire.KindProduce {
					return -1
				}
				o.meddler.cutOff(true) // the batch is on its way and never arrives
				close(over)
				return 0
			}})
			o.async(1, 2)
			<-over
			o.server.HookFrames(servertest.FrameHooks{})
		}
		image := o.image()
		pending := sdk.BatchesInOutbox(t, image, "t", "n")
		p := o.next(image)
		o.wantFound(p, pending, 0)
		for first, outcome := range o.wantSettled(pending) {
			if outcome != sdk.ResolveStored {
				t.Errorf("sequence %d: %v", first, outcome)
			}
		}
		goesOn(t, p, pending+1, int64(pending)+1, 1)
		wantLog(t, o.direct, numbers(0, pending+2)...)
		if left, err := p.Close(testContext(t)); err != nil || len(left) > 0 {
			t.Errorf("Close: %v, %v", left, err)
		}
		again := o.next(image)
		o.wantFound(again, 0, 0)
		goesOn(t, again, pending+2, int64(pending)+2, 2)
	}
}

// What the application was told to be unknown is not sent again by anybody; what stands behind
// it is sealed anew.
func TestOutboxDoesNotSendWhatWasUnknown(t *testing.T) {
	o := startOutboxed(t)
	given, giveUp := context.WithCancel(testContext(t))
	o.server.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if !in || k != wire.KindProduce {
			return -1
		}
		o.meddler.cutOff(true) // the batch is on its way and never arrives
		giveUp()
		return 0
	}})
	_, err := o.producer.Send(given, value(1))
	wantUnknown(t, err)
	o.server.HookFrames(servertest.FrameHooks{})
	image := o.image()
	p := o.next(image)
	o.wantFound(p, 0, 1)
	if got := o.wantSettled(1); got[1] != sdk.ResolveNotStored {
		t.Errorf("settled as %v", got)
	}
	goesOn(t, p, 2, 1, 1) // the fence is below the epoch of this holder
	wantLog(t, o.direct, "0", "2")
	if _, err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
	o.wantFound(o.next(image), 0, 0)
}

func TestOutboxRefuses(t *testing.T) {
	o := startOutboxed(t)
	ctx := testContext(t)
	b := func() *sdk.ProducerBuilder { return o.direct.Producer("t").Named("n") }
	if _, err := b().Outbox(o.dir).Build(ctx); !errors.Is(err, sdk.ErrOutboxInUse) {
		t.Errorf("in use: %v", err)
	}
	goesOn(t, o.producer, 1, 1, 0) // who could not have the outbox fences nobody
	var binding *sdk.OutboxBinding
	if _, err := o.direct.Producer("t").Named("m").Outbox(o.image()).Build(ctx); !errors.As(err, &binding) || binding.Have.Producer != "n" || binding.Want.Producer != "m" {
		t.Errorf("of another producer: %v", err)
	}
	for _, bad := range []*sdk.ProducerBuilder{o.direct.Producer("t").Idempotent().Outbox(t.TempDir()), b().Outbox("")} {
		if _, err := bad.Build(ctx); err == nil || !strings.Contains(err.Error(), "Outbox(") {
			t.Errorf("got %v", err)
		}
	}
}

// Damage is told, and hides nothing else.
func TestOutboxIsDamaged(t *testing.T) {
	o := startOutboxed(t)
	o.loseAnswers()
	o.async(1, 4)
	o.kept(3)
	image := o.image()
	damageOutbox(t, image, "3") // the value of the last record
	p := o.next(image)
	found := p.Found()
	if found.Damage == nil || found.Pending+found.Unknown != 3 || found.Unknown == 0 || !strings.Contains(found.Damage.Error(), "outbox") {
		t.Errorf("found %+v", found)
	}
	for first, outcome := range o.wantSettled(3) {
		if first < 3 && outcome != sdk.ResolveStored {
			t.Errorf("sequence %d: %v", first, outcome)
		}
	}
	if _, err := p.Send(testContext(t), value(9)); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
}

// damageOutbox flips a bit in the last place where text stands.
func damageOutbox(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".outbox") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if i := strings.LastIndex(string(b), text); i >= 0 {
			b[i] ^= 1
		}
		return os.WriteFile(path, b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
