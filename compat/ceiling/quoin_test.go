package ceiling

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

func init() { roles["quoin"] = serveQuoin }

// serveQuoin is the product's server as it comes.
func serveQuoin(ctx context.Context, s settings, ready func(greeting) error) error {
	srv, err := server.Start(server.Config{Data: s.Dir, Addr: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	if err := ready(greeting{Addr: srv.URL()}); err != nil {
		return errors.Join(err, srv.Shutdown(context.Background()))
	}
	<-ctx.Done()
	return srv.Shutdown(context.Background())
}

// quoin is an idempotent producer with the defaults of the SDK but for the buffer, which
// holds what is in flight and the next batches and no more: the wait in a large buffer
// would be counted as latency.
type quoin struct {
	server   *child
	client   *sdk.Client
	producer *sdk.Producer
	value    []byte
	acks     latencies
	failed   atomic.Pointer[error]
}

const quoinBuffer = 1 << 20

func startQuoin(b *testing.B) *quoin {
	b.Helper()
	q := &quoin{server: startChild(b, "quoin", settings{Dir: b.TempDir()}), value: make([]byte, recordBytes)}
	rand.Read(q.value)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if q.client, err = sdk.Dial(ctx, q.server.Addr); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { q.client.Close(context.Background()) })
	if _, err := q.client.CreateTopic(ctx, "bench", sdk.TopicOptions{Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	q.producer, err = q.client.Producer("bench").Idempotent().MaxBuffered(quoinBuffer).Build(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := q.saturate(times(warmFrames)); err != nil {
		b.Fatal(err)
	}
	return q
}

// send gives one record, whose latency counts from start.
func (q *quoin) send(start time.Time) error {
	return q.producer.SendAsync(context.Background(), sdk.Record{Value: q.value}, func(_ sdk.Ack, err error) {
		if err != nil {
			q.failed.Store(&err)
			return
		}
		q.acks.record(time.Since(start))
	})
}

// round measures what body sends, to the last acknowledgement.
func (q *quoin) round(body func() (records int, err error)) (outcome, error) {
	q.acks.reset()
	w, err := startWatch(q.server)
	if err != nil {
		return outcome{}, err
	}
	records, err := body()
	if err == nil {
		err = q.producer.Flush(context.Background())
	}
	if failure := q.failed.Load(); failure != nil {
		err = errors.Join(err, *failure)
	}
	if err != nil {
		return outcome{}, err
	}
	o, err := w.stop()
	o.records = records
	return o, err
}

// saturate sends as fast as the buffer takes; an operation is as many records as a frame
// of the bare contender holds.
func (q *quoin) saturate(next func() bool) (outcome, error) {
	o, err := q.round(func() (n int, err error) {
		for next() {
			for range recordsMax {
				if err := q.send(time.Now()); err != nil {
					return n, err
				}
				n++
			}
		}
		return n, nil
	})
	o.batch = q.acks.snapshot()
	return o, err
}

// paced sends perSecond records a second; latency counts from when each was meant to go.
func (q *quoin) paced(next func() bool, perSecond int) (outcome, error) {
	o, err := q.round(func() (n int, err error) {
		err = pace(next, perSecond, func(intended time.Time) error {
			n++
			return q.send(intended)
		})
		return n, err
	})
	o.record = q.acks.snapshot()
	return o, err
}

// BenchmarkQuoin is the product against the ceiling with as many batches in flight: 1 KiB
// records, one partition, each batch synced before its acknowledgement, two processes. An
// operation is a turn of half a second of each.
func BenchmarkQuoin(b *testing.B) {
	versus(b, startQuoin(b).saturate, startBare(b, settings{}, 5).saturate)
}

// BenchmarkQuoinPaced is the same at 10,000 records a second.
func BenchmarkQuoinPaced(b *testing.B) {
	const perSecond = 10_000
	q, bare := startQuoin(b), startBare(b, settings{}, 5)
	versus(b,
		func(next func() bool) (outcome, error) { return q.paced(next, perSecond) },
		func(next func() bool) (outcome, error) { return bare.paced(next, perSecond) })
}

// TestQuoinRound is the smoke test of the benchmark: a short round loses nothing.
func TestQuoinRound(t *testing.T) {
	srv := startChild(t, "quoin", settings{Dir: t.TempDir()})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := sdk.Dial(ctx, srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.CreateTopic(ctx, "bench", sdk.TopicOptions{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer("bench").Idempotent().Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var acked sync.WaitGroup
	for i := range 500 {
		acked.Add(1)
		err := p.SendAsync(ctx, sdk.Record{Value: fmt.Append(nil, i)}, func(_ sdk.Ack, err error) {
			defer acked.Done()
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	acked.Wait()
	topic, err := c.DescribeTopic(ctx, "bench")
	if err != nil || topic.Partitions[0].HighWatermark != 500 {
		t.Fatalf("described %+v, %v", topic, err)
	}
}
