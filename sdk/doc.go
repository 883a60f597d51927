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
// All settings with their default and their bounds. Each direction has its price: + is what
// more of it costs, or having it at all, and - is what less costs, or doing without. What is
// in brackets is fixed.
//
//	Dial
//	  port in the URL      7733              1 to 65535
//	  WithPin, pin=        none              any number; they replace the check of the chain
//	                       + whoever holds one of the keys is trusted; a new key needs its pin first
//	                       - names, dates and signers of the certificate must be right
//	  WithRootCAs          the system's      a pool of certificates
//	                       + whoever they signed for the host is trusted, and nobody else
//	                       - every authority of the system is trusted
//	  WithCAFile           the system's      a PEM file with one certificate or more, read by Dial
//	                       + as WithRootCAs
//	                       - as WithRootCAs
//	  WithLogger           none              any
//	                       + some lines each time that a connection or a partition has trouble
//	                       - trouble is seen in events, counters and errors only
//	  OnEvent              none              a function; 256 events may wait for it
//	                       + a goroutine; while the function does not return, events are dropped
//	                       - what was unknown is settled without telling, reconnects are not seen
//	  WithHooks            none              any number
//	                       + calls for each batch where the work is done: it waits until they return
//	                       - only Stats, which know nothing of single batches
//	  WithClientName       quoin-go          1 to 255 bytes
//	                       + those bytes once a connection
//	                       - clients look the same to who looks at the server
//	  Connections          1                 1 to 16
//	                       + each a ping a second, up to 64 MiB of receive window, 80 KiB at the server
//	                       - after a packet is lost, more partitions wait and are sent more slowly
//	  SecondCopies         true              true or false
//	                       + while packets are lost: as many bytes again as small frames have
//	                       - a small frame that is lost costs two round trips and more
//	Producer
//	  Idempotent           off               on by this call
//	                       + 28 bytes a batch, one request by Build; readers of version 1 get it converted
//	                       - what has no answer is not sent again, and stays unknown
//	  Named                none              1 to 255 bytes of UTF-8; implies Idempotent
//	                       + a write on the server's disk by Build; fences the holder before
//	                       - the next process has another identity, and cannot go on with this one's
//	  Outbox               none              a directory of its own; needs Named
//	                       + a sync of the local disk for each batch, up to 1 GiB of it
//	                       - what has no outcome when the process dies is lost to it
//	  Position             none              at most 64 bytes; needs Named and one partition
//	                       + up to 72 bytes a batch; a record that is not stored stops the producer
//	                       - where the source stands is kept elsewhere, and may not agree
//	  RetryMayDuplicate    off               on by this call; not with Idempotent
//	                       + records that are stored twice, which nobody notices
//	                       - outcomes that stay unknown
//	  Durability           Synced            Synced, Written
//	                       + Synced: each outcome waits for the server's disk
//	                       - Written: a power cut takes what was acknowledged in the last 100 ms
//	  Compression          NoCompression     NoCompression, Snappy, Zstd
//	                       + CPU here and at readers: some with Snappy, several times that with Zstd
//	                       - bytes on the network, and on the server's disk
//	  MaxBuffered          64 MiB            1 KiB to 64 GiB
//	                       + that memory, and more without an outcome when the process dies
//	                       - Send waits sooner in an outage, or when the link is long
//	  BatchBytes           64 KiB, grows     1 byte to 16 MiB, at most what the topic takes; set, it stays
//	                       + outcomes come later, as a batch has one answer; more to send again
//	                       - each batch has 104 bytes of its own, a packet and an answer; compresses less
//	  Linger               0                 0 to 1 min, below DeliveryTimeout
//	                       + every record waits that long, unless its batch is full before
//	                       - more and smaller batches while the partition is idle
//	  DeliveryTimeout      2 min             10 ms to 7 days
//	                       + bad news comes later, and takes room in the buffer until then
//	                       - shorter outages end records; each time the batch is settled, see above
//	  (to settle then)     a quarter of it   50 ms to 5 s
//	  Partition            by the key        a partition of the topic; not with Partitioner
//	                       + one order, and one partition's speed
//	                       - records have an order only with those of the same key
//	  Partitioner          PartitionForKey   a function; not with Partition
//	                       + it is called for each record, which costs an allocation
//	                       - a key's place is xxhash64; other systems have other places, see Murmur2
//	  (in flight)          5 batches         a partition
//	Consumer
//	  From                 Earliest          Earliest, Latest, At(offset >= 0)
//	                       + an earlier one: more to read before what is new
//	                       - a later one: what stands before it is never seen
//	  Partitions           all, later too    partitions of the topic; 900 over one client
//	                       + each a stream and up to Prefetch of memory
//	                       - nobody reads the others, nor those that the topic gets later
//	  StopAtEnd            off               on by this call
//	                       + what is stored after Build is not seen
//	                       - the loop ends only by its context, Close or an error
//	  Prefetch             4 MiB             64 KiB to 256 MiB, a partition
//	                       + that memory for each, and as much sent in vain when the consumer ends
//	                       - a long link stands still: not more than this comes in a round trip
//	CreateTopic, TopicOptions
//	  Partitions           1                 1 to what the server allows
//	                       + files and memory at the server; order only within each; never less again
//	                       - less is written and read at once
//	  MaxBatchBytes        the server's      0, for that default, to 16 MiB
//	                       + memory for a whole batch, at the server and each reader
//	                       - larger records are refused; more batches
//	  StrictBatchVersion   false             true or false
//	                       + readers that do not know version 2 are refused
//	                       - they get it converted, without producer and sequence, by the server's CPU
//	AlterTopic
//	  SetPartitions        as it is          more than it has
//	                       + a key's records lie in two partitions from then on; never less again
//	                       - as with Partitions of CreateTopic
//	  SetMaxBatchBytes     as it is          0, for the server's default, to 16 MiB
//	                       + as with MaxBatchBytes of CreateTopic
//	                       - batches that are on their way and larger are refused; others are divided
//	  SetStrictBatchVersion  as it is        true or false
//	                       + as with StrictBatchVersion of CreateTopic, for readers that run, too
//	                       - as with StrictBatchVersion of CreateTopic
//	Resolve
//	  Settle               off               on by this call
//	                       + a fence: a producer that lives needs some round trips and two small writes
//	                       - that a batch is not stored yet is no final answer
//
// The package never resends anything under a new number, never drops a record to make
// room, and never reports as failed what may be stored. It links no server, no command
// line and no metrics.
package sdk
