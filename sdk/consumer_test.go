package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// fill sends the numbers from..to-1 to partition 0.
func fill(t testing.TB, p *sdk.Producer, from, to int) {
	t.Helper()
	ctx := testContext(t)
	for i := from; i < to; i++ {
		if err := p.SendAsync(ctx, value(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// take reads n records.
func take(t testing.TB, c *sdk.Consumer, n int) []string {
	t.Helper()
	var got []string
	for r, err := range c.Records(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(r.Value))
		if len(got) == n {
			break
		}
	}
	return got
}

func consume(t testing.TB, b *sdk.ConsumerBuilder) *sdk.Consumer {
	t.Helper()
	c, err := b.Build(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestConsumerStarts(t *testing.T) {
	_, c, p := setUp(t, 1)
	fill(t, p, 0, 10)
	latest := consume(t, c.Consumer("t").From(sdk.Latest))
	middle := consume(t, c.Consumer("t").From(sdk.At(7)))
	end := consume(t, c.Consumer("t").From(sdk.At(10)).StopAtEnd())
	fill(t, p, 10, 12)
	if diff := cmp.Diff(numbers(10, 12), take(t, latest, 2)); diff != "" {
		t.Errorf("latest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(numbers(7, 12), take(t, middle, 5)); diff != "" {
		t.Errorf("in the middle of a batch (-want +got):\n%s", diff)
	}
	if got := middle.Position(0); got != 12 {
		t.Errorf("position %d", got)
	}
	if got := middle.Position(9); got != -1 {
		t.Errorf("position of a partition that is not read: %d", got)
	}
	if got := take(t, end, 1); len(got) != 0 {
		t.Errorf("at the end: %v", got)
	}
	if _, err := c.Consumer("t").From(sdk.At(99)).Build(testContext(t)); !errors.Is(err, sdk.ErrOffsetOutOfRange) {
		t.Errorf("behind the end: %v", err)
	}
	if _, err := c.Consumer("t").Partitions(1).Build(testContext(t)); !errors.Is(err, sdk.ErrUnknownPartition) {
		t.Errorf("partition that does not exist: %v", err)
	}
	if _, err := c.Consumer("gone").Build(testContext(t)); !errors.Is(err, sdk.ErrUnknownTopic) {
		t.Errorf("topic that does not exist: %v", err)
	}
}

func TestStopAtEndStopsWhereTheEndWas(t *testing.T) {
	s, c, p := setUp(t, 1)
	fill(t, p, 0, 10)
	consumer := consume(t, c.Consumer("t").StopAtEnd())
	if diff := cmp.Diff(numbers(0, 3), take(t, consumer, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fill(t, p, 10, 20)
	s.CutConnection()
	if diff := cmp.Diff(numbers(3, 10), take(t, consumer, 100)); diff != "" {
		t.Errorf("a second loop goes on to the old end (-want +got):\n%s", diff)
	}
	if got := take(t, consumer, 1); len(got) != 0 {
		t.Errorf("behind the end: %v", got)
	}
}

func TestConsumerGoesOnAfterLosses(t *testing.T) {
	s, c, p := setUp(t, 2)
	p = build(t, c.Producer("t").BatchBytes(200).Partitioner(func(r *sdk.Record, n int) int { return len(r.Value) % n }))
	consumer := consume(t, c.Consumer("t").Prefetch(64<<10))
	ctx := testContext(t)
	const records = 3000
	go func() {
		for i := range records {
			if p.SendAsync(ctx, value(i), nil) != nil {
				return
			}
		}
	}()
	var last [2]int64
	seen := make(map[string]bool)
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != last[r.Partition] {
			t.Fatalf("partition %d gave offset %d where %d was due", r.Partition, r.Offset, last[r.Partition])
		}
		last[r.Partition]++
		seen[string(r.Value)] = true
		switch n := len(seen); {
		case n == records/2:
			s.Restart()
		case n%500 == 0:
			s.CutConnection()
		}
		if len(seen) == records {
			break
		}
	}
	if last[0]+last[1] != records {
		t.Errorf("%d records were given", last[0]+last[1])
	}
}

// TestCreditIsGivenBack reads much more than the credit, and records stay what they were.
func TestCreditIsGivenBack(t *testing.T) {
	for _, compression := range []sdk.Compression{sdk.NoCompression, sdk.Snappy} {
		t.Run(compression.String(), func(t *testing.T) {
			_, c, _ := setUp(t, 1)
			p := build(t, c.Producer("t").Compression(compression).BatchBytes(20000))
			ctx := testContext(t)
			const records = 500
			for i := range records {
				body := fmt.Appendf(nil, "%04d", i)
				for range 250 {
					body = fmt.Appendf(body, "%x", i*7919)
				}
				if err := p.SendAsync(ctx, sdk.Record{Value: body}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			consumer := consume(t, c.Consumer("t").StopAtEnd().Prefetch(64<<10))
			var kept []*sdk.Record
			for r, err := range consumer.Records(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, r)
			}
			if len(kept) != records {
				t.Fatalf("%d records", len(kept))
			}
			for i, r := range kept {
				if got := string(r.Value[:4]); got != fmt.Sprintf("%04d", i) {
					t.Fatalf("record %d turned into %s", i, got)
				}
			}
		})
	}
}

// TestCreditIsGivenBackAfterLosses reads many times the credit while connections are cut,
// with chunks of older subscriptions still waiting.
func TestCreditIsGivenBackAfterLosses(t *testing.T) {
	s, c, p := setUp(t, 1, servertest.InMemory())
	const records = 1000
	ctx := testContext(t)
	for range records {
		if err := p.SendAsync(ctx, sdk.Record{Value: make([]byte, 1000)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	consumer := consume(t, c.Consumer("t").Prefetch(64<<10).StopAtEnd())
	next := int64(0)
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != next {
			t.Fatalf("offset %d follows %d", r.Offset, next-1)
		}
		if next++; next%100 == 50 {
			s.CutConnection()
		}
	}
	if next != records {
		t.Errorf("%d records", next)
	}
}

func TestRecordsEnds(t *testing.T) {
	_, c, p := setUp(t, 1)
	fill(t, p, 0, 1)
	consumer := consume(t, c.Consumer("t"))
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var errs []error
	for _, err := range consumer.Records(ctx) {
		if err != nil {
			errs = append(errs, err)
		}
		cancel()
	}
	if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("with its context: %v", errs)
	}
	errs = nil
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		consumer.Close()
	}()
	for _, err := range consumer.Records(testContext(t)) {
		errs = append(errs, err)
	}
	<-closed
	if len(errs) != 1 || !errors.Is(errs[0], sdk.ErrClosed) {
		t.Errorf("with Close: %v", errs)
	}
	if err := consumer.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestRecordsRefusesASecondLoopAtOnce(t *testing.T) {
	_, c, p := setUp(t, 1)
	fill(t, p, 0, 1)
	consumer := consume(t, c.Consumer("t"))
	ctx := testContext(t)
	for range consumer.Records(ctx) {
		for _, err := range consumer.Records(ctx) {
			if err == nil {
				t.Error("both run")
			}
		}
		break
	}
}

func TestDeletedTopicEndsTheConsumer(t *testing.T) {
	_, c, p := setUp(t, 2)
	fill(t, p, 0, 5)
	consumer := consume(t, c.Consumer("t"))
	take(t, consumer, 5)
	ctx := testContext(t)
	if err := c.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var errs []error
		for _, err := range consumer.Records(ctx) {
			errs = append(errs, err)
		}
		if len(errs) != 1 || !errors.Is(errs[0], sdk.ErrUnknownTopic) {
			t.Errorf("got %v", errs)
		}
	}
}

func TestConsumerPartitionsAreMerged(t *testing.T) {
	_, c, _ := setUp(t, 5)
	p := build(t, c.Producer("t").Partitioner(func(r *sdk.Record, n int) int { return int(r.Value[0]) % n }))
	ctx := testContext(t)
	for i := range 100 {
		if _, err := p.Send(ctx, sdk.Record{Value: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	consumer := consume(t, c.Consumer("t").Partitions(1, 3).StopAtEnd())
	var got []int
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, int(r.Value[0]))
	}
	slices.Sort(got)
	var want []int
	for i := range 100 {
		if i%5 == 1 || i%5 == 3 {
			want = append(want, i)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
