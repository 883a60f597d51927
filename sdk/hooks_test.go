package sdk_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// ears are a hook of all kinds.
type ears struct {
	mu                    sync.Mutex
	sent, ended, received []sdk.BatchInfo
	errs                  []error
}

func (e *ears) BatchSent(b sdk.BatchInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent = append(e.sent, b)
}

func (e *ears) BatchEnded(b sdk.BatchInfo, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended, e.errs = append(e.ended, b), append(e.errs, err)
}

func (e *ears) BatchReceived(b sdk.BatchInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.received = append(e.received, b)
}

func TestHooksAndStats(t *testing.T) {
	s := servertest.Start(t)
	heard := new(ears)
	retries := make(chan sdk.Event, 100)
	c := dial(t, s, sdk.WithHooks(heard, "no hook at all"), sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventRetry && e.Topic != "" {
			retries <- e
		}
	}))
	createTopic(t, c, "t", 1)
	ctx := testContext(t)
	p := build(t, c.Producer("t"))
	if _, err := p.SendBatch(ctx, []sdk.Record{value(0), value(1)}); err != nil {
		t.Fatal(err)
	}
	cutAnswers(s, 1)
	if ack, err := p.Send(ctx, value(2)); err != nil || !ack.Duplicate {
		t.Fatalf("%+v, %v", ack, err)
	}
	if e := <-retries; e.Attempt != 2 || e.Topic != "t" || e.ProducerID != p.ID() || !errors.Is(e.Err, sdk.ErrConnectionLost) {
		t.Errorf("event %+v", e)
	}
	if err := c.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(ctx, value(3)); !errors.Is(err, sdk.ErrUnknownTopic) {
		t.Fatal(err)
	}
	createTopic(t, c, "u", 1)
	plain, err := c.Producer("u").Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Send(ctx, value(4)); err != nil {
		t.Fatal(err)
	}
	if n := len(readAll(t, c, "u")[0]); n != 1 {
		t.Errorf("read %d", n)
	}

	heard.mu.Lock()
	defer heard.mu.Unlock()
	var again sdk.BatchInfo
	for _, b := range heard.sent {
		if b.Topic == "t" && b.First == 2 {
			again = b
		}
	}
	if again.Attempt != 2 || again.Records != 1 || again.Bytes < 50 || again.Age <= 0 || again.ProducerID != p.ID() {
		t.Errorf("the second attempt was told as %+v", again)
	}
	last := len(heard.ended) - 1
	if heard.errs[0] != nil || heard.ended[0].Records != 2 || heard.ended[last].First != -1 || heard.ended[last].Topic != "u" {
		t.Errorf("ended %+v with %v", heard.ended, heard.errs)
	}
	if len(heard.received) != 1 || heard.received[0].First != -1 || heard.received[0].Records != 1 || heard.received[0].ProducerID != 0 {
		t.Errorf("received %+v", heard.received)
	}
	got := c.Stats()
	if got.BytesSent == 0 || got.BytesReceived == 0 || got.BatchesSent != uint64(len(heard.sent)) {
		t.Errorf("%+v after %d batches were sent", got, len(heard.sent))
	}
	if got.RecordsStored != 4 || got.RecordsDuplicate != 1 || got.RecordsNotStored != 1 || got.RecordsUnknown != 0 || got.RecordsReceived != 1 ||
		got.Connects != 2 || got.Disconnects != 1 || got.BatchesResent == 0 {
		t.Errorf("%+v", got)
	}
}
