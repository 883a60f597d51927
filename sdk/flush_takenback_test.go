package sdk_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// A record that was given after a Flush and is taken back is not one of those that the Flush
// waits for.
func TestFlushDoesNotCountWhatIsTakenBack(t *testing.T) {
	s, c, _ := setUp(t, 1)
	ctx := testContext(t)
	p := build(t, c.Producer("t"))
	open := hold(t, s, false, wire.KindLaneOpened)
	var ended atomic.Bool
	if err := p.SendAsync(ctx, value(0), func(sdk.Ack, error) { ended.Store(true) }); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan error, 1)
	go func() {
		err := p.Flush(ctx)
		if err == nil && !ended.Load() {
			err = errors.New("Flush returned, and the record has no outcome")
		}
		flushed <- err
	}()
	time.Sleep(100 * time.Millisecond) // it waits
	for range 3 {
		given, giveUp := context.WithTimeout(ctx, 20*time.Millisecond)
		_, err := p.Send(given, value(1))
		giveUp()
		var notStored *sdk.NotStored
		if !errors.As(err, &notStored) {
			t.Errorf("got %v", err)
		}
	}
	time.AfterFunc(200*time.Millisecond, open)
	if err := <-flushed; err != nil {
		t.Error(err)
	}
}
