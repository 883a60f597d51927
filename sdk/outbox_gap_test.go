package sdk

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A process crashed when a batch was settled as not stored, before what stood behind it was
// sealed anew: the next one seals it anew, and does not send it until its time is over.
func TestOutboxWithAGapInFront(t *testing.T) {
	s := servertest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	settled := make(chan Event, 100)
	c, err := Dial(ctx, s.URL(), OnEvent(func(e Event) {
		if e.Kind == EventSettled {
			settled <- e
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.CreateTopic(ctx, "t", TopicOptions{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "outbox")
	build := func() *Producer {
		p, err := c.Producer("t").Named("n").Outbox(dir).DeliveryTimeout(3 * time.Second).Build(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := build()
	if _, err := p.Send(ctx, Record{Value: []byte("0")}); err != nil {
		t.Fatal(err)
	}
	sealed := func(seq batchfmt.Seq, value string) (batch []byte, digest batchfmt.Digest) {
		var b batchfmt.Builder
		if err := b.Add(&batchfmt.Record{Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		batch, err := b.Seal(nil, batchfmt.Seal{Version: batchfmt.Version2, ProducerID: p.identity.ProducerID, BaseSequence: seq})
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := batchfmt.Parse(batch)
		if err != nil {
			t.Fatal(err)
		}
		return batch, parsed.Digest()
	}
	one, digest := sealed(1, "1")
	id, err := p.outbox.Put(0, one)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := sealed(2, "2")
	if _, err := p.outbox.Put(0, two); err != nil {
		t.Fatal(err)
	}
	m, err := c.resolve(ctx, &Token{topic: "t", topicID: p.topicID, producerID: p.ID(), first: 1, records: 1, digest: digest, key: p.key}, true)
	if err != nil || m.Outcome != wire.ResolveNever {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := p.outbox.NotStored(id); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Close(ctx); err != nil { // as good as a crash
		t.Fatal(err)
	}
	p = build()
	if found := p.Found(); found.Pending != 1 {
		t.Fatalf("found %+v", found)
	}
	began := time.Now()
	select {
	case e := <-settled:
		if e.Resolution.Outcome != ResolveStored || e.Resolution.Offset < 1 {
			t.Errorf("settled as %v %d after %v: %s", e.Resolution.Outcome, e.Resolution.Offset, time.Since(began), e.Resolution.Reason)
		}
	case <-ctx.Done():
		t.Fatal("it has no outcome")
	}
}
