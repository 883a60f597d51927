package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/buffers"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/counters"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// Memory for frames, over all connections.
const (
	inBudget  = 256 << 20 // batches between their arrival and the log
	outBudget = 128 << 20 // batches on their way to readers
)

// openAtOnce is how many partitions are recovered at the same time.
const openAtOnce = 16

// Config is what a broker is made of. Data, FS, Now and Log are required.
type Config struct {
	Data      string // directory
	FS        vfs.FS // holds the partitions; the catalog is always with the operating system
	Now       func() time.Time
	Log       *slog.Logger
	Segments  seglog.Config
	Producers producerstate.Limits
	// IdleAfter and MaxRetired are those of the partitions.
	IdleAfter  time.Duration
	MaxRetired int
	Uptime     func() time.Duration // of the process; default: since Open
	Counters   *counters.Set
	// SnapshotBytes is that of the partitions, and IdleEvery how often idle producers are
	// looked for. Default once a minute.
	SnapshotBytes int
	IdleEvery     time.Duration
	// ScrubEvery is the pause between two passes over all stored data. Default
	// DefaultScrubEvery; negative for none.
	ScrubEvery time.Duration
}

// DefaultScrubEvery is the pause between two passes over all stored data.
const DefaultScrubEvery = 24 * time.Hour

// A Broker is open from Open to Close or Abandon. Its methods may be called from any
// goroutine.
type Broker struct {
	cfg     Config
	catalog *catalog.Catalog
	in, out *buffers.Pool

	background struct {
		stop    context.CancelFunc
		running sync.WaitGroup
	}

	// admin is held while a topic is made, altered or deleted, so that what the catalog says and
	// what is open change together. It is taken before mu.
	admin sync.Mutex
	mu    struct {
		sync.RWMutex
		topics  map[catalog.TopicID]*topic
		changed func(*wire.TopicChanged) // see Watch
	}
	grants struct {
		sync.Mutex
		holdings map[batchfmt.ProducerID][]*holding
		takers   map[string]taker // by name
	}
}

// A topic is one that is open. It is never changed: one that is altered is another one, with
// what lives on in both.
type topic struct {
	catalog.Topic
	live  *live
	slots []*slot // by number
}

// live is what of a topic stays the same thing when it is altered.
type live struct {
	maxBatch atomic.Int64
	strict   atomic.Bool
	readers  readers
}

// Open opens the catalog, finishes what a crash left half done, and recovers every
// partition. One that cannot be recovered is not served, and keeps nobody from the others.
func Open(cfg Config) (*Broker, error) {
	if cfg.IdleEvery <= 0 {
		cfg.IdleEvery = defaultIdleEvery
	}
	if cfg.ScrubEvery == 0 {
		cfg.ScrubEvery = DefaultScrubEvery
	}
	cat, err := catalog.Open(cfg.Data, catalog.Options{Now: cfg.Now})
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, catalog: cat, in: buffers.NewPool(inBudget), out: buffers.NewPool(outBudget)}
	b.mu.topics = make(map[catalog.TopicID]*topic)
	b.grants.holdings = make(map[batchfmt.ProducerID][]*holding)
	b.grants.takers = make(map[string]taker)
	if err := errors.Join(b.checkCatalog(), b.finishDeletes()); err != nil {
		return nil, errors.Join(err, cat.Close())
	}
	b.openTopics()
	b.startBackground()
	return b, nil
}

// ErrCatalogLost says that there are logs and no catalog that knows them.
var ErrCatalogLost = errors.New("the catalog is missing although there are topics: restore it from a backup, " +
	"as a new one would give producer ids a second time")

// checkCatalog refuses to go on with a new catalog beside old logs.
func (b *Broker) checkCatalog() error {
	if !b.catalog.Created() {
		return nil
	}
	names, err := b.cfg.FS.List(filepath.Join(b.cfg.Data, "topics"))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0:
		return nil
	case err != nil:
		return err
	}
	// The next start must not find a catalog and take it for the right one.
	return errors.Join(ErrCatalogLost, os.Remove(filepath.Join(b.cfg.Data, catalog.FileName)))
}

func (b *Broker) finishDeletes() error {
	if planted.LeftDeletes {
		return nil
	}
	pending, err := b.catalog.PendingDeletes()
	if err != nil {
		return err
	}
	for _, t := range pending {
		if err := b.removeTopic(t.ID); err != nil {
			return fmt.Errorf("finish deletion of topic %q: %w", t.Name, err)
		}
	}
	return nil
}

// openTopics opens what can be opened. The rest is said loudly, and tried again later.
func (b *Broker) openTopics() {
	for _, t := range b.catalog.Topics() {
		open := newTopic(t)
		for _, err := range b.openSlots(open, 0) {
			b.cfg.Log.Error("partition could not be opened and is not served", "topic", t.Name, "error", err)
		}
		b.mu.topics[t.ID] = open
	}
}

func newTopic(t catalog.Topic) *topic {
	open := &topic{Topic: t, live: new(live)}
	open.addSlots()
	open.live.set(t.Config)
	return open
}

// addSlots makes room for partitions that have none.
func (t *topic) addSlots() {
	for len(t.slots) < int(t.Partitions) {
		t.slots = append(t.slots, new(slot))
	}
}

func (l *live) set(cfg catalog.TopicConfig) {
	l.maxBatch.Store(int64(cfg.MaxBatchBytes))
	l.strict.Store(cfg.Strict)
}

// openTopic opens all partitions of t, or none.
func (b *Broker) openTopic(t catalog.Topic) (*topic, error) {
	open := newTopic(t)
	if errs := b.openSlots(open, 0); len(errs) > 0 {
		errs = append(errs, open.close(wire.Errorf(wire.CodeShutdown, "the topic could not be opened")))
		return nil, errors.Join(errs...)
	}
	return open, nil
}

