package source_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/sdk/source"
	"github.com/quoin-io/quoin/server/servertest"
)

// TestEachRecordOnceThroughFaults runs a source while something bad happens again and again.
// With a short delivery timeout most of it costs the producer, which is built anew.
func TestEachRecordOnceThroughFaults(t *testing.T) {
	tests := []struct {
		name    string
		retries bool // the fault must cost a retry
		fault   func(s *servertest.Server) error
	}{
		{"cut connections", false, func(s *servertest.Server) error { s.CutConnection(); return nil }},
		{"lost acknowledgements", false, func(s *servertest.Server) error { s.DropAck(1 + rand.IntN(3)); return nil }},
		{"restarts", false, func(s *servertest.Server) error { s.Restart(); return nil }},
		{"kills of the server", false, func(s *servertest.Server) error { s.Kill(); return nil }},
		{"power cuts", false, func(s *servertest.Server) error {
			_, release := s.HoldSync()
			s.CrashWith(release)
			return nil
		}},
		{"failing appends", false, func(s *servertest.Server) error { s.FailAppend(); return nil }},
		{"errors of the source", true, func(*servertest.Server) error { return errors.New("the source has a cold") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const last, faults = 2000, 6
			s, c := setUp(t, 1, servertest.InMemory())
			due := last / faults
			src := &counter{last: last, before: func(_ context.Context, n int) error {
				if n < due {
					return nil
				}
				due += last / faults
				return tt.fault(s)
			}}
			var stats source.Stats
			if err := source.Run(testContext(t), c, src, "t", "n", quick(60*time.Millisecond), source.WithStats(&stats)); err != nil {
				t.Fatal(err)
			}
			wantLog(t, c, last)
			p := stats.Progress()
			if p.Records != last || string(p.Position) != fmt.Sprint(last) || !p.Done || p.Read < p.Items || p.Stored.IsZero() {
				t.Errorf("progress %+v", p)
			}
			if p.Retries == 0 && tt.retries || p.Retries > 0 && p.Err == nil {
				t.Errorf("%d retries, the last error is %v", p.Retries, p.Err)
			}
			t.Logf("%d retries, %d duplicates, read %d times, %d items for %d", p.Retries, p.Duplicates, len(src.reads), p.Read, p.Items)
		})
	}
}

// A full disk costs one producer after the other, until there is room: the outcome of what was
// under way is found by the position.
func TestFullDisk(t *testing.T) {
	s, c := setUp(t, 1, servertest.InMemory())
	var stats source.Stats
	failures := 0
	full := false
	src := &counter{last: 300, before: func(_ context.Context, n int) error {
		if n == 100 && !full {
			full = true
			s.FillDisk()
		}
		return nil
	}}
	err := source.Run(testContext(t), c, source.Func(src.Read), "t", "n", quick(100*time.Millisecond), source.WithStats(&stats),
		source.ProgressEvery(time.Millisecond), source.OnProgress(func(p source.Progress) {
			if p.Retries > 2 {
				s.FreeDisk()
			}
			failures++
		}))
	if err != nil {
		t.Fatal(err)
	}
	wantLog(t, c, 300)
	p := stats.Progress()
	var at *source.Error
	if p.Retries < 3 || !errors.Is(p.Err, sdk.ErrDeliveryTimeout) || !errors.As(p.Err, &at) || at.Item == 0 || at.Topic != "t" || failures == 0 {
		t.Errorf("%d retries, %d reports, %v", p.Retries, failures, p.Err)
	}
}

// What is appended and has no answer is unknown, and comes to be stored or not, whatever the
// callback said: the next producer knows which.
func TestUnknownOutcomes(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("the power goes off: %v", crash), func(t *testing.T) {
			s, c := setUp(t, 1, servertest.InMemory())
			var stats source.Stats
			var began <-chan struct{}
			release := func() {}
			src := &counter{last: 100, before: func(_ context.Context, n int) error {
				if n == 50 && began == nil {
					began, release = s.HoldSync()
				}
				return nil
			}}
			failed := make(chan struct{})
			told := false
			go func() {
				<-failed
				if crash {
					s.CrashWith(release)
				} else {
					release()
				}
			}()
			err := source.Run(testContext(t), c, src, "t", "n", quick(100*time.Millisecond), source.WithStats(&stats),
				source.ProgressEvery(time.Millisecond), source.OnProgress(func(p source.Progress) {
					if p.Err != nil && !told {
						told = true
						<-began
						close(failed)
					}
				}))
			if err != nil {
				t.Fatal(err)
			}
			wantLog(t, c, 100)
			p := stats.Progress()
			if p.Records != 100 || p.Retries == 0 {
				t.Errorf("progress %+v", p)
			}
			t.Logf("%v", p.Err)
		})
	}
}

// A source that does not begin where it is told doubles, and the checker sees it: the tests
// above are not blind. Nor is it to what is missing or out of place.
func TestCheckerIsNotBlind(t *testing.T) {
	_, c := setUp(t, 1)
	failed := false
	src := &counter{last: 10, deaf: true, before: func(_ context.Context, n int) error {
		if n > 5 && !failed {
			failed = true
			return errors.New("once")
		}
		return nil
	}}
	if err := source.Run(testContext(t), c, src, "t", "n", quick(time.Second)); err != nil {
		t.Fatal(err)
	}
	if onceInOrder(stored(t, c, 0), 10) == nil {
		t.Error("nothing is doubled, or nobody sees it")
	}
	for _, all := range [][]string{{"1", "2", "2", "3"}, {"1", "3"}, {"1", "2"}, {"1", "3", "2"}, {"1", "2", "3", "4"}} {
		if onceInOrder(all, 3) == nil {
			t.Errorf("%q is taken for 1 to 3", all)
		}
	}
}
