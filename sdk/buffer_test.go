package sdk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// start acquires in a goroutine and returns where the result comes.
func start(b *buffer, ctx context.Context, n int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.acquire(ctx, n, func() {}) }()
	synctest.Wait()
	return done
}

func waits(done <-chan error) bool {
	synctest.Wait()
	select {
	case <-done:
		return false
	default:
		return true
	}
}

func TestBufferServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{max: 100}
		ctx := context.Background()
		if err := b.acquire(ctx, 80, nil); err != nil {
			t.Fatal(err)
		}
		large, small := start(b, ctx, 90), start(b, ctx, 10)
		if !waits(large) || !waits(small) {
			t.Fatal("a small one passed a large one that waits")
		}
		b.release(80)
		if err := <-large; err != nil {
			t.Fatal(err)
		}
		if err := <-small; err != nil {
			t.Fatal(err)
		}
	})
}

func TestBufferTakesAnOversizedRecordWhenEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{max: 100}
		ctx := context.Background()
		_ = b.acquire(ctx, 1, nil)
		huge := start(b, ctx, 1000)
		if !waits(huge) {
			t.Fatal("let in beside another")
		}
		b.release(1)
		if err := <-huge; err != nil {
			t.Fatal(err)
		}
		next := start(b, ctx, 1)
		if !waits(next) {
			t.Fatal("something fits beside it")
		}
		b.release(1000)
		<-next
	})
}

func TestBufferContextAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{max: 100}
		_ = b.acquire(context.Background(), 60, nil)
		ctx, cancel := context.WithCancel(context.Background())
		first, second := start(b, ctx, 60), start(b, context.Background(), 40)
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("who stood behind the one that left: %v", err)
		}
		third := start(b, context.Background(), 1)
		b.close()
		if err := <-third; !errors.Is(err, ErrClosed) {
			t.Errorf("waiting at close: %v", err)
		}
		if err := b.acquire(context.Background(), 1, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}

func TestBufferCallsPressureBeforeItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{max: 10}
		_ = b.acquire(context.Background(), 10, nil)
		err := b.acquire(context.Background(), 5, func() { b.release(10) })
		if err != nil {
			t.Error(err)
		}
	})
}
