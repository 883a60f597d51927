package source_test

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/sdk/source"
	"github.com/quoin-io/quoin/server/servertest"
)

// testTimeout ends a test that hangs, with a message instead of a dump.
const testTimeout = 60 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), testTimeout, fmt.Errorf("the test hangs"))
	t.Cleanup(cancel)
	return ctx
}

func dial(t testing.TB, s *servertest.Server, opts ...sdk.DialOption) *sdk.Client {
	t.Helper()
	c, err := sdk.Dial(testContext(t), s.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(closing)
	})
	return c
}

// setUp is a server with the topic "t", and a client.
func setUp(t testing.TB, partitions int, opts ...servertest.Option) (*servertest.Server, *sdk.Client) {
	t.Helper()
	s := servertest.Start(t, opts...)
	c := dial(t, s)
	if _, err := c.CreateTopic(testContext(t), "t", sdk.TopicOptions{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// A counter gives the numbers 1 to last, in items of one to three records. Its position is
// the last number.
type counter struct {
	last int
	// before, when there is one, is called before an item is given; its error is given instead.
	before func(ctx context.Context, n int) error
	reads  []string // the positions from which it was read
	deaf   bool     // it forgets from where it is read, as no source may
}

func (s *counter) Read(ctx context.Context, from source.Position) iter.Seq2[source.Item, error] {
	return func(yield func(source.Item, error) bool) {
		s.reads = append(s.reads, string(from))
		n := 0
		if from != nil && !s.deaf {
			n = number(from)
		}
		position := make([]byte, 0, 20) // used again for every item
		for n < s.last && ctx.Err() == nil {
			if s.before != nil {
				if err := s.before(ctx, n+1); err != nil {
					yield(source.Item{}, err)
					return
				}
			}
			var records []sdk.Record
			for range min(1+n%3, s.last-n) {
				n++
				records = append(records, value(n))
			}
			position = strconv.AppendInt(position[:0], int64(n), 10)
			if !yield(source.Item{Records: records, Position: position}, nil) {
				return
			}
		}
	}
}

func number(b []byte) int {
	n, err := strconv.Atoi(string(b))
	if err != nil {
		panic(err)
	}
	return n
}

func value(n int) sdk.Record { return sdk.Record{Value: strconv.AppendInt(nil, int64(n), 10)} }

// stored is what a partition holds, in order.
func stored(t testing.TB, c *sdk.Client, partition int) []string {
	t.Helper()
	ctx := testContext(t)
	consumer, err := c.Consumer("t").Partitions(partition).StopAtEnd().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	var all []string
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(r.Value))
	}
	return all
}

// onceInOrder says what is wrong with a log that has to hold the numbers 1 to last.
func onceInOrder(all []string, last int) error {
	for i, text := range all {
		if text != strconv.Itoa(i+1) {
			return fmt.Errorf("%d of %d records: %s stands where %d should", i, len(all), text, i+1)
		}
	}
	if len(all) != last {
		return fmt.Errorf("%d records are stored, not %d", len(all), last)
	}
	return nil
}

func wantLog(t testing.TB, c *sdk.Client, last int) {
	t.Helper()
	if err := onceInOrder(stored(t, c, 0), last); err != nil {
		t.Error(err)
	}
}

// quick are options for tests that fail often: short pauses, and soon a failure.
func quick(delivery time.Duration) source.Option {
	return func(c *source.Config) {
		source.Backoff(time.Millisecond, 20*time.Millisecond)(c)
		source.CloseTimeout(delivery)(c)
		source.Producer(func(b *sdk.ProducerBuilder) { b.DeliveryTimeout(delivery).BatchBytes(300).MaxBuffered(8 << 10) })(c)
	}
}
