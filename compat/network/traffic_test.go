package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/sdk"
)

const (
	topic      = "traffic"
	partitions = 3
	producers  = 4
	perSecond  = 500 // records of each producer
)

// traffic is what runs while the network misbehaves: producers, each over a client of its
// own, and a consumer that follows over another.
type traffic struct {
	tb       testing.TB
	direct   string // the URL of the server without a relay
	clients  []*watched
	senders  []*sdk.Producer
	stop     chan struct{}
	sending  sync.WaitGroup
	reading  sync.WaitGroup
	endRead  context.CancelFunc
	progress chan struct{} // capacity 1: there was an acknowledgement, or a record was read

	mu struct {
		sync.Mutex
		sent    int
		acks    map[string]sdk.Ack
		stored  [producers]int // how many of each producer are acknowledged
		failed  int            // records that did not end as stored
		unknown int            // of these, those whose outcome is unknown
		doubled int            // acknowledged as duplicates
		waits   []time.Duration
		last    time.Time     // of the last acknowledgement
		gap     time.Duration // the longest time without one
		read    history
	}
}

// startTraffic begins to send and read over via, and says so only when both work. Each
// producer ends by itself after so many records; 0 is when finish is called.
func startTraffic(tb testing.TB, direct, via string, limit int) *traffic {
	tb.Helper()
	t := &traffic{tb: tb, direct: direct, stop: make(chan struct{}), progress: make(chan struct{}, 1)}
	t.mu.acks = make(map[string]sdk.Ack)
	t.mu.read = newHistory()
	reader := t.dial(via)
	ctx := waiting(tb)
	if _, err := reader.CreateTopic(ctx, topic, sdk.TopicOptions{Partitions: partitions}); err != nil {
		tb.Fatal(err)
	}
	t.follow(reader)
	for i := range producers {
		p, err := t.dial(via).Producer(topic).Idempotent().BatchBytes(1 << 10).
			Partitioner(func(r *sdk.Record, n int) int { return int(r.Key[0]) % n }).Build(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		t.senders = append(t.senders, p)
		t.sending.Go(func() { t.send(p, i, limit) })
	}
	tb.Cleanup(t.abandon)
	t.awaitAcks(1)
	return t
}

func (t *traffic) dial(via string) *watched {
	t.tb.Helper()
	w := dial(t.tb, via)
	t.clients = append(t.clients, w)
	return w
}

func (t *traffic) follow(c *watched) {
	consumer, err := c.Consumer(topic).Build(waiting(t.tb))
	if err != nil {
		t.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.endRead = cancel
	t.reading.Go(func() {
		for r, err := range consumer.Records(ctx) {
			if errors.Is(err, context.Canceled) {
				return
			}
			if err != nil {
				t.tb.Errorf("consumer: %v", err)
				return
			}
			t.mu.Lock()
			err := t.mu.read.add(r)
			t.mu.Unlock()
			if err != nil {
				t.tb.Errorf("consumer: %v", err)
			}
			signal(t.progress)
		}
	})
}

func (t *traffic) send(p *sdk.Producer, name, limit int) {
	limiter := rate.NewLimiter(perSecond, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	t.sending.Go(func() {
		select {
		case <-t.stop:
			cancel()
		case <-stop:
		}
	})
	for n := 0; limit == 0 || n < limit; n++ {
		if limiter.Wait(ctx) != nil {
			return
		}
		value, begin := fmt.Sprintf("%d:%d", name, n), time.Now()
		t.mu.Lock()
		t.mu.sent++
		t.mu.Unlock()
		record := sdk.Record{Key: []byte{byte(n)}, Value: []byte(value)}
		err := p.SendAsync(context.Background(), record, func(ack sdk.Ack, err error) { t.outcome(name, value, begin, ack, err) })
		if err != nil {
			t.tb.Errorf("send %s: %v", value, err)
			return
		}
	}
}

func (t *traffic) outcome(name int, value string, begin time.Time, ack sdk.Ack, err error) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.last.IsZero() {
		t.mu.gap = max(t.mu.gap, now.Sub(t.mu.last))
	}
	t.mu.last = now
	t.mu.waits = append(t.mu.waits, now.Sub(begin))
	var unknown *sdk.OutcomeUnknown
	switch {
	case errors.As(err, &unknown):
		t.mu.unknown++
		fallthrough
	case err != nil:
		t.mu.failed++
		t.tb.Errorf("record %s: %v", value, err)
	default:
		t.mu.acks[value] = ack
		t.mu.stored[name]++
		if ack.Duplicate {
			t.mu.doubled++
		}
	}
	signal(t.progress)
}

// awaitAcks waits for n more acknowledgements.
func (t *traffic) awaitAcks(n int) {
	t.tb.Helper()
	target := -1
	t.await("acknowledgements", func() bool {
		if target < 0 {
			target = len(t.mu.acks) + n
		}
		return len(t.mu.acks) >= target
	})
}

// awaitEach waits until every producer has n more acknowledgements, and the consumer as many
// records as that makes: until every connection works.
func (t *traffic) awaitEach(n int) {
	t.tb.Helper()
	t.mu.Lock()
	stored, read := t.mu.stored, t.mu.read.records
	t.mu.Unlock()
	t.await("progress on every connection", func() bool {
		for i := range stored {
			if t.mu.stored[i] < stored[i]+n {
				return false
			}
		}
		return t.mu.read.records >= read+n*producers
	})
}

// await waits until ready, which is called with mu held, says so.
func (t *traffic) await(what string, ready func() bool) {
	t.tb.Helper()
	deadline := time.NewTimer(*patience)
	defer deadline.Stop()
	for {
		t.mu.Lock()
		ok := ready()
		t.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-t.progress:
		case <-deadline.C:
			t.mu.Lock()
			defer t.mu.Unlock()
			t.tb.Fatalf("no %s: %d sent, %d acknowledged, %d failed, %d read", what, t.mu.sent, len(t.mu.acks), t.mu.failed, t.mu.read.records)
		}
	}
}

// finish stops the producers, waits for every outcome and for the consumer, and checks all
// that was promised.
func (t *traffic) finish(run *campaign.Run) {
	t.tb.Helper()
	if !t.stopped() {
		close(t.stop)
	}
	t.sending.Wait()
	ctx := waiting(t.tb)
	for _, p := range t.senders {
		if err := p.Flush(ctx); err != nil {
			t.tb.Fatal(err)
		}
	}
	t.await("records at the consumer", func() bool { return t.mu.read.records >= t.mu.sent })
	t.endRead()
	t.reading.Wait()
	stored := readBack(t.tb, t.direct)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.read.check(t.tb, "the consumer", t.mu.acks)
	stored.check(t.tb, "the log", t.mu.acks)
	if t.mu.sent != len(t.mu.acks) {
		t.tb.Errorf("%d records were sent and %d acknowledged", t.mu.sent, len(t.mu.acks))
	}
	run.Count("records", t.mu.sent)
	run.Count("duplicates", t.mu.doubled)
	run.Count("unknown", t.mu.unknown)
	slices.Sort(t.mu.waits)
	n := len(t.mu.waits)
	t.tb.Logf("%d records, %d acknowledged as duplicates; acknowledged after p50 %v, p99 %v, at most %v; longest time without one %v",
		t.mu.sent, t.mu.doubled, t.mu.waits[n/2], t.mu.waits[n*99/100], t.mu.waits[n-1], t.mu.gap)
}

func (t *traffic) stopped() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}

