package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// startExample starts a real server in this process, with a topic "orders", and connects a
// client. Applications dial a server that runs elsewhere.
func startExample(opts ...servertest.Option) (server *servertest.Server, client *sdk.Client, done func()) {
	tb := &exampleTB{}
	server = servertest.Start(tb, opts...)
	ctx := context.Background()
	client, err := sdk.Dial(ctx, server.URL())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.CreateTopic(ctx, "orders", sdk.TopicOptions{Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	return server, client, func() {
		client.Close(ctx)
		tb.end()
	}
}

// An exampleTB is as much of a test as servertest needs, since examples have none.
type exampleTB struct {
	testing.TB // nil: servertest calls nothing but the methods below
	cleanups   []func()
}

func (e *exampleTB) Helper()                           {}
func (e *exampleTB) Logf(string, ...any)               {}
func (e *exampleTB) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (e *exampleTB) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }

func (e *exampleTB) TempDir() string {
	dir, err := os.MkdirTemp("", "quoin-example-")
	if err != nil {
		log.Fatal(err)
	}
	e.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (e *exampleTB) end() {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		e.cleanups[i]()
	}
}

// Example sends a record and says where it is stored.
func Example() {
	server, _, done := startExample()
	defer done()
	ctx := context.Background()

	client, err := sdk.Dial(ctx, server.URL()) // such as quoin://localhost:7733?pin=sha256:...
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := producer.Send(ctx, sdk.Record{Key: []byte("42"), Value: []byte("three apples")})
	if err != nil {
		log.Fatal(err) // stored, not stored, or *sdk.OutcomeUnknown: never a guess
	}
	fmt.Println("stored in partition", ack.Partition, "at offset", ack.Offset)
	// Output: stored in partition 0 at offset 0
}

func ExampleDial() {
	server, _, done := startExample()
	defer done()
	ctx := context.Background()

	client, err := sdk.Dial(ctx, server.URL(), sdk.WithClientName("shop"))
	if err != nil {
		log.Fatal(err) // says whether the name, the network, the certificate or the version is wrong
	}
	defer client.Close(ctx)
	topics, err := client.ListTopics(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, topic := range topics {
		fmt.Println(topic.Name, len(topic.Partitions))
	}
	// Output: orders 1
}

// ExampleConnections keeps four connections, for a link that loses packets. Dial returns
// with the first; the others follow.
func ExampleConnections() {
	server, _, done := startExample()
	defer done()
	ctx := context.Background()

	all := make(chan struct{})
	allAreThere := sync.OnceFunc(func() { close(all) }) // a connection may come back
	client, err := sdk.Dial(ctx, server.URL(), sdk.Connections(4), sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventConnected && e.Live == 4 {
			allAreThere()
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	<-all
	fmt.Println("all are there")
	// Output: all are there
}

func ExampleClient_CreateTopic() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()

	topic, err := client.CreateTopic(ctx, "payments", sdk.TopicOptions{Partitions: 4, MaxBatchBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(topic.Name, len(topic.Partitions), topic.MaxBatchBytes)
	_, err = client.CreateTopic(ctx, "payments", sdk.TopicOptions{})
	fmt.Println("is there already:", errors.Is(err, sdk.ErrTopicExists))
	// Output:
	// payments 4 1048576
	// is there already: true
}
