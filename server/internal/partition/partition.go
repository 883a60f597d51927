package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/buffers"
	"github.com/quoin-io/quoin/server/internal/counters"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/retired"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

const (
	// maxQueued and maxQueuedBytes bound the batches that wait for the owner, so that one
	// partition whose disk is stuck does not hold all memory for frames.
	maxQueued      = 4096
	maxQueuedBytes = 32 << 20
	// groupBytes bounds what goes down in one append.
	groupBytes = 4 << 20
	// maxSearches bounds the searches in files that run at once for this partition, and
	// maxLookUps those that run or wait.
	maxSearches = 4
	maxLookUps  = 1024
	// defaultIdleAfter is long enough for whoever pauses over night.
	defaultIdleAfter = 24 * time.Hour
)

// Config is what a partition is made of.
type Config struct {
	Topic     string // name, for people
	TopicID   [16]byte
	Number    int32
	FS        vfs.FS
	Dir       string
	Log       seglog.Config
	Producers producerstate.Limits
	// SnapshotBytes is how many bytes of batches lie between two snapshots of the
	// producer state: what has to be read again after a crash. Default 64 MiB.
	SnapshotBytes int
	// MaxBatchBytes bounds new batches. It is read at each.
	MaxBatchBytes *atomic.Int64
	// NextTerm gives the term of this owner; it is above the one given.
	NextTerm func(after batchfmt.Term) (batchfmt.Term, error)
	// LastProducerID is an id that no id handed out so far exceeds.
	LastProducerID func() (batchfmt.ProducerID, error)
	// Named reports whether a producer has a name: then its lane is never forgotten. It may
	// take the time of a look into a file, and is not called by the owner. nil is never.
	Named func(batchfmt.ProducerID) bool
	// IdleAfter is how long a lane must not have been used before it may leave memory
	// though there is room. Default 24 h.
	IdleAfter time.Duration
	// MaxRetired is how many lanes without a name are remembered that have left memory.
	// Default 1,000,000.
	MaxRetired int
	Now        func() time.Time // wall clock
	// Uptime is the time since the start of the process, which no change of the wall clock
	// moves. Default: since Open.
	Uptime   func() time.Duration
	Counters *counters.Set // shared with others; default one of its own
	Logger   *slog.Logger
}

// A Partition is open from Open to Close. Its methods may be called from any goroutine.
type Partition struct {
	cfg     Config
	log     *seglog.Log
	retired *retired.Table
	owner   owner // touched by the owner's goroutine only

	queue struct {
		sync.Mutex
		items  []command
		bytes  int         // of the batches among them
		closed *wire.Error // set when nothing is taken any more
	}
	wake    chan struct{} // capacity 1: the queue is not empty
	sync    chan struct{} // capacity 1: there is something to sync
	synced  chan syncDone // from the syncer; capacity 1
	found   chan found
	stop    chan stopMode // capacity 1
	done    chan struct{} // the owner has ended
	helpers sync.WaitGroup

	places    places
	decisions decisions

	snapshots sync.Mutex // held while a snapshot is written

	durable atomic.Int64 // the durable end, what readers see
	failed  atomic.Bool  // takes no writes any more
	ending  atomic.Bool  // searches in the log should give up

	readers struct {
		sync.Mutex
		moved chan struct{} // closed when the durable end moves; nil when nobody waits
		gone  *wire.Error
	}
}

type stopMode uint8

const (
	stopClean   stopMode = iota // sync, answer, save
	stopAbandon                 // as a crash would
)

// A command is work for the owner: a batch, or anything else as a function.
type command struct {
	produce Produce
	act     func()
}

// A Grant is the right of one instance to write under a producer id. It is shared by all
// lanes of the instance and taken away as one.
type Grant struct {
	ID      batchfmt.ProducerID
	Epoch   batchfmt.Epoch // when the grant was made
	revoked atomic.Bool
	current atomic.Uint32          // the producer's epoch by now
	fencer  atomic.Pointer[string] // who has it instead, for people; set before revoked
}

