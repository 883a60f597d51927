package sdk_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// damage spoils the record with this text on the server's disk, and removes what the server
// has noted of producers, so that it has only the log to go by.
func damage(t *testing.T, s *servertest.Server, text string) {
	t.Helper()
	spoiled := 0
	s.RestartWith(func() {
		err := filepath.WalkDir(s.Data(), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
				return err
			case strings.HasPrefix(d.Name(), "producers-"):
				return os.Remove(path)
			}
			b, err := os.ReadFile(path)
			if at := bytes.Index(b, []byte(text)); err == nil && at >= 0 {
				spoiled++
				b[at] ^= 1
				return os.WriteFile(path, b, 0o600)
			}
			return err
		})
		if err != nil || spoiled == 0 {
			t.Errorf("%d files spoiled, %v", spoiled, err)
		}
	})
}

// TestContinueAfterUnknownOutcome: the ack of a batch was lost, and then the batch. The
// server cannot tell it from one that never came; the application is told so and goes on.
func TestContinueAfterUnknownOutcome(t *testing.T) {
	s := servertest.Start(t)
	events := newSettledEvents()
	c := dial(t, s, events.option())
	createTopic(t, c, "t", 1)
	p, other := build(t, c.Producer("t")), build(t, c.Producer("t"))
	ctx := testContext(t)
	goesOn(t, p, 0, 0, 0)
	// Every answer to a batch is lost from here on, so p does not hear that it is stored.
	answered := make(chan struct{}, 1)
	s.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if in || k != wire.KindProduceResults {
			return -1
		}
		select {
		case answered <- struct{}{}:
		default:
		}
		return 0
	}})
	outcome := make(chan error, 1)
	go func() {
		_, err := p.Send(ctx, sdk.Record{Value: []byte("this one is lost")})
		outcome <- err
	}()
	<-answered
	behind := make(chan error, 1)
	go func() { // so that the damage is not at the end, where it would look like a torn write
		_, err := other.Send(ctx, value(1))
		behind <- err
	}()
	for records := 0; records < 3; {
		info, err := c.DescribeTopic(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		records = int(info.Partitions[0].HighWatermark)
	}
	damage(t, s, "this one is lost")
	s.HookFrames(servertest.FrameHooks{})
	if err := <-behind; err != nil {
		t.Error(err)
	}
	unknown := wantUnknown(t, <-outcome)
	if unknown.Sequence != 1 {
		t.Errorf("unknown: %v", unknown)
	}
	events.want(t, unknown.Token(), sdk.ResolveUnknowable, -1)
	if _, err := p.Send(ctx, value(2)); err == nil {
		t.Error("the partition takes records by itself")
	}
	if err := p.ContinueAfterLoss(ctx, 0); err != nil {
		t.Fatal(err)
	}
	goesOn(t, p, 3, 1, 1)
	abandoned, err := p.Close(ctx)
	if len(abandoned) != 1 || abandoned[0].Token != unknown.Token() || err == nil {
		t.Errorf("abandoned %v, %v", abandoned, err)
	}
}

// TestContinueAfterUnknownProducer: all that the server had of a producer is lost, and it
// knows that something is. It cannot say where the producer stands, so there is nothing
// to go on from.
func TestContinueAfterUnknownProducer(t *testing.T) {
	s := servertest.Start(t)
	c := dial(t, s)
	createTopic(t, c, "t", 1)
	p, other := build(t, c.Producer("t")), build(t, c.Producer("t"))
	ctx := testContext(t)
	if _, err := p.Send(ctx, sdk.Record{Value: []byte("this one is lost")}); err != nil {
		t.Fatal(err)
	}
	goesOn(t, other, 0, 0, 0)
	damage(t, s, "this one is lost")
	_, err := p.Send(ctx, value(1))
	var refusal *sdk.ServerError
	if !errors.As(err, &refusal) || refusal.Code != wire.CodeUnknownProducerID && refusal.Code != wire.CodeDataLoss {
		t.Fatalf("got %v", err)
	}
	for range 2 {
		err := p.ContinueAfterLoss(ctx, 0)
		if !errors.As(err, &refusal) || refusal.Code != wire.CodeUnknownProducerID || refusal.Op != "continue after loss" {
			t.Errorf("got %v", err)
		}
	}
	goesOn(t, build(t, c.Producer("t")), 2, 0, 0) // a new producer can write
}
