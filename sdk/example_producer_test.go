package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// ExampleClient_Producer shows the settings that are changed most often. Each has a default.
func ExampleClient_Producer() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()

	producer, err := client.Producer("orders").
		Idempotent().                    // what is sent again is stored once
		Compression(sdk.Zstd).           // smaller batches, more CPU
		Linger(5 * time.Millisecond).    // larger batches, a later outcome
		MaxBuffered(256 << 20).          // rides out longer outages
		DeliveryTimeout(10 * time.Hour). // how long it is tried
		Build(ctx)
	if err != nil {
		log.Fatal(err) // every setting that is wrong, together
	}
	_, err = producer.Send(ctx, sdk.Record{Value: []byte("figs")})
	fmt.Println(err)
	// Output: <nil>
}

// ExampleClient_Producer_plain has no identity. What was handed to the network and has no
// answer is not sent again, as it may be stored, and nobody can find out.
func ExampleClient_Producer_plain() {
	server, client, done := startExample()
	defer done()
	ctx := context.Background()

	producer, err := client.Producer("orders").Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	server.DropAck(1) // the next acknowledgement is lost, and the connection with it
	_, err = producer.Send(ctx, sdk.Record{Value: []byte("figs")})
	var unknown *sdk.OutcomeUnknown
	if errors.As(err, &unknown) {
		fmt.Println("unknown, with a token:", !unknown.Token().IsZero())
	}
	// Output: unknown, with a token: false
}

// ExampleProducerBuilder_Idempotent loses an acknowledgement. The record is sent again, and
// the server knows it.
func ExampleProducerBuilder_Idempotent() {
	server, client, done := startExample()
	defer done()
	ctx := context.Background()

	producer, err := client.Producer("orders").Idempotent().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	server.DropAck(1)
	ack, err := producer.Send(ctx, sdk.Record{Value: []byte("figs")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("offset", ack.Offset, "duplicate", ack.Duplicate)
	// Output: offset 0 duplicate true
}

// ExampleProducerBuilder_RetryMayDuplicate loses the same acknowledgement without an
// identity: the record is stored twice, and nobody notices.
func ExampleProducerBuilder_RetryMayDuplicate() {
	server, client, done := startExample()
	defer done()
	ctx := context.Background()

	producer, err := client.Producer("orders").RetryMayDuplicate().Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	server.DropAck(1)
	ack, err := producer.Send(ctx, sdk.Record{Value: []byte("figs")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("offset", ack.Offset, "duplicate", ack.Duplicate)
	// Output: offset 1 duplicate false
}

// ExampleProducerBuilder_Named takes a producer over, as a program does that is started
// again, here or elsewhere. The holder before can write no more.
func ExampleProducerBuilder_Named() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()

	before, err := client.Producer("orders").Named("checkout-7").Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	now, err := client.Producer("orders").Named("checkout-7").Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same producer:", now.ID() == before.ID(), "epochs:", before.Epoch(), now.Epoch())
	_, err = before.Send(ctx, sdk.Record{Value: []byte("figs")})
	fmt.Println("fenced:", errors.Is(err, sdk.ErrFenced))
	// Output:
	// the same producer: true epochs: 0 1
	// fenced: true
}

// ExampleProducerBuilder_Outbox has its batches on the local disk before they are sent. A
// program that is started again after a crash builds the same producer, and says what it
// found; the client tells what became of that by an EventSettled for each batch.
func ExampleProducerBuilder_Outbox() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "quoin-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	producer, err := client.Producer("orders").Named("checkout-7").Outbox(filepath.Join(dir, "outbox")).Build(ctx)
	if err != nil {
		log.Fatal(err) // sdk.ErrOutboxInUse when another producer has the directory
	}
	found := producer.Found()
	fmt.Println("to be sent again:", found.Pending, "to be settled:", found.Unknown)
	if found.Damage != nil {
		log.Print(found.Damage) // which records of which partition
	}
	ack, err := producer.Send(ctx, sdk.Record{Value: []byte("figs")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("offset", ack.Offset)
	// Output:
	// to be sent again: 0 to be settled: 0
	// offset 0
}

// ExampleProducerBuilder_Position sends the lines of a source. Where it stands is stored
// with the lines, so that the next holder of the name knows where to go on.
func ExampleProducerBuilder_Position() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()
	lines := []string{"apples", "pears", "plums"}

	for range 2 { // as if the program was started twice
		sent := 0
		producer, err := client.Producer("orders").Named("importer").
			Position(func(*sdk.Record) []byte { return strconv.AppendInt(nil, int64(sent), 10) }).Build(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if stored := producer.Position(); stored != nil {
			if sent, err = strconv.Atoi(string(stored)); err != nil {
				log.Fatal(err)
			}
		}
		fmt.Println("begins behind line", sent)
		for _, line := range lines[sent:] {
			sent++
			if _, err := producer.Send(ctx, sdk.Record{Value: []byte(line)}); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// begins behind line 0
	// begins behind line 3
}

// ExampleProducerBuilder_Durability does not wait for the disk. What is acknowledged
// provisionally may be lost in a power cut, for 100 ms or so.
func ExampleProducerBuilder_Durability() {
	_, client, done := startExample()
	defer done()
	ctx := context.Background()

	producer, err := client.Producer("orders").Idempotent().Durability(sdk.Written).Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ack, err := producer.Send(ctx, sdk.Record{Value: []byte("21.5 degrees")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("offset", ack.Offset, "provisional", ack.Provisional)
	// Output: offset 0 provisional true
}
