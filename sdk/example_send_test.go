package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

func ExampleProducer_Send() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}

	ack, err := producer.Send(ctx, sdk.Record{Key: []byte("42"), Value: []byte("three apples")})
	var unknown *sdk.OutcomeUnknown
	switch {
	case err == nil:
		fmt.Printf("stored: partition %d, offset %d, sequence %d\n", ack.Partition, ack.Offset, ack.Sequence)
	case errors.As(err, &unknown):
		log.Fatal("it may be stored: ", unknown.Token()) // for Resolve
	default:
		log.Fatal("it is not stored: ", err)
	}
	// Output: stored: partition 0, offset 0, sequence 0
}

func ExampleProducer_SendAsync() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
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

func ExampleProducer_SendBatch() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}

	orders := []sdk.Record{{Value: []byte("apples")}, {Value: []byte("pears")}, {Value: []byte("plums")}}
	acks, err := producer.SendBatch(ctx, orders)
	var some *sdk.BatchError
	if errors.As(err, &some) {
		log.Fatal(some.Errs) // one for each record, nil for those that are stored
	}
	for i, ack := range acks {
		fmt.Printf("%s at %d\n", orders[i].Value, ack.Offset)
	}
	// Output:
	// apples at 0
	// pears at 1
	// plums at 2
}

// ExampleProducer_TrySend does not wait when the buffer is full, as a program that would
// rather drop a reading than stand still.
func ExampleProducer_TrySend() {
	server, client, done := startExample()
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Idempotent().MaxBuffered(1 << 10).Build(ctx)
	if err != nil {
		log.Fatal(err)
	}

	_, release := server.HoldSync() // the disk is slow
	reading := sdk.Record{Value: make([]byte, 400)}
	for range 3 {
		var full *sdk.BufferFullError
		switch err := producer.TrySend(reading, nil); {
		case errors.As(err, &full):
			fmt.Println("full:", full.InUse, "of", full.MaxBuffered, "bytes")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("accepted")
		}
	}
	release()
	if err := producer.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// accepted
	// accepted
	// full: 928 of 1024 bytes
}

func ExampleProducer_Flush() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Idempotent().Linger(time.Minute).Build(ctx)
	if err != nil {
		log.Fatal(err)
	}

	var stored atomic.Int64
	for range 100 {
		err := producer.SendAsync(ctx, sdk.Record{Value: []byte("figs")}, func(_ sdk.Ack, err error) {
			if err == nil {
				stored.Add(1)
			}
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := producer.Flush(ctx); err != nil { // no lingering, and every callback has returned
		log.Fatal(err)
	}
	fmt.Println(stored.Load())
	// Output: 100
}

func ExampleProducer_Close() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := producer.SendAsync(ctx, sdk.Record{Value: []byte("figs")}, nil); err != nil {
		log.Fatal(err)
	}

	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	abandoned, err := producer.Close(bounded)
	for _, lost := range abandoned {
		fmt.Printf("unknown: partition %d, sequences %d to %d\n", lost.Partition, lost.First, lost.Last)
	}
	fmt.Println(len(abandoned), err)
	// Output: 0 <nil>
}
