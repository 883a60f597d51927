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
//   - a [Client] is one connection, or several, that come back by themselves: see [Dial],
//     [Connections] and [Event].
//   - a [Producer] sends to one topic. Each record ends in exactly one of three: stored,
//     with an [Ack]; certainly not stored, with an error such as *[NotStored]; or
//     *[OutcomeUnknown]. What is sent again is never stored twice.
//   - a [Token] names a batch whose outcome is unknown; [Client.Resolve] finds it out.
//   - a [Consumer] reads a topic from a [Start]; its loop is [Consumer.Records].
//   - a [ServerError] is a refusal of the server, a [DialError] a connection that did not
//     come about.
//
// One rule for contexts: ctx bounds the wait for room in the buffer; once accepted, a
// record lives until its outcome or the delivery timeout. Only [Producer.Send] and
// [Producer.SendBatch], which wait for outcomes, take back at the end of their context what
// was not handed to the network yet.
//
// # When an outcome is unknown
//
// A record that was handed to the network and has no answer may be stored or not. As long
// as there is time, its producer sends it again, which is safe. Three things end that: the
// delivery timeout, [Producer.Close], and the context of a [Producer.Send]. The first two
// ask the server for a final word before they give up, and mostly get one: the record ends
// as stored or as not stored. Only when the server cannot be reached, or cannot answer in
// time, they end it as *[OutcomeUnknown]. A Send whose context ends returns at once, and
// so with *[OutcomeUnknown] in any case. An outcome is unknown too when the server says
// that it lost something, see [Producer.ContinueAfterLoss].
//
// From then on the batch is not sent again. If no answer to it is on its way any more, the
// client settles it by itself as soon as the server can be reached, and until then its
// producer sends nothing to that partition, for the sake of the order. The result is told
// by an [EventSettled]. An application that wants to know without waiting for the event,
// or from another process, has the token:
//
//	var unknown *sdk.OutcomeUnknown
//	if errors.As(err, &unknown) {
//		store(unknown.Token().String()) // it holds a secret
//	}
//
// [Client.Resolve] looks what became of the batch and changes nothing. "Not stored yet" is
// then no final answer, since a copy may be waiting somewhere in the network. With [Settle]
// it is: the server writes a fence, which no copy passes. For that, everything that the
// producer has under way to that partition is refused as well; a living producer raises its
// epoch when it meets the fence, seals anew what is proved not to be stored, in the same
// order, and goes on. It costs three or four round trips and two small writes on disk, and
// is nothing to do in a loop.
//
// # Settings
//
// All settings, their defaults and their bounds:
//
//	Dial
//	  port in the URL        7733          1 to 65535
//	  WithPin, pin=          none          any number; they replace the check of the chain
//	  WithRootCAs, CAFile    system
//	  WithLogger             discards
//	  OnEvent                none          256 events may wait
//	  WithHooks              none          called where the work is done; must return at once
//	  WithClientName         quoin-go      1 to 255 bytes
//	  Connections            1             1 to 16; more for links with loss; each costs memory and a ping a second
//	Producer
//	  Idempotent             off           on: stored once, whatever is sent again; off: not sent again
//	  Named                  none          1 to 255 bytes of UTF-8; implies Idempotent; fences the holder before
//	  Outbox                 none          a directory of its own; needs Named; a local sync for each batch; 1 GiB
//	  Position               none          at most 64 bytes a batch; needs Named and one partition
//	  RetryMayDuplicate      off           only without Idempotent: on trades unknown outcomes for doubles
//	  Durability             Synced        Written: an ack sooner, and a loss window of 100 ms
//	  Compression            none          Snappy, Zstd
//	  MaxBuffered            64 MiB        1 KiB to 64 GiB
//	  BatchBytes             64 KiB, more  1 byte to 16 MiB, at most what the topic takes; set, it does not grow
//	                         with a queue
//	  Linger                 0             0 to 1 min, below DeliveryTimeout
//	  DeliveryTimeout        2 min         10 ms to 7 days
//	  (to settle after it)   1/4 of it     50 ms to 5 s, fixed
//	  Partition              by the key    a partition of the topic; not with Partitioner
//	  Partitioner            by the key    see PartitionForKey; no key: one per batch
//	  (in flight)            5 batches a partition, fixed
//	Consumer
//	  From                   Earliest      Latest, At(offset >= 0)
//	  Partitions             all           partitions of the topic, also later ones; 900 over one client
//	  StopAtEnd              off
//	  Prefetch               4 MiB         64 KiB to 256 MiB a partition
//	CreateTopic
//	  Partitions             1             the server says how many; AlterTopic adds more
//	  MaxBatchBytes          the server's  0 to 16 MiB; AlterTopic changes it
//	  StrictBatchVersion     off           on: a reader that knows no version 2 is refused, not served version 1
//
// The package never resends anything under a new number, never drops a record to make
// room, and never reports as failed what may be stored. It links no server, no command
// line and no metrics.
package sdk
