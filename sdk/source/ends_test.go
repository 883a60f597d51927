package source_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/sdk/source"
	"github.com/quoin-io/quoin/server/servertest"
)

// gate lets a source wait in the middle until it is opened.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

// at waits in front of number n, the first time.
func (g *gate) at(n int) func(context.Context, int) error {
	waited := false
	return func(_ context.Context, next int) error {
		if next >= n && !waited {
			waited = true
			close(g.reached)
			<-g.open
		}
		return nil
	}
}

// start runs a source on a goroutine of its own, and gives what Run returns.
func start(ctx context.Context, c *sdk.Client, src source.Source, opts ...source.Option) <-chan error {
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, c, src, "t", "n", opts...) }()
	return done
}

// wantError is what ended a run: it must say where.
func wantError(t *testing.T, err, want error, position string) {
	t.Helper()
	var at *source.Error
	if !errors.Is(err, want) || !errors.As(err, &at) || string(at.Position) != position || at.Topic != "t" {
		t.Errorf("%v; want %v at position %q", err, want, position)
	}
}

// The second run has the name, the first one ends and does not take it back.
func TestFencedByASecondRun(t *testing.T) {
	s, c := setUp(t, 1)
	ctx := testContext(t)
	g := newGate()
	first := start(ctx, c, &counter{last: 200, before: g.at(50)}, quick(time.Second))
	<-g.reached
	second := newGate()
	done := start(ctx, dial(t, s), &counter{last: 300, before: second.at(250)}, quick(time.Second))
	<-second.reached
	close(g.open)
	err := <-first
	var at *source.Error // which item it was depends on what was under way
	if !errors.Is(err, sdk.ErrFenced) || !errors.As(err, &at) || at.Item == 0 || number(at.Position) > 51 {
		t.Errorf("the first run: %v", err)
	}
	close(second.open)
	if err := <-done; err != nil {
		t.Errorf("the second run: %v", err)
	}
	wantLog(t, c, 300)
	lanes, err := c.DescribeProducers(ctx, "t", 0)
	if err != nil || len(lanes.Lanes) != 1 || lanes.Lanes[0].Epoch != 1 {
		t.Errorf("somebody else claimed the name: %+v, %v", lanes.Lanes, err)
	}
}

// onWarning is a log handler that calls a function for each warning.
type onWarning func()

func (onWarning) Enabled(context.Context, slog.Level) bool { return true }
func (h onWarning) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h onWarning) WithGroup(string) slog.Handler          { return h }
func (h onWarning) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		h()
	}
	return nil
}

// A run that comes back from a failure looks before it claims the name: it takes it from
// nobody who has gone on meanwhile.
func TestComesBackAndAnotherRunIsThere(t *testing.T) {
	s, c := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	g, moved := newGate(), make(chan struct{})
	var second <-chan error
	other := dial(t, s)
	logger := slog.New(onWarning(func() { // the first run has failed, and pauses
		if second != nil {
			return
		}
		s.FreeDisk()
		told := false
		second = start(ctx, other, &counter{last: 300, before: g.at(250)}, source.ProgressEvery(time.Millisecond),
			source.OnProgress(func(p source.Progress) {
				if !told && p.Position != nil && number(p.Position) > 200 { // behind all that the first one sent
					told = true
					close(moved)
				}
			}))
		<-g.reached
		<-moved
	}))
	first := &counter{last: 200, before: func(_ context.Context, n int) error {
		if n >= 100 && second == nil {
			s.FillDisk()
		}
		return nil
	}}
	err := source.Run(ctx, c, first, "t", "n", quick(100*time.Millisecond), source.WithLogger(logger))
	if second == nil {
		t.Fatalf("it did not fail: %v", err)
	}
	close(g.open)
	if err := <-second; err != nil {
		t.Errorf("the second run: %v", err)
	}
	if !errors.Is(err, source.ErrMoved) {
		t.Errorf("the first run: %v", err)
	}
	wantLog(t, c, 300)
}

