package golden

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// patience bounds each call of a test.
const patience = 30 * time.Second

// noon is the timestamp of the first record of a recording.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// A recorder fills a data directory with what a server of today can leave there.
type recorder struct {
	t      testing.TB
	server *servertest.Server
	client *sdk.Client
	sent   int // records so far, over all topics
}

// record lets a server write a data directory: two topics, batches of version 1 and 2 and
// control batches in between, all codecs that the SDK writes, several segments, snapshots,
// producers with and without a name, of which some have left memory. It gives the directory
// as an archive, and what is in it.
func record(t testing.TB) (archive []byte, said dataMeaning) {
	r := &recorder{t: t}
	r.server = servertest.Start(t, servertest.Busy(4<<10, time.Hour), servertest.Configure(func(c *server.Config) {
		c.SegmentBytes, c.MaxProducers = 6<<10, 2
	}))
	r.client = dial(t, r.server.URL())
	for name, partitions := range map[string]int{"orders": 2, "audit": 1} {
		if _, err := r.client.CreateTopic(r.context(), name, sdk.TopicOptions{Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 4 {
		r.round(round)
	}
	said = dataMeaning{Records: readTopics(t, r.client), Position: storedPosition(t, r.client)}
	r.server.RestartWith(func() { archive = pack(t, r.server.Data()) })
	return archive, said
}

func (r *recorder) context() context.Context { return within(r.t) }

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func dial(t testing.TB, url string) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(within(t)) })
	return client
}

// round writes a bit of everything, so that each kind of batch stands beside each other.
func (r *recorder) round(round int) {
	compressions := []sdk.Compression{sdk.NoCompression, sdk.Snappy, sdk.Zstd}
	compression := compressions[round%len(compressions)]
	for partition := range 2 {
		r.batches(r.client.Producer("orders").Partition(partition).Compression(compression))
		r.batches(r.client.Producer("orders").Idempotent().Partition(partition).Compression(compression))
	}
	r.batches(r.client.Producer("audit"))
	r.named()
	r.fence()
	r.batches(r.client.Producer("audit").Idempotent().Compression(compression))
}

func (r *recorder) build(b *sdk.ProducerBuilder) (p *sdk.Producer, end func()) {
	r.t.Helper()
	p, err := b.Build(r.context())
	if err != nil {
		r.t.Fatal(err)
	}
	return p, func() {
		if left, err := p.Close(r.context()); err != nil || len(left) > 0 {
			r.t.Errorf("close: %v, %v", left, err)
		}
	}
}

// batches sends a few batches by a producer that then closes: the log gets a control batch if
// it was idempotent.
func (r *recorder) batches(b *sdk.ProducerBuilder) {
	r.t.Helper()
	p, end := r.build(b)
	defer end()
	for _, n := range []int{1, 5, 2} {
		if _, err := p.SendBatch(r.context(), r.records(n)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// named sends under a name, and with a position that says how much was sent before.
func (r *recorder) named() {
	r.t.Helper()
	p, end := r.build(billing(r.client, func(*sdk.Record) []byte { return fmt.Appendf(nil, "record %d", r.sent) }))
	defer end()
	if _, err := p.SendBatch(r.context(), r.records(3)); err != nil {
		r.t.Fatal(err)
	}
}

func billing(c *sdk.Client, position func(*sdk.Record) []byte) *sdk.ProducerBuilder {
	return c.Producer("audit").Named("billing").Position(position)
}

func (r *recorder) records(n int) []sdk.Record {
	all := make([]sdk.Record, n)
	for i := range all {
		all[i] = r.next()
	}
	return all
}

// next makes the next record; every form of key, value and headers comes up.
func (r *recorder) next() sdk.Record {
	n := r.sent
	r.sent++
	rec := sdk.Record{
		Key: fmt.Appendf(nil, "key-%d", n), Value: []byte(strings.Repeat(fmt.Sprintf("value %d, ", n), n%7)),
		Timestamp: noon.Add(time.Duration(n*n%1000) * time.Millisecond),
	}
	switch n % 5 {
	case 1:
		rec.Key = nil
	case 2:
		rec.Value, rec.Headers = nil, []sdk.Header{{Key: "trace", Value: []byte{0xde, 0xad}}, {Key: "trace"}}
	case 3:
		rec.Key, rec.Headers = []byte{}, []sdk.Header{{Key: "", Value: []byte{}}}
	}
	return rec
}

// fence has a batch settled as never stored: a connection breaks in front of it, its sender
// does not wait, and the client asks. That leaves a fence in the log.
func (r *recorder) fence() {
	r.t.Helper()
	p, end := r.build(r.client.Producer("audit").Idempotent())
	defer end()
	arrived, gate := make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open() // a server that waits for ever would hide why the test ended
	var once sync.Once
	r.server.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		cut := -1
		if in && k == wire.KindProduce {
			once.Do(func() {
				close(arrived)
				<-gate
				cut = 0
			})
		}
		return cut
	}})
	ctx, cancel := context.WithCancel(r.context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := p.Send(ctx, sdk.Record{Value: []byte("never stored")})
		gaveUp <- err
	}()
	<-arrived
	cancel()
	var unknown *sdk.OutcomeUnknown
	if err := <-gaveUp; !errors.As(err, &unknown) {
		r.t.Fatal(err)
	}
	open()
	// The producer sends this one when the first is settled, under a higher epoch.
	if _, err := p.SendBatch(r.context(), r.records(2)); err != nil {
		r.t.Fatal(err)
	}
	r.server.HookFrames(servertest.FrameHooks{})
}