// NewGrant makes the grant of the present holder.
func NewGrant(id batchfmt.ProducerID, epoch batchfmt.Epoch) *Grant {
	g := &Grant{ID: id, Epoch: epoch}
	g.current.Store(uint32(epoch))
	return g
}

// Revoke takes the right away, for good: the id has epoch current now. why says for people
// who has it instead; the first one counts.
func (g *Grant) Revoke(current batchfmt.Epoch, why string) {
	g.current.Store(uint32(current))
	g.fencer.CompareAndSwap(nil, &why)
	g.revoked.Store(true)
}

// Fencer is why the grant was revoked; empty while it holds.
func (g *Grant) Fencer() string {
	if why := g.fencer.Load(); why != nil && !g.Holds() {
		return *why
	}
	return ""
}

// Raise says that the holder has raised its epoch. It never falls, and a grant that was
// revoked stays so.
func (g *Grant) Raise(epoch batchfmt.Epoch) {
	for {
		now := g.current.Load()
		if uint32(epoch) <= now || g.current.CompareAndSwap(now, uint32(epoch)) {
			return
		}
	}
}

// Current is the producer's epoch by now, as far as the grant was told.
func (g *Grant) Current() batchfmt.Epoch { return batchfmt.Epoch(g.current.Load()) }

// Holds reports whether the grant was not revoked.
func (g *Grant) Holds() bool { return !g.revoked.Load() }

// An Opening is a stream's hold on a lane. A newer opening of the same lane ends it. One of a
// plain lane has no grant.
type Opening struct {
	grant  *Grant
	asked  uint64 // the owner's: its number; 0 before the owner has seen it
	number uint64 // the owner's: the same once it is open; 0 before
	ended  bool   // the owner's: the stream is gone

	confirm struct { // see Confirm
		through atomic.Int64
		queued  atomic.Bool // the owner will look
	}
}

// ProducerID is the id that batches of the lane must be sealed for; NoProducer if the lane
// is plain.
func (o *Opening) ProducerID() batchfmt.ProducerID {
	if o.grant == nil {
		return batchfmt.NoProducer
	}
	return o.grant.ID
}

func (o *Opening) right() producerstate.Right {
	return producerstate.Right{
		Holds: o.grant.Holds(), Opening: o.number, CurrentEpoch: o.grant.Current(),
	}
}

// A Sink takes the result of a batch. It must not block; the lane number is its to fill.
type Sink interface {
	Result(r wire.ProduceResult)
}

// Produce is a batch on its way to the owner. Its bytes were verified.
type Produce struct {
	Opening    *Opening
	Batch      batchfmt.Batch
	Buffer     *buffers.Buffer // holds Batch; released by the partition
	Sink       Sink
	Durability wire.Durability // Written is answered before the sync; any other is Synced
	Arrived    time.Time
	Confirmed  batchfmt.Seq // of a batch without a sequence, the number by which its answer names it
	Unfit      *wire.Error  // why it must not be appended; a retry is answered all the same
}

// number is what the answer names the batch by.
func (pr *Produce) number() batchfmt.Seq {
	if pr.Batch.ProducerID() == batchfmt.NoProducer {
		return pr.Confirmed
	}
	return pr.Batch.BaseSequence()
}

func (c Config) withDefaults() Config {
	if c.SnapshotBytes <= 0 {
		c.SnapshotBytes = defaultSnapshotBytes
	}
	if c.IdleAfter <= 0 {
		c.IdleAfter = defaultIdleAfter
	}
	if c.Uptime == nil {
		start := time.Now()
		c.Uptime = func() time.Duration { return time.Since(start) }
	}
	if c.Counters == nil {
		c.Counters = new(counters.Set)
	}
	return c
}

