package source

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

func TestCeiling(t *testing.T) {
	for _, tt := range []struct {
		name       string
		attempt    int
		first, max time.Duration
		want       time.Duration
	}{
		{"the first pause", 1, time.Second, time.Minute, time.Second},
		{"the second is twice that", 2, time.Second, time.Minute, 2 * time.Second},
		{"and so on", 6, time.Second, time.Minute, 32 * time.Second},
		{"up to a bound", 7, time.Second, time.Minute, time.Minute},
		{"for ever", 1 << 40, time.Millisecond, maxBackoff, maxBackoff},
		{"first and bound in one", 3, time.Hour, time.Hour, time.Hour},
	} {
		if got := ceiling(tt.attempt, tt.first, tt.max); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := jitter(time.Second)
		low, high = min(low, d), max(high, d)
	}
	if low < 0 || low > 100*time.Millisecond || high > time.Second || high < 900*time.Millisecond {
		t.Errorf("pauses from %v to %v", low, high)
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !pause(t.Context(), time.Minute) || time.Since(begin) != time.Minute {
			t.Errorf("paused for %v", time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if pause(ctx, time.Minute) || time.Since(begin) != time.Minute+time.Second {
			t.Errorf("ended after %v", time.Since(begin))
		}
	})
}

// Reports come when something has changed, and no more often than they may.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stats
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		begin := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			report(ctx, &s, time.Second, func(p Progress) {
				told = append(told, fmt.Sprintf("%d items after %v", p.Items, time.Since(begin)))
			})
		}()
		for range 99 {
			time.Sleep(30 * time.Millisecond) // of the bubble
			s.change(func(p *Progress) { p.Items++ })
		}
		time.Sleep(time.Hour)
		cancel()
		<-done
		if got := strings.Join(told, "; "); got != "33 items after 1s; 66 items after 2s; 99 items after 3s" {
			t.Error(got)
		}
	})
}

func TestMayPass(t *testing.T) {
	refusal := func(code sdk.Code) error { return &sdk.ServerError{Code: code} }
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"time is up", &sdk.NotStored{Cause: sdk.ErrDeliveryTimeout}, true},
		{"time is up, with what was refused before", fmt.Errorf("%w: %w", sdk.ErrDeliveryTimeout, refusal(wire.CodeInternal)), true},
		{"unknown for lack of time", &sdk.OutcomeUnknown{Cause: sdk.ErrDeliveryTimeout}, true},
		{"unknown for whatever reason", &sdk.OutcomeUnknown{Cause: errors.New("x")}, true},
		{"the server does not know", &sdk.OutcomeUnknown{Cause: refusal(wire.CodeUnknownOutcome)}, true},
		{"the disk is full", &sdk.NotStored{Cause: refusal(wire.CodeDiskFull)}, true},
		{"the connection went", fmt.Errorf("x: %w", sdk.ErrConnectionLost), true},
		{"the disk of the outbox failed", fmt.Errorf("x: %w", sdk.ErrOutboxFailed), true},
		{"behind a failure that may pass", fmt.Errorf("%w: %w", sdk.ErrStopped, sdk.ErrDeliveryTimeout), true},
		{"fenced", &sdk.NotStored{Cause: refusal(wire.CodeInvalidProducerEpoch)}, false},
		{"fenced, and unknown", &sdk.OutcomeUnknown{Cause: refusal(wire.CodeInvalidProducerEpoch)}, false},
		{"behind a fence", fmt.Errorf("%w: %w", sdk.ErrStopped, refusal(wire.CodeInvalidProducerEpoch)), false},
		{"data is lost", refusal(wire.CodeDataLoss), false},
		{"the producer is forgotten", refusal(wire.CodeUnknownProducerID), false},
		{"the topic is gone", refusal(wire.CodeUnknownTopicID), false},
		{"the client is closed", &sdk.OutcomeUnknown{Cause: fmt.Errorf("%w: %w", sdk.ErrClosed, sdk.ErrConnectionLost)}, false},
		{"the item is too large", &sdk.RecordTooLargeError{}, false},
		{"another run was there", &Error{Err: ErrMoved}, false},
		{"the outbox is in use", fmt.Errorf("x: %w", sdk.ErrOutboxInUse), false},
		{"a limit of the format", &sdk.NotStored{Cause: errors.New("x")}, false},
	} {
		if got := mayPass(fmt.Errorf("wrapped: %w", tt.err)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if isFinal(&Error{Err: &sourceError{sdk.ErrFenced}}) || !isFinal(&Error{Err: Stop(sdk.ErrDeliveryTimeout)}) {
		t.Error("what a source says is taken for what the producer says")
	}
}

func TestPlace(t *testing.T) {
	sent := []entry{{position: Position("b")}, {position: Position("c")}}
	for _, tt := range []struct {
		name, last, at string
		n              int
		ok             bool
	}{
		{"nothing was stored", "a", "a", 0, true},
		{"the first was stored", "a", "b", 1, true},
		{"all were stored", "a", "c", 2, true},
		{"nothing was ever stored", "", "", 0, true},
		{"somebody else stored", "a", "d", 0, false},
		{"the server lost everything", "a", "", 0, false},
	} {
		if n, ok := place(Position(tt.last), sent, Position(tt.at)); n != tt.n || ok != tt.ok {
			t.Errorf("%s: %d, %v", tt.name, n, ok)
		}
	}
}

func TestLedger(t *testing.T) {
	var l ledger
	want := func(number int64, before string, stored int64, position string) {
		t.Helper()
		if n, b := l.next(); n != number || string(b) != before || l.stored() != stored || string(l.position()) != position {
			t.Errorf("next %d behind %q, %d stored up to %q", n, b, l.stored(), l.position())
		}
	}
	want(1, "", 0, "")
	l.begin(Position("a"))
	for _, p := range []string{"b", "c", "d", "e"} {
		l.add(entry{position: Position(p)})
	}
	l.takeBack()
	want(4, "d", 0, "a")
	if n, e := l.oldest(); n != 1 || string(e.position) != "b" || string(l.confirm().position) != "b" {
		t.Errorf("oldest %d %q", n, e.position)
	}
	want(4, "d", 1, "b")
	if _, ok := l.settle(Position("a")); ok || l.knows(Position("a")) || !l.knows(Position("d")) {
		t.Error("a position in front of what is stored is taken")
	}
	if stored, ok := l.settle(Position("c")); !ok || len(stored) != 1 {
		t.Errorf("%d settled, %v", len(stored), ok)
	}
	want(3, "c", 2, "c")
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]*Error{
		`source: topic "t": item 3, position "x\x00": no`:                              {Topic: "t", Item: 3, Position: Position("x\x00"), Err: errors.New("no")},
		`source: topic "t": behind position none: no`:                                  {Topic: "t", Err: errors.New("no")},
		`source: topic "t": item 1, position "` + strings.Repeat("x", 64) + `"...: no`: {Topic: "t", Item: 1, Position: Position(strings.Repeat("x", 1000)), Err: errors.New("no")},
	} {
		if err.Error() != want {
			t.Errorf("%s, want %s", err, want)
		}
	}
}

// TestDependencies: whoever imports the package links what package sdk links.
func TestDependencies(t *testing.T) {
	deps := func(path string) string {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const own = "github.com/quoin-io/quoin/sdk/source\n"
	if more, less := deps("."), deps(".."); more != less+own {
		t.Errorf("linked are\n%s\nand by sdk\n%s", more, less)
	}
}
