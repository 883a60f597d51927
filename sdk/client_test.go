package sdk

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// connect is a server, a client of it and a topic "t".
func connect(t *testing.T, partitions int, opts ...DialOption) (context.Context, *Client) {
	t.Helper()
	s := servertest.Start(t, servertest.InMemory())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	c, err := Dial(ctx, s.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	if _, err := c.CreateTopic(ctx, "t", TopicOptions{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	return ctx, c
}

// TestSecondCloseInOnEvent: the first Close waits for OnEvent, so OnEvent must not wait
// for it.
func TestSecondCloseInOnEvent(t *testing.T) {
	clients := make(chan *Client, 1)
	inner := make(chan error, 1)
	ctx, c := connect(t, 1, OnEvent(func(e Event) {
		if e.Kind != EventConnected {
			return
		}
		c := <-clients
		for !c.closing.Load() {
			runtime.Gosched()
		}
		inner <- c.Close(context.Background())
	}))
	clients <- c
	if err := c.Close(ctx); err != nil {
		t.Errorf("outside: %v", err)
	}
	if err := <-inner; !errors.Is(err, ErrClosed) {
		t.Errorf("in OnEvent: %v", err)
	}
}

func TestSecondCloseWaitsNoLongerThanItsContext(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	c := &Client{ended: make(chan struct{})}
	c.closing.Store(true)
	if err := c.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("client: %v", err)
	}
	p := &Producer{topic: "t", closed: make(chan struct{})}
	p.closing.Store(true)
	if _, err := p.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("producer: %v", err)
	}
	close(c.ended)
	if err := c.Close(over); err != nil {
		t.Errorf("client that is closed: %v", err)
	}
}

func TestConsumersOfAClientLeaveStreams(t *testing.T) {
	ctx, c := connect(t, 2)
	if err := c.startReading(maxReading - 2); err != nil {
		t.Fatal(err)
	}
	for range 3 { // a closed one gives its streams back
		consumer, err := c.Consumer("t").Build(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Consumer("t").Partitions(0).Build(ctx); !errors.Is(err, ErrTooManyPartitions) {
			t.Errorf("beside it: %v", err)
		}
		consumer.Close()
		consumer.Close()
	}
}

// openings is a sink that waits for its opening.
type openings chan struct{}

func (o openings) LaneOpened(*wire.LaneOpened)    { close(o) }
func (o openings) LaneRefused(*wire.Error)        {}
func (o openings) LaneResult(*wire.ProduceResult) {}
func (o openings) LaneLost(error)                 {}

var _ transport.LaneSink = openings(nil)

// TestOvertakenOpeningIsNoFence opens the lane of a producer behind its back, as an older
// opening of its own does that reaches the server late.
func TestOvertakenOpeningIsNoFence(t *testing.T) {
	ctx, c := connect(t, 1)
	p, err := c.Producer("t").Idempotent().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if ack, err := p.Send(ctx, Record{Value: []byte("x")}); err != nil || ack.Offset != int64(i) || ack.Sequence != int64(i) {
			t.Fatalf("record %d: %+v, %v", i, ack, err)
		}
		conn, _ := c.transport.Current()
		late := make(openings)
		l, err := conn.NewLane(0, late)
		if err != nil {
			t.Fatal(err)
		}
		sent := batchfmt.Seq(i)
		err = l.Open(&wire.OpenLane{ProducerID: p.identity.ProducerID, Key: p.identity.Key, Epoch: p.identity.Epoch,
			TopicID: p.topicID, Partition: 0, Sent: &sent}, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		<-late
		l.Close()
	}
}
