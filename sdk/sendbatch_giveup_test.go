package sdk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// A SendBatch whose context ends returns at once, also when it has many records.
func TestSendBatchGivesUpAtOnce(t *testing.T) {
	s, c, _ := setUp(t, 1)
	ctx := testContext(t)
	p := build(t, c.Producer("t").BatchBytes(1<<20))
	open := hold(t, s, false, wire.KindLaneOpened)
	records := make([]sdk.Record, 200_000)
	for i := range records {
		records[i] = value(i)
	}
	given, giveUp := context.WithTimeout(ctx, time.Second)
	defer giveUp()
	done := make(chan error, 1)
	go func() {
		_, err := p.SendBatch(given, records)
		done <- err
	}()
	<-given.Done()
	ended := time.Now()
	var err error
	select {
	case err = <-done:
		t.Logf("it returned %v after the end of its context", time.Since(ended))
	case <-time.After(5 * time.Second):
		t.Error("SendBatch has not returned 5 s after the end of its context")
		open()
		open = func() {}
		err = <-done
	}
	var failed *sdk.BatchError
	var notStored *sdk.NotStored
	if !errors.As(err, &failed) || len(failed.Errs) != len(records) || !errors.As(failed.Errs[0], &notStored) {
		t.Errorf("got %.200v", err)
	}
	open()
	if ack, err := p.Send(ctx, value(1)); err != nil {
		t.Errorf("%+v, %v", ack, err)
	}
}
