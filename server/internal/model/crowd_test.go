package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

// A crowd is a few producers and a consumer of the SDK, which work on the first topic
// while the world does what it does.
type crowd struct {
	w       *world
	client  *sdk.Client
	topic   place // partition 0
	stop    context.CancelFunc
	running sync.WaitGroup
	built   atomic.Int32 // producers since the server's start
	senders atomic.Int32 // since the beginning
	mu      struct {
		sync.Mutex
		unknown []doubt
		settled map[sdk.Token]sdk.Resolution // by events
		listed  map[sdk.Token]bool           // by Close
		dropped bool                         // events were
	}
}

// A doubt is a record whose outcome was told to be unknown.
type doubt struct {
	f       *fact
	token   sdk.Token
	record  int
	awaited bool // its producer was closed later: Close lists it, or it is settled
}

// startCrowd starts n producers and a consumer. end stops them and waits.
func startCrowd(w *world, n int) *crowd {
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{w: w, topic: place{topic: w.topics[0].ID}, stop: cancel}
	c.mu.settled, c.mu.listed = make(map[sdk.Token]sdk.Resolution), make(map[sdk.Token]bool)
	client, err := sdk.Dial(ctx, w.s.URL(), sdk.OnEvent(c.event))
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	c.client = client
	for range n {
		rng := rand.New(rand.NewPCG(w.rng.Uint64(), 2))
		c.running.Go(func() {
			for ctx.Err() == nil {
				c.produce(ctx, rng)
			}
		})
	}
	c.running.Go(func() { c.consume(ctx) })
	return c
}

func (c *crowd) event(e sdk.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case sdk.EventSettled:
		c.mu.settled[e.Token] = e.Resolution
	case sdk.EventDropped:
		c.mu.dropped = true
	}
}

// end stops everybody, and settles what is left unknown. The server must be well.
func (c *crowd) end() {
	if c == nil {
		return
	}
	c.stop()
	c.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), rawclient.Patience)
	defer cancel()
	final := make(map[sdk.Token]sdk.Resolution)
	for _, d := range c.mu.unknown {
		if _, ok := final[d.token]; !ok && !d.token.IsZero() {
			r, err := c.client.Resolve(ctx, d.token, sdk.Settle())
			if refusal, ok := errors.AsType[*sdk.ServerError](err); ok && refusal.Code == wire.CodeProducerLimitReached {
				c.w.seen.add("crowd", "no room to settle")
				break // the lanes of the world's own producers are all in use, and stay so
			}
			if err != nil {
				c.w.t.Errorf("%v was not settled: %v", d.token, err)
				break
			}
			c.w.seen.add("crowd", "unknown, then "+r.Outcome.String())
			final[d.token] = r
		}
		c.w.ref.mu.Lock()
		c.settled(d, final[d.token])
		c.w.ref.mu.Unlock()
	}
	short, done := context.WithTimeout(ctx, time.Second)
	defer done()
	c.client.Close(short)
	c.eventsAgree()
}

// settled takes what was said of a record. The caller has the reference's lock.
func (c *crowd) settled(d doubt, r sdk.Resolution) {
	ref := c.w.ref
	switch r.Outcome {
	case sdk.ResolveStored:
		ref.stored(d.f, batchfmt.Offset(r.OffsetOf(d.record)))
		ref.at(c.at(d.token.Partition())).isThere(d.f)
	case sdk.ResolveNotStored:
		ref.absent(d.f, "it was settled: "+r.Reason)
	case sdk.ResolveUnknowable:
		if !ref.forgettable(ref.at(c.at(d.token.Partition())), batchfmt.ProducerID(d.token.ProducerID())) {
			ref.fail("%s: %v is unknowable (%s), but its lane cannot be forgotten", d.f.what, d.token, r.Reason)
		}
	default:
		if !d.token.IsZero() {
			ref.fail("%s: %v was settled as %v", d.f.what, d.token, r.Outcome)
		}
	}
}

// eventsAgree holds what Close listed and what events said against the rest.
func (c *crowd) eventsAgree() {
	c.w.ref.mu.Lock()
	defer c.w.ref.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.mu.unknown {
		r, told := c.mu.settled[d.token]
		switch {
		case d.token.IsZero():
		case told:
			c.settled(d, r)
		case d.awaited && !told && !c.mu.listed[d.token] && !c.mu.dropped:
			c.w.ref.fail("%s: %v is unknown, and neither settled nor listed by Close", d.f.what, d.token)
		}
	}
}

// lanes is how many lanes the crowd may have open in a partition.
func (c *crowd) lanes() int {
	if c == nil {
		return 0
	}
	return int(c.built.Load())
}

func (c *crowd) newLife() {
	if c != nil {
		c.built.Store(crowdSize) // those that are there come back
	}
}

// crowdSize is how many producers a crowd has at a time.
const crowdSize = 2

func (c *crowd) at(partition int) place {
	return place{topic: c.topic.topic, part: int32(partition)}
}

// A sender is one producer of the crowd, and what it was told.
type sender struct {
	c      *crowd
	p      *sdk.Producer
	number int32
	sent   [2]int // records given to each partition
}

