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

var (
	// patience is how long these tests wait for anything; it is never reached by one that passes.
	patience = flag.Duration("patience", 2*time.Minute, "how long to wait for what must come")
	// seed is for all that these tests leave to chance and can choose themselves. What two
	// processes do to each other is not repeated by it.
	seed = flag.Uint64("seed", 20261, "of the choices that campaigns make")
)

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
	fresh    []int // whose outcomes came since takeAcknowledged
	sent     int
	over     int // how many were sent when the topic was deleted
	awaited  *awaited
}

// awaited is closed when a record that is not before from was stored.
type awaited struct {
	from   int
	stored chan struct{}
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
func (s *sender) send(text string) { s.sendThen(text, func() {}) }

// sendThen is send that calls decided when the record has its outcome. A record that is
// not even accepted has that for its outcome, and is returned as an error as well.
func (s *sender) sendThen(text string, decided func()) error {
	s.mu.Lock()
	n := s.sent
	s.sent++
	s.mu.Unlock()
	r := sdk.Record{
		Value:   []byte(text),
		Headers: []sdk.Header{{Key: "sender", Value: []byte(s.name)}, {Key: "n", Value: fmt.Append(nil, n)}},
	}
	if s.keyed {
		r.Key = fmt.Append(nil, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	err := s.producer.SendAsync(ctx, r, func(ack sdk.Ack, err error) {
		s.note(n, outcome{ack, err})
		decided()
	})
	if err != nil {
		s.note(n, outcome{err: err})
		decided()
	}
	return err
}

func (s *sender) note(n int, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, twice := s.outcomes[n]; twice {
		s.tb.Errorf("record %d of %s has two outcomes: %+v and %+v", n, s.name, have, o)
	}
	s.outcomes[n] = o
	s.fresh = append(s.fresh, n)
	if a := s.awaited; a != nil && n >= a.from && o.err == nil {
		s.awaited = nil
		close(a.stored)
	}
}

// nextStored is closed when a record is stored that is sent from now on. It is for one
// caller at a time.
func (s *sender) nextStored() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = &awaited{from: s.sent, stored: make(chan struct{})}
	return s.awaited.stored
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
	l := newLedger(topic)
	l.read(tb, url)
	return l.found
}

// A ledger is what was read of a topic so far. Reading goes on where it stopped, so that
// a long run can be checked again and again.
type ledger struct {
	topic string
	next  map[int]int64 // by partition
	found map[string]map[int][]place
	fresh []sighting       // read since the last check
	last  map[sighting]int // by sender and partition: the latest record checked
}

func newLedger(topic string) *ledger {
	return &ledger{topic: topic, next: make(map[int]int64), found: make(map[string]map[int][]place), last: make(map[sighting]int)}
}

// read takes in everything that has become durable since.
func (l *ledger) read(tb testing.TB, url string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	c, err := sdk.Dial(ctx, url)
	if err != nil {
		tb.Fatalf("dial: %v", err)
	}
	defer c.Close(ctx)
	t, err := c.DescribeTopic(ctx, l.topic)
	if err != nil {
		tb.Fatalf("describe: %v", err)
	}
	for n := range t.Partitions {
		consumer, err := c.Consumer(l.topic).Partitions(n).From(sdk.At(l.next[n])).StopAtEnd().Build(ctx)
		if err != nil {
			tb.Fatalf("build consumer: %v", err)
		}
		for rec, err := range consumer.Records(ctx) {
			if err != nil {
				tb.Fatalf("read: %v", err)
			}
			if rec.Offset != l.next[n] {
				tb.Fatalf("partition %d: offset %d follows %d", n, rec.Offset, l.next[n]-1)
			}
			l.next[n]++
			l.note(rec)
		}
		if err := consumer.Close(); err != nil {
			tb.Errorf("close consumer: %v", err)
		}
	}
}

func (l *ledger) note(rec *sdk.Record) {
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
	if l.found[name] == nil {
		l.found[name] = make(map[int][]place)
	}
	l.found[name][n] = append(l.found[name][n], place{rec.Partition, rec.Offset})
	l.fresh = append(l.fresh, sighting{name, n, rec.Partition})
}

// A sighting is a record that was read and not checked yet.
type sighting struct {
	name      string
	n         int
	partition int
}

// checkSoFar reads on and holds what is new against what the senders were told by now:
// nothing acknowledged is missing or elsewhere, nothing is there twice, and the records
// of a sender are in order in each partition. What has no acknowledgement may be missing.
// It looks at what is new only, so that a long run stays linear; verify reads all again.
func (l *ledger) checkSoFar(tb testing.TB, url string, senders ...*sender) {
	tb.Helper()
	acked := make([]map[int]place, len(senders))
	for i, s := range senders { // before the read: later ones may be acknowledged after it
		acked[i] = s.takeAcknowledged()
	}
	l.read(tb, url)
	for i, s := range senders {
		for n, want := range acked[i] {
			if at := l.found[s.name][n]; len(at) != 1 || at[0] != want {
				tb.Fatalf("record %d of %s was acknowledged at %v and stands at %v", n, s.name, want, at)
			}
		}
	}
	for _, f := range l.fresh {
		l.checkOrder(tb, f)
	}
	l.fresh = l.fresh[:0]
}

// checkOrder wants each record at most once, and behind those that were given before it.
func (l *ledger) checkOrder(tb testing.TB, f sighting) {
	tb.Helper()
	if at := l.found[f.name][f.n]; len(at) > 1 {
		tb.Fatalf("record %d of %s is there %d times: %v", f.n, f.name, len(at), at)
	}
	lane := sighting{name: f.name, partition: f.partition}
	if last, seen := l.last[lane]; seen && last >= f.n {
		tb.Fatalf("record %d of %s stands behind record %d in partition %d", f.n, f.name, last, f.partition)
	}
	l.last[lane] = f.n
}

// takeAcknowledged is what the sender was told to be stored since the last call.
func (s *sender) takeAcknowledged() map[int]place {
	s.mu.Lock()
	defer s.mu.Unlock()
	acked := make(map[int]place, len(s.fresh))
	for _, n := range s.fresh {
		if o := s.outcomes[n]; o.err == nil {
			acked[n] = place{o.ack.Partition, o.ack.Offset}
		}
	}
	s.fresh = s.fresh[:0]
	return acked
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