// Open recovers the partition's log and producers and starts its owner.
func Open(cfg Config) (*Partition, error) {
	cfg = cfg.withDefaults()
	p := &Partition{
		cfg:  cfg,
		wake: make(chan struct{}, 1), sync: make(chan struct{}, 1), synced: make(chan syncDone, 1),
		found: make(chan found, maxSearches), stop: make(chan stopMode, 1), done: make(chan struct{}),
	}
	if err := p.open(); err != nil {
		if p.log != nil {
			err = errors.Join(err, p.log.Close())
		}
		return nil, errors.Join(fmt.Errorf("partition %s/%d: %w", cfg.Topic, cfg.Number, err), p.closeRetired())
	}
	p.owner.levels.retired.Set(int(p.retired.Stats().Rows))
	p.helpers.Add(1)
	go p.runSyncer()
	go p.run()
	return p, nil
}

// open reads what there is. The snapshot and the retired table come before the log, because
// they say how far it was durable once.
func (p *Partition) open() error {
	cfg := &p.cfg
	if err := vfs.MakeDir(cfg.FS, cfg.Dir); err != nil {
		return err
	}
	newest, err := newestSnapshot(*cfg)
	if err != nil {
		return err
	}
	if err := p.openRetired(newest); err != nil {
		return err
	}
	cfg.Log.OnDamage = cfg.damaged
	if !planted.CheckpointIgnored && !planted.SnapshotBeyondEnd {
		cfg.Log.Durable = max(newest.end, p.retired.Vouched())
	}
	log, recovery, err := seglog.Open(cfg.FS, cfg.Dir, cfg.Log)
	if err != nil {
		return err
	}
	p.log = log
	if recovery.Cut != nil {
		cfg.Logger.Warn("log tail was cut", "topic", cfg.Topic, "partition", cfg.Number, "cut", recovery.Cut)
	}
	return p.recover(recovery, newest)
}

func (p *Partition) recover(r seglog.Recovery, newest checkpoint) error {
	for _, d := range r.Damage {
		p.cfg.damaged(d)
	}
	if err := p.openPlaces(); err != nil {
		return err
	}
	state, lost, err := recoverState(p.cfg, p.log, p.retired, newest)
	if err != nil {
		return err
	}
	term, err := p.cfg.NextTerm(r.LastTerm)
	if err != nil {
		return fmt.Errorf("next term: %w", err)
	}
	p.owner = owner{
		state: state, term: term, end: r.End, durable: r.End, lastTime: r.MaxAppendTime,
		lookUps: make(map[batchfmt.ProducerID]*lookUp),
	}
	p.owner.levels.lanes = p.cfg.Counters.Producers.Lanes.Part()
	p.owner.levels.retired = p.cfg.Counters.Producers.Retired.Part()
	p.durable.Store(int64(r.End))
	if lost {
		// At once, so that ids that are handed out from now on are never taken for some
		// that were lost.
		s := &pendingSnapshot{end: r.End, bytes: producerstate.AppendSnapshot(nil, state, *p.cfg.id(), r.End)}
		return p.store(s)
	}
	return nil
}

// openRetired opens the table of the lanes that have left memory.
func (p *Partition) openRetired(newest checkpoint) error {
	issued, err := p.cfg.LastProducerID()
	if err != nil {
		return err
	}
	warn := func(err error) {
		p.cfg.Logger.Error("retired producers are damaged", "topic", p.cfg.Topic, "partition", p.cfg.Number, "error", err)
	}
	o := retired.Options{MaxRows: p.cfg.MaxRetired, Issued: issued, Named: p.cfg.Named, OnDamage: warn}
	if newest.state != nil {
		o.AtLeast = newest.state.Retired()
	}
	table, report, err := retired.Open(p.cfg.FS, p.cfg.Dir, o)
	if err != nil {
		return fmt.Errorf("retired producers: %w", err)
	}
	for _, d := range report.Damage {
		warn(d)
	}
	p.retired = table
	return nil
}

