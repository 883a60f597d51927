package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

func TestSendBatch(t *testing.T) {
	_, c, p := setUp(t, 3)
	const records = 2000
	var batch []sdk.Record
	for i := range records {
		r := value(i)
		if i%2 == 0 {
			r.Key = []byte(fmt.Sprint(i % 14))
		}
		batch = append(batch, r)
	}
	acks, err := p.SendBatch(testContext(t), batch)
	if err != nil || len(acks) != records {
		t.Fatalf("%d acks, %v", len(acks), err)
	}
	all := readAll(t, c, "t")
	for i, ack := range acks {
		if got := string(all[ack.Partition][ack.Offset].Value); got != fmt.Sprint(i) {
			t.Errorf("record %d: at its place is %q", i, got)
		}
		if key := batch[i].Key; key != nil && ack.Partition != sdk.PartitionForKey(key, 3) {
			t.Errorf("record %d is in partition %d", i, ack.Partition)
		}
	}
	if n := len(all[0]) + len(all[1]) + len(all[2]); n != records {
		t.Errorf("%d records are stored", n)
	}
	if acks, err := p.SendBatch(testContext(t), nil); err != nil || len(acks) != 0 {
		t.Errorf("of nothing: %v, %v", acks, err)
	}
}

// Records of one call gather: an idle partition gets them in one batch, if they fit.
func TestSendBatchGathers(t *testing.T) {
	s, _, p := setUp(t, 1)
	if _, err := p.Send(testContext(t), value(0)); err != nil { // the lane is open
		t.Fatal(err)
	}
	batches := 0
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if in && k == wire.KindProduce {
			batches++ // frames of a stream come one after the other
		}
		return -1
	}})
	batch := make([]sdk.Record, 100)
	if _, err := p.SendBatch(testContext(t), batch); err != nil {
		t.Fatal(err)
	}
	s.HookFrames(servertest.FrameHooks{})
	if batches != 1 {
		t.Errorf("%d batches", batches)
	}
}

func TestSendBatchSaysWhichFailed(t *testing.T) {
	s, c, _ := setUp(t, 1)
	p := build(t, c.Producer("t").MaxBuffered(1<<10).BatchBytes(100))
	large := sdk.Record{Value: make([]byte, 2<<20)}
	acks, err := p.SendBatch(testContext(t), []sdk.Record{value(0), large, value(1)})
	var failed *sdk.BatchError
	var tooLarge *sdk.RecordTooLargeError
	if !errors.As(err, &failed) || failed.Errs[0] != nil || !errors.As(failed.Errs[1], &tooLarge) || failed.Errs[2] != nil {
		t.Fatalf("got %v", err)
	}
	if !errors.As(err, &tooLarge) || acks[0].Offset != 0 || acks[1] != (sdk.Ack{}) || acks[2].Offset != 1 {
		t.Errorf("acks %+v, %v", acks, err)
	}

	ctx, cancel := context.WithCancel(testContext(t))
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if in || k != wire.KindProduceResults {
			return -1
		}
		cancel()
		return 0 // the answer is lost
	}})
	var many []sdk.Record
	for i := range 20 {
		many = append(many, value(2+i))
		many[i].Key = make([]byte, 100)
	}
	acks, err = p.SendBatch(ctx, many)
	s.HookFrames(servertest.FrameHooks{})
	if !errors.As(err, &failed) || len(acks) != 20 {
		t.Fatalf("got %v", err)
	}
	kinds := make(map[string]int)
	for _, err := range failed.Errs {
		var unknown *sdk.OutcomeUnknown
		var full *sdk.BufferFullError
		var notStored *sdk.NotStored
		switch {
		case errors.As(err, &unknown):
			kinds["unknown"]++
		case errors.As(err, &full), errors.As(err, &notStored), errors.Is(err, context.Canceled):
			kinds["not accepted or taken back"]++
		default:
			t.Errorf("got %v", err)
		}
	}
	if kinds["unknown"] == 0 || kinds["not accepted or taken back"] == 0 {
		t.Errorf("outcomes: %v", kinds)
	}
}

func TestTrySend(t *testing.T) {
	s, c, _ := setUp(t, 1)
	p := build(t, c.Producer("t").MaxBuffered(1<<10))
	open := hold(t, s, false, wire.KindLaneOpened)
	outcomes := make(chan error, 1)
	if err := p.TrySend(sdk.Record{Value: make([]byte, 800)}, func(_ sdk.Ack, err error) { outcomes <- err }); err != nil {
		t.Fatal(err)
	}
	err := p.TrySend(sdk.Record{Value: make([]byte, 800)}, func(sdk.Ack, error) { t.Error("called for what was not accepted") })
	var full *sdk.BufferFullError
	if !errors.As(err, &full) || full.MaxBuffered != 1<<10 || full.InUse < 800 || full.Err != nil {
		t.Errorf("got %v", err)
	}
	if err := p.TrySend(value(1), nil); err != nil {
		t.Errorf("a record that fits: %v", err)
	}
	open()
	if err := <-outcomes; err != nil {
		t.Error(err)
	}
	if _, err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
	if err := p.TrySend(value(2), nil); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if diff := cmp.Diff(2, len(readAll(t, c, "t")[0])); diff != "" {
		t.Error(diff)
	}
}
