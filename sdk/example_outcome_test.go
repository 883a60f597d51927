package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// ExampleClient_Resolve finds out what became of a record that nobody answered for, at
// once or in another process: the token is all that it takes.
func ExampleClient_Resolve() {
	server, client, done := startExample()
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := producer.Send(ctx, sdk.Record{Value: []byte("apples")}); err != nil {
		log.Fatal(err)
	}

	impatient, cancel := context.WithCancel(ctx)
	began, release := server.HoldSync() // the disk is slow
	go func() {
		<-began
		cancel()
	}()
	_, err = producer.Send(impatient, sdk.Record{Value: []byte("pears")})
	var unknown *sdk.OutcomeUnknown
	if !errors.As(err, &unknown) {
		log.Fatal(err)
	}
	text := unknown.Token().String() // to be kept like a password
	release()

	token, err := sdk.ParseToken(text)
	if err != nil {
		log.Fatal(err)
	}
	found, err := client.Resolve(ctx, token, sdk.Settle())
	if err != nil {
		log.Fatal(err) // there is no answer; try again
	}
	switch found.Outcome {
	case sdk.ResolveStored:
		fmt.Println("stored at offset", found.OffsetOf(unknown.Record))
	case sdk.ResolveNotStored:
		fmt.Println("not stored, for good: it may be sent again")
	default:
		fmt.Println(found.Outcome, found.Reason)
	}
	// Output: stored at offset 1
}

// ExampleProducer_ContinueAfterLoss meets a power cut that took what was acknowledged
// provisionally. The producer stops and says so; the application decides.
func ExampleProducer_ContinueAfterLoss() {
	server, client, done := startExample(servertest.InMemory())
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Idempotent().Durability(sdk.Written).Build(ctx)
	if err != nil {
		log.Fatal(err)
	}

	_, release := server.HoldSync()
	if _, err := producer.Send(ctx, sdk.Record{Value: []byte("apples")}); err != nil {
		log.Fatal(err)
	}
	server.CrashWith(release)
	_, err = producer.Send(ctx, sdk.Record{Value: []byte("pears")})
	var refusal *sdk.ServerError
	if errors.As(err, &refusal) && errors.Is(err, sdk.ErrDataLoss) {
		fmt.Println("lost from sequence", refusal.Expected)
	}
	if err := producer.ContinueAfterLoss(ctx, 0); err != nil {
		log.Fatal(err)
	}
	ack, err := producer.Send(ctx, sdk.Record{Value: []byte("apples")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("goes on with sequence", ack.Sequence, "at offset", ack.Offset)
	// Output:
	// lost from sequence 0
	// goes on with sequence 0 at offset 0
}

func ExampleClient_DescribeProducers() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Named("checkout-7").Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, order := range []string{"apples", "pears", "plums"} {
		if _, err := producer.Send(ctx, sdk.Record{Value: []byte(order)}); err != nil {
			log.Fatal(err)
		}
	}

	producers, err := client.DescribeProducers(ctx, "orders", 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, lane := range producers.Lanes {
		fmt.Printf("%s: last sequence %d at offset %d, %d batches remembered\n", lane.Name, lane.Last, lane.LastOffset, len(lane.Window))
	}
	// Output: checkout-7: last sequence 2 at offset 2, 3 batches remembered
}