// produce is the life of one producer: some records, in order, to two partitions.
func (c *crowd) produce(ctx context.Context, rng *rand.Rand) {
	timeouts := []time.Duration{150 * time.Millisecond, time.Second, time.Minute}
	c.built.Add(1)
	p, err := c.client.Producer("crowd").Idempotent().
		BatchBytes(20 + rng.IntN(200)).Linger(time.Duration(rng.IntN(2)) * time.Millisecond).
		DeliveryTimeout(timeouts[rng.IntN(len(timeouts))]).
		Partitioner(func(r *sdk.Record, n int) int { return int(r.Key[0]) % n }).Build(ctx)
	if err != nil {
		return // the crowd ends, or the server is going: the next one tries again
	}
	s := &sender{c: c, p: p, number: c.senders.Add(1)}
	for range 1 + rng.IntN(40) {
		if ctx.Err() != nil {
			break
		}
		for range 1 + rng.IntN(12) {
			s.send(ctx, rng)
		}
		// A pace, and no more: what is not out by then goes on.
		flush, done := context.WithTimeout(ctx, time.Duration(5+rng.IntN(100))*time.Millisecond)
		p.Flush(flush)
		done()
	}
	patience := time.Duration(rng.IntN(200)) * time.Millisecond
	closing, done := context.WithTimeout(context.Background(), patience)
	defer done()
	abandoned, _ := p.Close(closing)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range abandoned {
		c.mu.listed[a.Token] = true
	}
	c.w.seen.add("crowd", "producers closed")
}

// send sends one record: mostly without waiting, now and then with a context that ends.
func (s *sender) send(ctx context.Context, rng *rand.Rand) {
	partition := rng.IntN(2)
	s.sent[partition]++
	value := fmt.Sprintf("%s%d/%d/%d", numbered, s.number, partition, s.sent[partition])
	r := sdk.Record{Key: []byte{byte(partition)}, Value: []byte(value)}
	ref := s.c.w.ref
	ref.mu.Lock()
	f := ref.record(value)
	f.open = 1
	ref.mu.Unlock()
	if rng.IntN(30) > 0 {
		err := s.p.SendAsync(ctx, r, func(a sdk.Ack, err error) { s.outcome(f, partition, a, err, true) })
		if err != nil {
			s.outcome(f, partition, sdk.Ack{}, notAccepted{err}, true)
		}
		return
	}
	short, done := context.WithTimeout(ctx, time.Duration(rng.IntN(3))*time.Millisecond)
	defer done()
	a, err := s.p.Send(short, r)
	s.outcome(f, partition, a, err, false)
}

// notAccepted is the error of a record that was never taken.
type notAccepted struct{ error }

// outcome takes what the application was told of a record.
func (s *sender) outcome(f *fact, partition int, a sdk.Ack, err error, final bool) {
	w := s.c.w
	w.ref.mu.Lock()
	defer w.ref.mu.Unlock()
	var unknown *sdk.OutcomeUnknown
	var never *sdk.NotStored
	var refused notAccepted
	switch {
	case err == nil:
		w.seen.add("crowd", "acknowledged")
		if a.Partition != partition {
			w.ref.fail("%s was stored in partition %d", f.what, a.Partition)
		}
		w.ref.stored(f, batchfmt.Offset(a.Offset))
		w.ref.at(s.c.at(partition)).isThere(f)
	case errors.As(err, &unknown):
		w.seen.add("crowd", "unknown")
		s.c.mu.Lock()
		s.c.mu.unknown = append(s.c.mu.unknown, doubt{f: f, token: unknown.Token(), record: unknown.Record, awaited: final})
		s.c.mu.Unlock()
	case errors.As(err, &never):
		w.seen.add("crowd", "not stored")
		w.ref.absent(f, "it was called not stored: "+err.Error())
	case errors.As(err, &refused):
		w.seen.add("crowd", "not accepted")
		w.ref.absent(f, "it was not accepted: "+err.Error())
	default:
		var server *sdk.ServerError
		if errors.As(err, &server) || final {
			w.ref.fail("%s ended with %v", f.what, err)
			return
		}
		w.ref.absent(f, "it was not accepted: "+err.Error()) // ctx was over before the record was taken
	}
}

// consume reads the topic as the crowd's application does, from its beginning.
func (c *crowd) consume(ctx context.Context) {
	consumer, err := c.client.Consumer("crowd").Build(ctx)
	if err != nil {
		c.failed(ctx, err)
		return
	}
	defer consumer.Close()
	next := map[int]int64{}
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			c.failed(ctx, err)
			return
		}
		c.w.seen.add("crowd", "consumed")
		c.w.ref.mu.Lock()
		if r.Offset != next[r.Partition] {
			c.w.ref.fail("the consumer got offset %d of partition %d, want %d", r.Offset, r.Partition, next[r.Partition])
		}
		next[r.Partition] = r.Offset + 1
		c.w.ref.seen(c.at(r.Partition), batchfmt.Offset(r.Offset), string(r.Value))
		c.w.ref.mu.Unlock()
	}
}

func (c *crowd) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.w.ref.mu.Lock()
	defer c.w.ref.mu.Unlock()
	c.w.ref.fail("the consumer ended: %v", err)
}
