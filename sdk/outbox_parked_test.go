package sdk

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/outbox"
	"github.com/quoin-io/quoin/server/servertest"
)

// A record for which the outbox has no room was not handed to the network: the Send whose
// context ends takes it back at once, and does not wait for the delivery timeout.
func TestSendGivenUpWhileTheOutboxIsFull(t *testing.T) {
	s := servertest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := Dial(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.CreateTopic(ctx, "t", TopicOptions{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer("t").Named("n").Outbox(t.TempDir()).DeliveryTimeout(10 * time.Second).Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// A small outbox, that batches of another partition fill.
	if err := p.outbox.Close(); err != nil {
		t.Fatal(err)
	}
	binding := outbox.Binding{Topic: "t", TopicID: p.topicID, Producer: "n", ProducerID: p.identity.ProducerID}
	p.outbox, _, err = outbox.Open(t.TempDir(), binding, outbox.Options{SegmentBytes: outbox.MinSegmentBytes, MaxBytes: 8 * outbox.MinSegmentBytes})
	if err != nil {
		t.Fatal(err)
	}
	var full []outbox.ID
	for seq := batchfmt.Seq(0); ; seq++ {
		var b batchfmt.Builder
		if err := b.Add(&batchfmt.Record{Value: make([]byte, 4000)}); err != nil {
			t.Fatal(err)
		}
		sealed, err := b.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: p.identity.ProducerID, BaseSequence: seq})
		if err != nil {
			t.Fatal(err)
		}
		id, err := p.outbox.Put(1, sealed)
		if errors.Is(err, outbox.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		full = append(full, id)
	}
	given, giveUp := context.WithTimeout(ctx, 200*time.Millisecond)
	defer giveUp()
	began := time.Now()
	_, err = p.Send(given, Record{Value: make([]byte, 4000)})
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Send returned after %v, its context lived 200 ms", took)
	}
	var notStored *NotStored
	if !errors.As(err, &notStored) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if used := p.buffer.inUse(); used != 0 {
		t.Errorf("%d bytes of the buffer are in use", used)
	}
	for _, id := range full {
		if err := p.outbox.Stored(id, -1); err != nil {
			t.Fatal(err)
		}
	}
	if ack, err := p.Send(ctx, Record{Value: []byte("1")}); err != nil || ack.Sequence != 0 {
		t.Errorf("%+v, %v", ack, err)
	}
}