func (p *Partition) closeRetired() error {
	if p.retired == nil {
		return nil
	}
	return p.retired.Close()
}

// damaged shouts about a part of the log that was stored and cannot be read any more.
func (c Config) damaged(d seglog.DamagedRange) {
	c.Counters.Damage.Ranges.Add(1)
	c.Counters.Damage.Records.Add(uint64(d.Next - d.From))
	c.Logger.Error("stored data is damaged and was put aside", "topic", c.Topic, "partition", c.Number,
		"from_offset", d.From, "next_offset", d.Next, "segment", d.Segment, "byte", d.Position, "reason", d.Reason)
}

// Damaged lists what is known to be damaged in the log.
func (p *Partition) Damaged() []seglog.DamagedRange { return p.log.Damaged() }

// Scrub reads all that is durable once, at no more than so many bytes a second, and puts
// aside what is damaged before a reader comes upon it. It ends early when ctx does or the
// partition is closed.
func (p *Partition) Scrub(ctx context.Context, bytesPerSecond int64) error {
	err := p.log.Scrub(ctx, bytesPerSecond, func(seglog.DamagedRange) {}) // Config.OnDamage is told
	if errors.Is(err, seglog.ErrClosed) {
		return nil
	}
	return err
}

// Produce puts a batch into the queue. When the queue is full or closed it says so and
// keeps nothing.
func (p *Partition) Produce(pr Produce) *wire.Error {
	p.queue.Lock()
	switch {
	case p.queue.closed != nil:
		defer p.queue.Unlock()
		return p.queue.closed
	case len(p.queue.items) >= maxQueued, p.queue.bytes >= maxQueuedBytes:
		p.queue.Unlock()
		return p.subject(wire.Errorf(wire.CodeThrottled, "the partition's queue is full"))
	}
	p.queue.items = append(p.queue.items, command{produce: pr})
	p.queue.bytes += pr.Batch.Size()
	p.queue.Unlock()
	p.signal()
	return nil
}

// do lets the owner run act. It reports why not when the partition is closed.
func (p *Partition) do(act func()) *wire.Error {
	p.queue.Lock()
	if closed := p.queue.closed; closed != nil {
		p.queue.Unlock()
		return closed
	}
	p.queue.items = append(p.queue.items, command{act: act})
	p.queue.Unlock()
	p.signal()
	return nil
}

func (p *Partition) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// HighWatermark is the durable end: the offset that the next record to become readable
// will have.
func (p *Partition) HighWatermark() batchfmt.Offset { return batchfmt.Offset(p.durable.Load()) }

// LogStart is the offset of the first record that is there.
func (p *Partition) LogStart() batchfmt.Offset { return p.log.Start() }

// Failed reports whether the partition takes no writes any more.
func (p *Partition) Failed() bool { return p.failed.Load() }

// Moved returns a channel that is closed when the durable end moves or the partition
// goes. Take it before looking at HighWatermark.
func (p *Partition) Moved() <-chan struct{} {
	p.readers.Lock()
	defer p.readers.Unlock()
	if p.readers.moved == nil {
		p.readers.moved = make(chan struct{})
		if p.readers.gone != nil {
			close(p.readers.moved)
		}
	}
	return p.readers.moved
}

// Gone is why nothing more will come; nil while the partition is open.
func (p *Partition) Gone() *wire.Error {
	p.readers.Lock()
	defer p.readers.Unlock()
	return p.readers.gone
}

func (p *Partition) wakeReaders(gone *wire.Error) {
	p.readers.Lock()
	defer p.readers.Unlock()
	if gone != nil && p.readers.gone == nil {
		p.readers.gone = gone
	}
	if p.readers.moved != nil && p.readers.moved != closedChan {
		close(p.readers.moved)
	}
	p.readers.moved = nil
	if p.readers.gone != nil {
		p.readers.moved = closedChan
	}
}

