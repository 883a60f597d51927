package network

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

// TestSecondCopies sends small batches over a link that loses one packet in ten. Frames come
// as copies before they come themselves, in both directions, and nothing is stored twice: not
// of a plain producer either, of whose records nobody could say afterwards that they are the
// same. A client that wants no copies sends and gets none.
func TestSecondCopies(t *testing.T) {
	t.Parallel()
	run := campaign.Start(t, *seed)
	s := servertest.Start(t)
	r := startRelay(t, s.Running().Addr().String(), *seed)
	r.set(conditions{delay: 10 * time.Millisecond, loss: 0.1})
	with, without := dial(t, r.throughURL(s.URL())), dial(t, r.throughURL(s.URL()), sdk.SecondCopies(false))
	ctx := waiting(t)
	if _, err := with.CreateTopic(ctx, topic, sdk.TopicOptions{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for name, p := range map[string]*sdk.ProducerBuilder{
		"plain": with.Producer(topic), "idempotent": with.Producer(topic).Idempotent(), "once": without.Producer(topic).Idempotent(),
	} {
		producer, err := p.BatchBytes(1).Partitioner(func(r *sdk.Record, n int) int { return int(r.Key[0]) % n }).Build(ctx)
		if err != nil {
			t.Fatal(err)
		}
		limiter := rate.NewLimiter(perSecond, 1)
		for n := range *records / 3 {
			value := fmt.Sprintf("%s:%d", name, n)
			want[value] = 1
			if err := limiter.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if err := producer.SendAsync(ctx, sdk.Record{Key: []byte{byte(n)}, Value: []byte(value)}, func(ack sdk.Ack, err error) {
				if err != nil || ack.Duplicate {
					t.Errorf("%s: %+v, %v", value, ack, err)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for value, n := range readAll(t, ctx, s.URL(), len(want)) {
		if want[value] != n {
			t.Errorf("%q is there %d times", value, n)
		}
	}
	if n := with.count(sdk.EventDisconnected) + without.count(sdk.EventDisconnected); n > 0 {
		t.Errorf("%d connections were lost", n)
	}
	stats := with.Stats()
	t.Logf("%d copies were sent, %d of answers were used", stats.CopiesSent, stats.CopiesUsed)
	if stats.CopiesSent == 0 || stats.CopiesUsed == 0 {
		t.Error("the link loses packets, and copies are of no use")
	}
	if stats := without.Stats(); stats.CopiesSent+stats.CopiesUsed != 0 {
		t.Errorf("without copies %d were sent, %d used", stats.CopiesSent, stats.CopiesUsed)
	}
	run.Count("copies", int(stats.CopiesSent))
	run.Count("records", len(want))
}

// readAll reads so many records of the topic, and those that may stand behind, and counts them
// by their values.
func readAll(t *testing.T, ctx context.Context, url string, atLeast int) map[string]int {
	t.Helper()
	consumer, err := dial(t, url).Consumer(topic).StopAtEnd().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found, n := map[string]int{}, 0
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		found[string(r.Value)]++
		n++
	}
	if n < atLeast {
		t.Errorf("%d records are there, want %d", n, atLeast)
	}
	return found
}