func (b *Broker) openPartition(t *topic, n int32) (*partition.Partition, error) {
	return partition.Open(partition.Config{
		Topic: t.Name, TopicID: t.ID, Number: n,
		FS: b.cfg.FS, Dir: b.partitionDir(t.ID, n),
		Log: b.cfg.Segments, Producers: b.cfg.Producers, MaxBatchBytes: &t.live.maxBatch,
		NextTerm: func(after batchfmt.Term) (batchfmt.Term, error) {
			return b.catalog.NextTerm(t.ID, n, after)
		},
		LastProducerID: b.catalog.LastProducerID, Named: b.hasName,
		IdleAfter: b.cfg.IdleAfter, MaxRetired: b.cfg.MaxRetired, SnapshotBytes: b.cfg.SnapshotBytes,
		Now: b.cfg.Now, Uptime: b.cfg.Uptime, Counters: b.cfg.Counters, Logger: b.cfg.Log,
	})
}

func (b *Broker) topicDir(id catalog.TopicID) string {
	return filepath.Join(b.cfg.Data, "topics", id.String())
}

func (b *Broker) partitionDir(id catalog.TopicID, n int32) string {
	return filepath.Join(b.topicDir(id), fmt.Sprint(n))
}

// close closes all partitions that are open.
func (t *topic) close(why *wire.Error) error { return closeSlots(t.slots, why) }

func closeSlots(slots []*slot, why *wire.Error) error {
	errs := make([]error, len(slots))
	forEach(slots, func(i int, s *slot) {
		if p := s.open.Load(); p != nil {
			reason := *why
			errs[i] = p.Close(&reason)
		}
	})
	return errors.Join(errs...)
}

// forEach calls f for all slots, openAtOnce at a time.
func forEach(slots []*slot, f func(i int, s *slot)) {
	var g errgroup.Group
	g.SetLimit(openAtOnce)
	for i := range slots {
		g.Go(func() error { f(i, slots[i]); return nil })
	}
	g.Wait()
}

// Close closes every partition, with all that is appended synced and answered, and then
// the catalog.
func (b *Broker) Close() error {
	b.endBackground()
	var errs []error
	for _, t := range b.takeAll() {
		errs = append(errs, t.close(wire.Errorf(wire.CodeShutdown, "the server is shutting down")))
	}
	return errors.Join(append(errs, b.catalog.Close())...)
}

// Abandon stops everything as a crash would: nothing more is written.
func (b *Broker) Abandon() {
	b.endBackground()
	for _, t := range b.takeAll() {
		for i := range t.slots {
			if p := t.slots[i].open.Load(); p != nil {
				p.Abandon()
			}
		}
	}
	b.catalog.Close()
}

func (b *Broker) takeAll() map[catalog.TopicID]*topic {
	b.admin.Lock()
	defer b.admin.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.mu.topics
	b.mu.topics = make(map[catalog.TopicID]*topic)
	return all
}

// ClusterID names the data directory, for ever.
func (b *Broker) ClusterID() [16]byte { return b.catalog.Incarnation() }

// Incarnation is +1 at every start.
func (b *Broker) Incarnation() uint64 { return b.catalog.Starts() }

// In is the memory for batches that come in.
func (b *Broker) In() *buffers.Pool { return b.in }

// Out is the memory for batches that go to readers.
func (b *Broker) Out() *buffers.Pool { return b.out }

// Partition finds an open partition.
func (b *Broker) Partition(id [16]byte, n int32) (*partition.Partition, *wire.Error) {
	p, _, e := b.find(id, n)
	return p, e
}

func (b *Broker) find(id [16]byte, n int32) (*partition.Partition, *topic, *wire.Error) {
	b.mu.RLock()
	t := b.mu.topics[id]
	b.mu.RUnlock()
	var e *wire.Error
	switch {
	case t == nil:
		e = wire.Errorf(wire.CodeUnknownTopicID, "no topic has the id %v", catalog.TopicID(id))
	case n < 0 || int(n) >= len(t.slots):
		e = wire.Errorf(wire.CodeUnknownPartition, "topic %q has no partition %d, it has %d", t.Name, n, len(t.slots))
	default:
		if p := t.slots[n].open.Load(); p != nil {
			return p, t, nil
		}
		e = t.slots[n].refusal()
		e.Topic = t.Name
	}
	e.TopicID, e.Partition = id, n
	return nil, nil, e
}

// Totals is how much a broker has of what can be counted, over all topics.
type Totals struct {
	Topics         int
	Partitions     int // stopped ones included
	Stopped        int // partitions that take no writes any more, or could not be opened
	DamagedRanges  int
	DamagedRecords int64
}

// Totals counts. It looks at every partition and waits for none.
func (b *Broker) Totals() (t Totals) {
	b.mu.RLock()
	t.Topics = len(b.mu.topics)
	for _, x := range b.mu.topics {
		for i := range x.slots {
			t.Partitions++
			if !x.slots[i].serves() {
				t.Stopped++
			}
		}
	}
	b.mu.RUnlock()
	for _, p := range b.allPartitions() {
		for _, d := range p.Damaged() {
			t.DamagedRanges++
			t.DamagedRecords += int64(d.Next - d.From)
		}
	}
	return t
}

// Stopped lists the partitions that take no writes any more or could not be opened, as
// topic/number, in order.
func (b *Broker) Stopped() (names []string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, t := range b.mu.topics {
		for n := range t.slots {
			if !t.slots[n].serves() {
				names = append(names, fmt.Sprintf("%s/%d", t.Name, n))
			}
		}
	}
	slices.Sort(names)
	return names
}
