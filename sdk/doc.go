// Package sdk is what an application imports to use Quoin: a client that stays connected,
// producers whose records are stored in order and once, consumers, and the management of
// topics.
//
//	client, err := sdk.Dial(ctx, "quoin://localhost:7733?pin=sha256:...")
//	if err != nil {
//		return err
//	}
//	defer client.Close(ctx)
//	producer, err := client.Producer("orders").Idempotent().Build(ctx)
//	if err != nil {
//		return err
//	}
//	ack, err := producer.Send(ctx, sdk.Record{Key: []byte("42"), Value: []byte("three apples")})
//	if err != nil {
//		return err
//	}
//	fmt.Println("stored in partition", ack.Partition, "at offset", ack.Offset)
//	return nil
//
// The nouns of the package:
//
//   - a [Client] is a connection that comes back by itself: see [Dial] and [Event].
//   - a [Producer] sends to one topic. Each record ends in exactly one of three: stored,
//     with an [Ack]; certainly not stored, with an error such as *[NotStored]; or
//     *[OutcomeUnknown]. What is sent again is never stored twice.
//   - a [Consumer] reads a topic from a [Start]; its loop is [Consumer.Records].
//   - a [ServerError] is a refusal of the server, a [DialError] a connection that did not
//     come about.
//
// One rule for contexts: ctx bounds the wait for room in the buffer; once accepted, a
// record lives until its outcome or the delivery timeout.
//
// All settings, their defaults and their bounds:
//
//	Dial
//	  port in the URL        7733          1 to 65535
//	  WithPin, pin=          none          any number; they replace the check of the chain
//	  WithRootCAs, CAFile    system
//	  WithLogger             discards
//	  OnEvent                none          256 events may wait
//	  WithClientName         quoin-go      1 to 255 bytes
//	Producer
//	  Idempotent             off           must be on in this release
//	  Compression            none          Snappy, Zstd
//	  MaxBuffered            64 MiB        1 KiB to 64 GiB
//	  BatchBytes             64 KiB        1 byte to 16 MiB, at most what the topic takes
//	  Linger                 0             0 to 1 min, below DeliveryTimeout
//	  DeliveryTimeout        2 min         10 ms to 7 days
//	  Partition              by the key    a partition of the topic; not with Partitioner
//	  Partitioner            by the key    see PartitionForKey; no key: one per batch
//	  (in flight)            5 batches a partition, fixed
//	Consumer
//	  From                   Earliest      Latest, At(offset >= 0)
//	  Partitions             all           partitions of the topic; 900 over one client
//	  StopAtEnd              off
//	  Prefetch               4 MiB         64 KiB to 256 MiB a partition
//	CreateTopic
//	  Partitions             1             the server says how many
//	  MaxBatchBytes          the server's  0 to 16 MiB
//
// The package never resends anything under a new number, never drops a record to make
// room, and never reports as failed what may be stored. It links no server, no command
// line and no metrics.
package sdk
