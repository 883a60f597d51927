package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// A Send that gives up before its record was handed to the network takes it back: it spends
// no sequence and no room, and nobody wonders about it later.
func TestSendGivenUpBeforeItIsSent(t *testing.T) {
	s, c, _ := setUp(t, 1)
	ctx := testContext(t)
	p := build(t, c.Producer("t").MaxBuffered(1<<10))
	open := hold(t, s, false, wire.KindLaneOpened)
	over := errors.New("over")
	others := make(chan error, 2)
	async := func(i int) {
		if err := p.SendAsync(ctx, value(i), func(_ sdk.Ack, err error) { others <- err }); err != nil {
			t.Fatal(err)
		}
	}
	async(0)
	takenBack := 0
	for range 10 { // more than the buffer takes, if they stayed
		given, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(10*time.Millisecond, func() { cancel(over) })
		_, err := p.Send(given, sdk.Record{Value: make([]byte, 500)})
		var notStored *sdk.NotStored
		switch {
		case errors.As(err, &notStored) && errors.Is(err, over):
			takenBack++
		case err != over: // which it is when the context ended before it was accepted
			t.Errorf("got %v", err)
		}
	}
	if takenBack == 0 {
		t.Error("none was taken back")
	}
	async(1)
	flushed := make(chan error, 1)
	go func() { flushed <- p.Flush(ctx) }()
	open()
	for range 2 {
		if err := <-others; err != nil {
			t.Error(err)
		}
	}
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	goesOn(t, p, 2, 2, 0)
	wantLog(t, c, "0", "1", "2")
}

// Whatever the moment at which a Send gives up: what it says is true.
func TestSendGivenUpAnyTime(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		t.Run(fmt.Sprintf("idempotent %v", idempotent), func(t *testing.T) {
			_, c, _ := setUp(t, 1)
			b := c.Producer("t").BatchBytes(200)
			if idempotent {
				b.Idempotent()
			}
			p, err := b.Build(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			const senders, records = 8, 60
			said := make([]error, senders*records)
			var wg sync.WaitGroup
			for sender := range senders {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(sender), 1))
					for i := range records {
						ctx, cancel := context.WithTimeout(testContext(t), time.Duration(rng.IntN(600))*time.Microsecond)
						_, said[sender*records+i] = p.Send(ctx, value(sender*records+i))
						cancel()
					}
				})
			}
			wg.Wait()
			if err := p.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
			stored := make(map[string]int)
			for _, r := range readAll(t, c, "t")[0] {
				stored[string(r.Value)]++
			}
			kinds := make(map[string]int)
			for i, err := range said {
				n := stored[fmt.Sprint(i)]
				var unknown *sdk.OutcomeUnknown
				switch {
				case err == nil && n == 1:
					kinds["stored"]++
				case errors.As(err, &unknown) && n <= 1:
					kinds["unknown"]++
				case err != nil && unknown == nil && n == 0:
					kinds["not stored"]++
				default:
					t.Errorf("record %d is stored %d times, and its Send said %v", i, n, err)
				}
			}
			t.Log(kinds)
		})
	}
}