// A client that is closed ends the run; another one goes on, whatever was under way.
func TestClosedClient(t *testing.T) {
	s, c := setUp(t, 1)
	for last := 100; last <= 300; last += 100 {
		g := newGate()
		mine := dial(t, s)
		done := start(testContext(t), mine, &counter{last: 1000, before: g.at(last)}, quick(time.Second))
		<-g.reached
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		mine.Close(ended)
		close(g.open)
		if err := <-done; !errors.Is(err, sdk.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if err := source.Run(testContext(t), c, &counter{last: 400}, "t", "n"); err != nil {
		t.Fatal(err)
	}
	wantLog(t, c, 400)
	if err := source.Run(testContext(t), c, &counter{last: 400}, "t", "n"); err != nil {
		t.Errorf("there is nothing left: %v", err)
	}
	wantLog(t, c, 400)
}

func TestItemsThatCannotBeStored(t *testing.T) {
	large := sdk.Record{Value: make([]byte, 1<<20)}
	for _, tt := range []struct {
		name string
		item source.Item
		want error
	}{
		{"no position", source.Item{Records: []sdk.Record{value(9)}}, source.ErrPosition},
		{"a position that is too long", source.Item{Records: []sdk.Record{value(9)}, Position: make([]byte, 65)}, source.ErrPosition},
		{"a position that stands still", source.Item{Records: []sdk.Record{value(9)}, Position: []byte("3")}, source.ErrPosition},
		{"a record too large", source.Item{Records: []sdk.Record{large}, Position: []byte("x")}, nil},
		{"records too large together", source.Item{Records: []sdk.Record{large, value(9), large}, Position: []byte("x")}, nil},
		{"too many headers", source.Item{Records: []sdk.Record{value(9), {Headers: make([]sdk.Header, 100_000)}}, Position: []byte("x")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, c := setUp(t, 1)
			good := &counter{last: 3}
			src := source.Func(func(ctx context.Context, from source.Position) iter.Seq2[source.Item, error] {
				return func(yield func(source.Item, error) bool) {
					for item, err := range good.Read(ctx, from) {
						if !yield(item, err) {
							return
						}
					}
					yield(tt.item, nil)
				}
			})
			var stats source.Stats
			err := source.Run(testContext(t), c, src, "t", "n", source.WithStats(&stats))
			var at *source.Error
			if !errors.As(err, &at) || at.Item != 3 || string(at.Position) != string(tt.item.Position) {
				t.Errorf("got %v", err)
			}
			var tooLarge *sdk.RecordTooLargeError
			if tt.want != nil && !errors.Is(err, tt.want) || strings.Contains(tt.name, "too large") && !errors.As(err, &tooLarge) {
				t.Errorf("got %v", err)
			}
			if p := stats.Progress(); p.Retries > 0 || !p.Done || p.Err != err {
				t.Errorf("progress %+v", p)
			}
			wantLog(t, c, 3) // what is in front of it
		})
	}
}

func TestRunRefuses(t *testing.T) {
	_, c := setUp(t, 2)
	ctx := testContext(t)
	src := &counter{last: 10}
	for _, tt := range []struct {
		name, topic, text string
		want              error
		opts              []source.Option
	}{
		{name: "no such topic", topic: "x", want: sdk.ErrUnknownTopic},
		{name: "no such partition", topic: "t", want: sdk.ErrUnknownPartition, opts: []source.Option{source.Partition(2)}},
		{name: "several partitions", topic: "t", text: "one partition"},
		{name: "a setting of the producer", topic: "t", text: "MaxBuffered", opts: []source.Option{
			source.Partition(0), source.Producer(func(b *sdk.ProducerBuilder) { b.MaxBuffered(1) })}},
		{name: "settings", topic: "t", text: "Partition is negative\nsource: Outbox needs a directory\nsource: Backoff(0s, 1s) is not from 1ms to 1h0m0s, the first no more than the second\nsource: CloseTimeout(0s) is not 10ms to 10m0s\nsource: ProgressEvery(0s) is not 1ms to 1h0m0s",
			opts: []source.Option{source.Partition(-5), source.Outbox(""), source.Backoff(0, time.Second), source.CloseTimeout(0), source.ProgressEvery(0)}},
	} {
		err := source.Run(ctx, c, src, tt.topic, "n", tt.opts...)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
	if len(src.reads) > 0 {
		t.Errorf("the source was read %d times", len(src.reads))
	}
	if err := source.Run(ctx, c, src, "t", "n", source.Partition(1)); err != nil {
		t.Error(err)
	}
	if err := onceInOrder(stored(t, c, 1), 10); err != nil {
		t.Error(err)
	}
}

// Errors of the source cost a pause, and neither the producer nor the name; a marked one ends
// the run when everything in front of it is stored.
func TestStop(t *testing.T) {
	_, c := setUp(t, 1)
	corrupt := errors.New("page 7 is corrupt")
	failures := 0
	src := &counter{last: 100, before: func(_ context.Context, n int) error {
		switch {
		case n >= 50 && failures < 3:
			failures++
			return fmt.Errorf("failure %d", failures)
		case n >= 80:
			return fmt.Errorf("read on: %w", source.Stop(corrupt))
		}
		return nil
	}}
	var stats source.Stats
	err := source.Run(testContext(t), c, src, "t", "n", quick(time.Second), source.WithStats(&stats))
	wantError(t, err, corrupt, "79")
	if p := stats.Progress(); p.Retries != 3 || p.Err != err {
		t.Errorf("progress %+v", p)
	}
	wantLog(t, c, 79)
	lanes, err := c.DescribeProducers(testContext(t), "t", 0)
	if err != nil || len(lanes.Lanes) != 1 || lanes.Lanes[0].Epoch != 0 {
		t.Errorf("the name was claimed again: %+v, %v", lanes.Lanes, err)
	}
	if source.Stop(nil) != nil {
		t.Error("Stop of nil is an error")
	}
}

var errEnough = errors.New("enough")

// The end of ctx is no failure: what was sent is flushed, and the cause is returned.
func TestContextEnds(t *testing.T) {
	s, c := setUp(t, 1)
	ctx, cancel := context.WithCancelCause(testContext(t))
	src := &counter{last: 100, before: func(ctx context.Context, n int) error {
		if n >= 50 {
			cancel(errEnough)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	var last source.Progress
	calls := 0
	onProgress := source.OnProgress(func(p source.Progress) { last, calls = p, calls+1 })
	if err := source.Run(ctx, c, src, "t", "n", onProgress, source.ProgressEvery(time.Hour)); err != errEnough {
		t.Errorf("got %v", err)
	}
	wantLog(t, c, 49)
	if !last.Done || last.Records != 49 || string(last.Position) != "49" || last.Err != errEnough || calls != 1 {
		t.Errorf("%d calls, the last one %+v", calls, last)
	}
	if err := source.Run(ctx, c, src, "t", "n"); err != errEnough {
		t.Errorf("it was over from the start: %v", err)
	}

	// Flushing is bounded, here by a server that does not answer.
	began, release := s.HoldSync()
	ctx, cancel = context.WithCancelCause(testContext(t))
	defer cancel(nil)
	done := start(ctx, c, &counter{last: 1000, before: func(ctx context.Context, n int) error {
		if n >= 100 {
			<-ctx.Done()
		}
		return nil
	}}, source.CloseTimeout(50*time.Millisecond))
	<-began
	cancel(errEnough)
	if err := <-done; err != errEnough {
		t.Errorf("got %v", err)
	}
	release()
	if err := source.Run(testContext(t), c, &counter{last: 200}, "t", "n"); err != nil {
		t.Error(err)
	}
	wantLog(t, c, 200)
}

// An item without records is not stored: the next one carries its position along.
func TestItemsWithoutRecords(t *testing.T) {
	_, c := setUp(t, 1)
	var froms []string
	var item source.Item
	src := source.Func(func(_ context.Context, from source.Position) iter.Seq2[source.Item, error] {
		froms = append(froms, string(from))
		return func(yield func(source.Item, error) bool) {
			if from == nil && yield(source.Item{Position: []byte("skipped")}, nil) {
				yield(item, nil)
			}
		}
	})
	var stats source.Stats
	if err := source.Run(testContext(t), c, src, "t", "n", source.WithStats(&stats)); err != nil {
		t.Fatal(err)
	}
	item = source.Item{Records: []sdk.Record{value(1)}, Position: []byte("1")}
	for range 2 {
		if err := source.Run(testContext(t), c, src, "t", "n"); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(froms, ","); got != ",,1" {
		t.Errorf("read from %s", got)
	}
	if p := stats.Progress(); p.Read != 2 || p.Items != 0 || p.Position != nil {
		t.Errorf("progress %+v", p)
	}
	wantLog(t, c, 1)
}

func TestOutbox(t *testing.T) {
	s, c := setUp(t, 1, servertest.InMemory())
	dir := filepath.Join(t.TempDir(), "outbox")
	due := 100
	src := &counter{last: 500, before: func(_ context.Context, n int) error {
		if n >= due {
			due += 100
			s.Kill()
		}
		return nil
	}}
	if err := source.Run(testContext(t), c, src, "t", "n", quick(time.Second), source.Outbox(dir)); err != nil {
		t.Fatal(err)
	}
	wantLog(t, c, 500)
}