// closedChan is what readers of a partition that has gone wait on.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Read appends whole batches to dst, from the one that holds offset from and below the
// durable end, about maxBytes of them and at least one. It returns the offset that
// follows them.
func (p *Partition) Read(dst []byte, from batchfmt.Offset, maxBytes int) ([]byte, batchfmt.Offset, *wire.Error) {
	return p.ReadBelow(dst, from, p.HighWatermark(), maxBytes)
}

// ReadBelow is Read for who wants nothing from limit on, where a batch begins.
func (p *Partition) ReadBelow(dst []byte, from, limit batchfmt.Offset, maxBytes int) ([]byte, batchfmt.Offset, *wire.Error) {
	out, next, err := p.log.Read(dst, from, min(limit, p.HighWatermark()), maxBytes)
	if err == nil {
		return out, next, nil
	}
	return dst, from, p.readError(from, err)
}

func (p *Partition) readError(from batchfmt.Offset, err error) *wire.Error {
	var corrupt *seglog.CorruptError
	var e *wire.Error
	switch {
	case errors.As(err, &corrupt):
		e = wire.Errorf(wire.CodeCorruptBatch, "%v", err)
		if corrupt.Next > 0 {
			e.Expected = int64(corrupt.Next)
		}
		p.cfg.Logger.Error("read failed", "topic", p.cfg.Topic, "partition", p.cfg.Number, "offset", from, "error", err)
	case errors.Is(err, seglog.ErrOutOfRange):
		e = wire.Errorf(wire.CodeOffsetOutOfRange, "offset %d is outside of %d to %d", from, p.LogStart(), p.HighWatermark())
	case errors.Is(err, seglog.ErrClosed):
		if gone := p.Gone(); gone != nil {
			return gone
		}
		e = wire.Errorf(wire.CodeShutdown, "the partition is closed")
	default:
		e = wire.Errorf(wire.CodeStorageError, "read at offset %d: %v", from, err)
		p.cfg.Logger.Error("read failed", "topic", p.cfg.Topic, "partition", p.cfg.Number, "offset", from, "error", err)
	}
	return p.subject(e)
}

// Subject fills in the topic and partition of an error.
func (p *Partition) Subject(e *wire.Error) *wire.Error { return p.subject(e) }

func (p *Partition) subject(e *wire.Error) *wire.Error {
	e.Topic, e.TopicID, e.Partition = p.cfg.Topic, p.cfg.TopicID, p.cfg.Number
	return e
}

// Close stops the owner: what is queued is answered with why, what is appended is synced
// and answered, the producer state is saved. The error is the log's.
func (p *Partition) Close(why *wire.Error) error { return p.end(why, stopClean) }

// Abandon stops the owner as a crash would: nothing more is written or answered.
func (p *Partition) Abandon() {
	p.end(wire.Errorf(wire.CodeShutdown, "crash"), stopAbandon)
}

func (p *Partition) end(why *wire.Error, mode stopMode) error {
	p.queue.Lock()
	first := p.queue.closed == nil
	if first {
		p.queue.closed = p.subject(why)
	}
	p.queue.Unlock()
	if first {
		p.ending.Store(true)
		p.stop <- mode
	}
	<-p.done
	p.wakeReaders(why)
	p.helpers.Wait()
	if !first {
		return nil
	}
	err := p.closeRetired()
	if mode == stopAbandon {
		return nil
	}
	if !p.failed.Load() {
		if err := p.savePlaces(); err != nil {
			p.cfg.Logger.Warn("producer index not written", "topic", p.cfg.Topic, "partition", p.cfg.Number, "error", err)
		}
	}
	return errors.Join(err, p.log.Close())
}

// storageError names a failed append.
func storageError(err error) *wire.Error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return wire.Errorf(wire.CodeDiskFull, "%v", err)
	}
	return wire.Errorf(wire.CodeStorageError, "%v", err)
}
