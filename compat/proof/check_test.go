package proof

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// patience is how long these tests wait for anything; it is never reached by one that passes.
var patience = flag.Duration("patience", 2*time.Minute, "how long to wait for what must come")

// An outcome is what a producer was told about one of its records.
type outcome struct {
	ack sdk.Ack
	err error
}

// A sender gives numbered records to one producer and remembers every outcome.
type sender struct {
	tb       testing.TB
	name     string
	producer *sdk.Producer
	keyed    bool // spread over the partitions by a key of the record's own

	mu       sync.Mutex
	outcomes map[int]outcome
	sent     int
}

func newSender(tb testing.TB, c *sdk.Client, topic, name string, set func(*sdk.ProducerBuilder) *sdk.ProducerBuilder) *sender {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	p, err := set(c.Producer(topic).Idempotent().DeliveryTimeout(*patience)).Build(ctx)
	if err != nil {
		tb.Fatalf("build producer: %v", err)
	}
	return &sender{tb: tb, name: name, producer: p, outcomes: make(map[int]outcome)}
}

// send gives the next record, with text behind what the check needs.
func (s *sender) send(text string) {
	n := s.sent
	s.sent++
	r := sdk.Record{
		Value:   []byte(text),
		Headers: []sdk.Header{{Key: "sender", Value: []byte(s.name)}, {Key: "n", Value: fmt.Append(nil, n)}},
	}
	if s.keyed {
		r.Key = fmt.Append(nil, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	err := s.producer.SendAsync(ctx, r, func(ack sdk.Ack, err error) { s.note(n, outcome{ack, err}) })
	if err != nil {
		s.note(n, outcome{err: err})
	}
}

func (s *sender) note(n int, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, twice := s.outcomes[n]; twice {
		s.tb.Errorf("record %d of %s has two outcomes: %+v and %+v", n, s.name, have, o)
	}
	s.outcomes[n] = o
}

// finish waits for every outcome and closes the producer. All must be stored.
func (s *sender) finish() {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	if err := s.producer.Flush(ctx); err != nil {
		s.tb.Errorf("flush of %s: %v", s.name, err)
	}
	if left, err := s.producer.Close(ctx); err != nil || len(left) > 0 {
		s.tb.Errorf("close of %s: %v, abandoned %+v", s.name, err, left)
	}
	failed := 0
	for n, o := range s.outcomes {
		if o.err != nil {
			if failed++; failed <= 3 {
				s.tb.Errorf("record %d of %s: %v", n, s.name, o.err)
			}
		}
	}
	if len(s.outcomes) != s.sent || failed > 0 {
		s.tb.Errorf("%s sent %d records, has %d outcomes, %d of them failures", s.name, s.sent, len(s.outcomes), failed)
	}
}

// place is where a record stands.
type place struct {
	partition int
	offset    int64
}

// verify reads the whole topic and holds it against what the senders were told: every
// record once, in order per sender and partition, each at the offset of its
// acknowledgement.
func verify(tb testing.TB, url, topic string, senders ...*sender) {
	tb.Helper()
	found := read(tb, url, topic)
	for _, s := range senders {
		places := found[s.name]
		last := make(map[int]place) // by partition: the latest record seen, as (n, offset)
		for n := range s.sent {
			at := places[n]
			switch {
			case len(at) == 0:
				tb.Errorf("record %d of %s is missing", n, s.name)
				continue
			case len(at) > 1:
				tb.Errorf("record %d of %s is there %d times: %v", n, s.name, len(at), at)
			}
			if before, seen := last[at[0].partition]; seen && before.offset > at[0].offset {
				tb.Errorf("record %d of %s at %v stands before an earlier one at %v", n, s.name, at[0], before)
			}
			last[at[0].partition] = at[0]
			if o := s.outcomes[n]; o.err == nil && (o.ack.Partition != at[0].partition || o.ack.Offset != at[0].offset) {
				tb.Errorf("record %d of %s was acknowledged at %d/%d and stands at %v", n, s.name, o.ack.Partition, o.ack.Offset, at[0])
			}
			if tb.Failed() && n > 20 {
				tb.Fatal("enough")
			}
		}
		if len(places) != s.sent {
			tb.Errorf("%s has %d records in the topic, sent %d", s.name, len(places), s.sent)
		}
	}
}

// read returns where each record of each sender stands.
func read(tb testing.TB, url, topic string) map[string]map[int][]place {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	c := dial(tb, url)
	consumer, err := c.Consumer(topic).From(sdk.Earliest).StopAtEnd().Build(ctx)
	if err != nil {
		tb.Fatalf("build consumer: %v", err)
	}
	found := make(map[string]map[int][]place)
	for rec, err := range consumer.Records(ctx) {
		if err != nil {
			tb.Fatalf("read: %v", err)
		}
		var name string
		n := -1
		for _, h := range rec.Headers {
			switch h.Key {
			case "sender":
				name = string(h.Value)
			case "n":
				fmt.Sscan(string(h.Value), &n)
			}
		}
		if found[name] == nil {
			found[name] = make(map[int][]place)
		}
		found[name][n] = append(found[name][n], place{rec.Partition, rec.Offset})
	}
	if err := consumer.Close(); err != nil {
		tb.Errorf("close consumer: %v", err)
	}
	return found
}

// dial connects and lets the connection end with the test.
func dial(tb testing.TB, url string, opts ...sdk.DialOption) *sdk.Client {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	c, err := sdk.Dial(ctx, url, opts...)
	if err != nil {
		tb.Fatalf("dial: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), *patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			tb.Errorf("close client: %v", err)
		}
	})
	return c
}

func createTopic(tb testing.TB, c *sdk.Client, name string, partitions int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	if _, err := c.CreateTopic(ctx, name, sdk.TopicOptions{Partitions: partitions}); err != nil {
		tb.Fatalf("create topic: %v", err)
	}
}

// onePerBatch makes every record a batch of its own.
func onePerBatch(b *sdk.ProducerBuilder) *sdk.ProducerBuilder { return b.BatchBytes(1) }
