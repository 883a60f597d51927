package sdk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name  string
		takes time.Duration // of what is to end
		err   error
		want  error
		after time.Duration // when within returns
	}{
		{"at once", 0, nil, nil, 0},
		{"with an error", time.Second, broken, broken, time.Second},
		{"in the grace", 1050 * time.Millisecond, nil, nil, 1050 * time.Millisecond},
		{"too late", time.Hour, nil, context.DeadlineExceeded, 1080 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				begun, over := time.Now(), make(chan struct{})
				defer close(over)
				late, stop := lateAfter(ctx, 80*time.Millisecond)
				defer stop()
				err := within(ctx, late, func() error {
					select {
					case <-time.After(test.takes):
					case <-over:
					}
					return test.err
				})
				if !errors.Is(err, test.want) || time.Since(begun) != test.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(begun), test.want, test.after)
				}
			})
		})
	}
}

// Close waits closeGrace for its senders behind the end of ctx (cutShort), and then calls within:
// both together must not be later than ctx plus 100 ms.
func TestWithinCountsFromTheEndOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begun, over := time.Now(), make(chan struct{})
		defer close(over)
		late, stop := lateAfter(ctx, closeGrace)
		defer stop()
		<-ctx.Done()
		time.Sleep(closeGrace) // cutShort: a sender that waits for the same disk
		err := within(ctx, late, func() error { <-over; return nil })
		if late := time.Since(begun) - time.Second; !errors.Is(err, context.DeadlineExceeded) || late > 100*time.Millisecond {
			t.Errorf("Close returns %v behind the end of its context: %v", late, err)
		}
	})
}
