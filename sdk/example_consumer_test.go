package sdk_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quoin-io/quoin/sdk"
)

// ExampleConsumer_Records reads to the end. Without StopAtEnd the loop waits for more, until
// its context ends.
func ExampleConsumer_Records() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
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
