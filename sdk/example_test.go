package sdk_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

// exampleServer is a server in this process, with a topic "orders"; applications dial
// one that runs elsewhere.
func exampleServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "quoin-example")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.Start(server.Config{Data: dir, Addr: "127.0.0.1:0", Drain: 10 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	client, err := sdk.Dial(ctx, srv.URL())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.CreateTopic(ctx, "orders", sdk.TopicOptions{Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	client.Close(ctx)
	return srv.URL(), func() {
		srv.Shutdown(ctx)
		os.RemoveAll(dir)
	}
}

func ExampleDial() {
	url, stop := exampleServer() // such as quoin://localhost:7733?pin=sha256:...
	defer stop()

	ctx := context.Background()
	client, err := sdk.Dial(ctx, url, sdk.WithClientName("shop"))
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

func ExampleProducer_Send() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	client, err := sdk.Dial(ctx, url)
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
		log.Fatal(err)
	}
	fmt.Printf("partition %d, offset %d\n", ack.Partition, ack.Offset)
	// Output: partition 0, offset 0
}

func ExampleProducer_SendAsync() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	producer, err := client.Producer("orders").Idempotent().Compression(sdk.Snappy).Build(ctx)
	if err != nil {
		log.Fatal(err)
	}

	for _, order := range []string{"apples", "pears", "plums"} {
		err := producer.SendAsync(ctx, sdk.Record{Value: []byte(order)}, func(ack sdk.Ack, err error) {
			if err != nil {
				log.Print(err) // *sdk.OutcomeUnknown when nobody can know
				return
			}
			fmt.Println(order, "at", ack.Offset)
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := producer.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// apples at 0
	// pears at 1
	// plums at 2
}

// ExampleClient_Resolve finds out what became of a record that nobody answered for, at
// once or in another process: the token is all that it takes.
func ExampleClient_Resolve() {
	ctx := context.Background()
	client, err := sdk.Dial(ctx, "quoin://localhost:7733")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	token, err := sdk.ParseToken(os.Getenv("TOKEN")) // what OutcomeUnknown.Token().String() gave
	if err != nil {
		log.Fatal(err)
	}
	found, err := client.Resolve(ctx, token, sdk.Settle())
	if err != nil {
		log.Fatal(err) // there is no answer; try again later
	}
	switch found.Outcome {
	case sdk.ResolveStored:
		fmt.Println("stored at offset", found.Offset)
	case sdk.ResolveNotStored:
		fmt.Println("not stored, for good: it may be sent again")
	default:
		fmt.Println(found.Outcome, found.Reason)
	}
}

func ExampleConsumer_Records() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, order := range []string{"apples", "pears"} {
		if _, err := producer.Send(ctx, sdk.Record{Value: []byte(order)}); err != nil {
			log.Fatal(err)
		}
	}

	consumer, err := client.Consumer("orders").From(sdk.Earliest).StopAtEnd().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	for record, err := range consumer.Records(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %s\n", record.Offset, record.Value)
	}
	// Output:
	// 0: apples
	// 1: pears
}

func ExampleProducer_Close() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := producer.SendAsync(ctx, sdk.Record{Value: []byte("figs")}, nil); err != nil {
		log.Fatal(err)
	}

	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	abandoned, err := producer.Close(bounded)
	for _, lost := range abandoned {
		fmt.Printf("unknown: partition %d, sequences %d to %d\n", lost.Partition, lost.First, lost.Last)
	}
	fmt.Println(len(abandoned), err)
	// Output: 0 <nil>
}
