package sdk_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
)

func pinOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestTooLargeRecordIsRefusedBeforeItHasASequence(t *testing.T) {
	_, c, _ := setUp(t, 1)
	ctx := testContext(t)
	if _, err := c.CreateTopic(ctx, "small", sdk.TopicOptions{MaxBatchBytes: 2000}); err != nil {
		t.Fatal(err)
	}
	p := build(t, c.Producer("small"))
	for _, size := range []int{1990, 2000, 5 << 20} {
		_, err := p.Send(ctx, sdk.Record{Value: make([]byte, size)})
		var large *sdk.RecordTooLargeError
		if !errors.As(err, &large) || large.Limit != 2000 || large.Bytes < size {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	ack, err := p.Send(ctx, sdk.Record{Value: make([]byte, 1800)})
	if err != nil || ack.Sequence != 0 {
		t.Errorf("after it: %+v, %v", ack, err)
	}
}

func TestFullBufferBlocksUntilThereIsRoom(t *testing.T) {
	s, c, _ := setUp(t, 1)
	p := build(t, c.Producer("t").MaxBuffered(2000))
	ctx := testContext(t)
	began, release := s.HoldSync()
	done := make(chan error, 3)
	callback := func(_ sdk.Ack, err error) { done <- err }
	if err := p.SendAsync(ctx, sdk.Record{Value: make([]byte, 1500)}, callback); err != nil {
		t.Fatal(err)
	}
	<-began
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err := p.SendAsync(short, sdk.Record{Value: make([]byte, 1500)}, callback)
	var full *sdk.BufferFullError
	if !errors.As(err, &full) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a full buffer: %v", err)
	} else if full.Topic != "t" || full.MaxBuffered != 2000 || full.InUse < 1500 || full.Reason != nil {
		t.Errorf("with a full buffer: %+v", full)
	}
	accepted := make(chan error)
	go func() { accepted <- p.SendAsync(ctx, sdk.Record{Value: make([]byte, 5000)}, callback) }()
	release()
	if err := <-accepted; err != nil {
		t.Errorf("a record larger than the buffer, once it is empty: %v", err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestContextThatIsOverSendsNothing: the record could not be told from one that was sent.
func TestContextThatIsOverSendsNothing(t *testing.T) {
	_, c, p := setUp(t, 1)
	over, cancel := context.WithCancel(testContext(t))
	cancel()
	_, err := p.Send(over, value(0))
	var unknown *sdk.OutcomeUnknown
	if !errors.Is(err, context.Canceled) || errors.As(err, &unknown) {
		t.Errorf("Send: %v", err)
	}
	if err := p.SendAsync(over, value(1), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("SendAsync: %v", err)
	}
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if all := readAll(t, c, "t"); len(all) != 0 {
		t.Errorf("stored: %v", values(all[0]))
	}
}

func TestFullBufferSendsWhatLingers(t *testing.T) {
	_, c, _ := setUp(t, 1)
	p := build(t, c.Producer("t").MaxBuffered(2000).Linger(time.Minute).DeliveryTimeout(time.Hour))
	ctx := testContext(t)
	for range 3 {
		if err := p.SendAsync(ctx, sdk.Record{Value: make([]byte, 1500)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestSendWhoseContextEndsGoesOn(t *testing.T) {
	s, c, p := setUp(t, 1)
	began, release := s.HoldSync()
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		<-began
		cancel()
	}()
	_, err := p.Send(ctx, value(0))
	var unknown *sdk.OutcomeUnknown
	if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbers(0, 1), values(readAll(t, c, "t")[0])); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}

func TestCallbacksComeInOrderAndFlushWaitsForThem(t *testing.T) {
	_, c, _ := setUp(t, 1)
	p := build(t, c.Producer("t").BatchBytes(100).Linger(time.Minute).DeliveryTimeout(time.Hour))
	ctx := testContext(t)
	var order []int64 // no lock: callbacks of a partition never overlap, Flush waits for them
	for i := range 100 {
		if err := p.SendAsync(ctx, value(i), func(ack sdk.Ack, err error) { order = append(order, ack.Sequence) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i, got := range order {
		if got != int64(i) {
			t.Fatalf("callback %d is that of sequence %d", i, got)
		}
	}
	if len(order) != 100 {
		t.Errorf("%d callbacks", len(order))
	}
}

// TestCallbacksMayCallAnything does in a callback what would wait for the callback itself.
func TestCallbacksMayCallAnything(t *testing.T) {
	_, c, _ := setUp(t, 1)
	ctx := testContext(t)
	calls := map[string]func(p *sdk.Producer) error{
		"Flush": func(p *sdk.Producer) error { return p.Flush(ctx) },
		"Send": func(p *sdk.Producer) error {
			_, err := p.Send(ctx, value(1))
			return err
		},
		"SendAsync": func(p *sdk.Producer) error { return p.SendAsync(ctx, value(1), nil) },
		"Close": func(p *sdk.Producer) error {
			_, err := p.Close(ctx)
			return err
		},
		"Close, twice": func(p *sdk.Producer) error {
			_, err := p.Close(ctx)
			_, again := p.Close(ctx)
			return errors.Join(err, again)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			p := build(t, c.Producer("t"))
			done := make(chan error, 1)
			err := p.SendAsync(ctx, value(0), func(sdk.Ack, error) { done <- call(p) })
			if err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-ctx.Done():
				t.Fatal("hangs")
			}
			if _, err := p.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("Close of the client", func(t *testing.T) {
		p := build(t, c.Producer("t"))
		done := make(chan error, 1)
		if err := p.SendAsync(ctx, value(0), func(sdk.Ack, error) { done <- c.Close(ctx) }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCloseOfAnEventHandler(t *testing.T) {
	s, _, _ := setUp(t, 1)
	ctx := testContext(t)
	closed := make(chan error, 1)
	var client atomic.Pointer[sdk.Client]
	ready := make(chan struct{})
	c, err := sdk.Dial(ctx, s.URL(), sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventConnected {
			<-ready
			closed <- client.Load().Close(ctx)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	client.Store(c)
	close(ready)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestCloseFlushes(t *testing.T) {
	_, c, _ := setUp(t, 3)
	p := build(t, c.Producer("t").Linger(time.Minute).DeliveryTimeout(time.Hour))
	ctx := testContext(t)
	var called atomic.Int64
	for i := range 50 {
		r := value(i)
		r.Key = r.Value
		if err := p.SendAsync(ctx, r, func(_ sdk.Ack, err error) {
			if err == nil {
				called.Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	abandoned, err := p.Close(ctx)
	if err != nil || len(abandoned) != 0 || called.Load() != 50 {
		t.Errorf("abandoned %v, %v, %d callbacks", abandoned, err, called.Load())
	}
	if err := p.SendAsync(ctx, value(0), nil); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("send after Close: %v", err)
	}
	if _, err := p.Send(ctx, value(0)); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("send after Close: %v", err)
	}
	total := 0
	for _, records := range readAll(t, c, "t") {
		total += len(records)
	}
	if total != 50 {
		t.Errorf("%d records are stored", total)
	}
}

func TestCloseThatIsCutShortListsWhatIsUnknown(t *testing.T) {
	s, c, _ := setUp(t, 1)
	p := build(t, c.Producer("t").BatchBytes(1)) // a batch a record
	ctx := testContext(t)
	began, release := s.HoldSync()
	defer release()
	type result struct {
		i   int
		err error
	}
	var mu sync.Mutex
	var results []result
	for i := range 8 {
		if err := p.SendAsync(ctx, value(i), func(_ sdk.Ack, err error) {
			mu.Lock()
			defer mu.Unlock()
			results = append(results, result{i, err})
		}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-began
		}
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	abandoned, err := p.Close(short)
	if late := time.Since(start) - 100*time.Millisecond; late > 100*time.Millisecond {
		t.Errorf("returned %v after the end of its context", late)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if len(abandoned) == 0 || len(abandoned) > 5 {
		t.Fatalf("abandoned %+v", abandoned)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(results) != 8 {
		t.Fatalf("%d callbacks", len(results))
	}
	for i, r := range results {
		var unknown *sdk.OutcomeUnknown
		var notStored *sdk.NotStored
		switch {
		case r.i != i:
			t.Errorf("callback %d is that of record %d", i, r.i)
		case i < len(abandoned) && (!errors.As(r.err, &unknown) || unknown.Sequence != int64(i) || abandoned[i].First != int64(i)):
			t.Errorf("record %d: %v, abandoned %+v", i, r.err, abandoned[i])
		case i >= len(abandoned) && (!errors.As(r.err, &notStored) || !errors.Is(r.err, sdk.ErrClosed)):
			t.Errorf("record %d: %v", i, r.err)
		}
	}
	again, err2 := p.Close(ctx)
	if diff := cmp.Diff(len(abandoned), len(again)); diff != "" || err2 != err {
		t.Errorf("a second Close: %v, %v", again, err2)
	}
}