// abandon ends the goroutines of a test that failed on its way.
func (t *traffic) abandon() {
	if !t.stopped() {
		close(t.stop)
	}
	t.sending.Wait()
	t.endRead()
	t.reading.Wait()
}

// lost is how many connections the clients lost so far.
func (t *traffic) lost() (n int) {
	for _, c := range t.clients {
		n += c.count(sdk.EventDisconnected)
	}
	return n
}

// awaitReconnected waits until every client has lost n connections and made one more, and
// says how long after begin the last of them knew of its loss, and was back.
func (t *traffic) awaitReconnected(n int, begin time.Time) (noticed, back time.Duration) {
	t.tb.Helper()
	for _, c := range t.clients {
		noticed = max(noticed, c.await(t.tb, sdk.EventDisconnected, n).Sub(begin))
		back = max(back, c.await(t.tb, sdk.EventConnected, n+1).Sub(begin))
	}
	return noticed, back
}

func (t *traffic) acknowledged() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.acks)
}

// awaitConnections waits until every client has made n connections.
func (t *traffic) awaitConnections(n int) {
	t.tb.Helper()
	for _, c := range t.clients {
		c.await(t.tb, sdk.EventConnected, n)
	}
}

func (t *traffic) connects() (n int) {
	for _, c := range t.clients {
		n += c.count(sdk.EventConnected)
	}
	return n
}
