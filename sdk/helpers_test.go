package sdk_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/servertest"
)

// testTimeout ends a test that hangs, with a message instead of a dump. The flag -patience
// sets it.
var testTimeout = 30 * time.Second

// testContext ends with the test, or when it hangs.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// dial connects a client that is closed before the server stops.
func dial(t testing.TB, s *servertest.Server, opts ...sdk.DialOption) *sdk.Client {
	t.Helper()
	ctx := testContext(t)
	c, err := sdk.Dial(ctx, s.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(closing)
	})
	return c
}

func createTopic(t testing.TB, c *sdk.Client, name string, partitions int) {
	t.Helper()
	if _, err := c.CreateTopic(testContext(t), name, sdk.TopicOptions{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
}

func build(t testing.TB, b *sdk.ProducerBuilder) *sdk.Producer {
	t.Helper()
	p, err := b.Idempotent().Build(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// setUp is a server, a client, a topic "t" and a producer for it.
func setUp(t testing.TB, partitions int, opts ...servertest.Option) (*servertest.Server, *sdk.Client, *sdk.Producer) {
	t.Helper()
	s := servertest.Start(t, opts...)
	c := dial(t, s)
	createTopic(t, c, "t", partitions)
	return s, c, build(t, c.Producer("t"))
}

// startServer starts a server that can be stopped for good.
func startServer(t testing.TB) (*server.Server, func()) {
	t.Helper()
	srv, err := server.Start(server.Config{Data: t.TempDir(), Addr: "127.0.0.1:0", Drain: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	t.Cleanup(stop)
	return srv, stop
}

// readAll reads a topic to its end, by partition.
func readAll(t testing.TB, c *sdk.Client, topic string) map[int][]*sdk.Record {
	t.Helper()
	ctx := testContext(t)
	consumer, err := c.Consumer(topic).StopAtEnd().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	all := make(map[int][]*sdk.Record)
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(len(all[r.Partition])); r.Offset != want {
			t.Fatalf("partition %d gave offset %d where %d was due", r.Partition, r.Offset, want)
		}
		all[r.Partition] = append(all[r.Partition], r)
	}
	return all
}

func values(records []*sdk.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return out
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func value(i int) sdk.Record { return sdk.Record{Value: []byte(fmt.Sprint(i))} }
