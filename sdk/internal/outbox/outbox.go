package outbox

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
)

// Defaults and bounds of Options.
const (
	DefaultSegmentBytes = 64 << 20
	MinSegmentBytes     = 16 << 10
	MaxSegmentBytes     = 1 << 30
	DefaultMaxBytes     = 1 << 30
	MaxMaxBytes         = 1 << 40
	// minSegments is how many segments MaxBytes must have room for. One is being written,
	// one is kept free for copies, and at most half of all may be without outcome.
	minSegments = 8
	maxSegments = 1024 // each is an open file
	// maxBatches bounds the batches without outcome, each of which takes about 200 bytes of memory.
	maxBatches = 1 << 20
)

// Options are the settings of an outbox. The zero value is the defaults.
type Options struct {
	// SegmentBytes is the size of a file, 16 KiB to 1 GiB. Default 64 MiB. A batch may take
	// half of it. Each begins with about 4 KiB and 192 bytes for each partition, of which it
	// should be many times.
	SegmentBytes int64
	// MaxBytes bounds all files together, 8 to 1024 times SegmentBytes and at most 1 TiB.
	// Default 1 GiB. Batches without an outcome may take half of it, and be a million.
	MaxBytes int64

	fs filesystem // of tests
}

func (o Options) withDefaults() (Options, error) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = max(DefaultMaxBytes, minSegments*o.SegmentBytes)
	}
	if o.fs == nil {
		o.fs = osFS{}
	}
	var errs []error
	if o.SegmentBytes < MinSegmentBytes || o.SegmentBytes > MaxSegmentBytes {
		errs = append(errs, fmt.Errorf("outbox: SegmentBytes(%d) is not %d to %d", o.SegmentBytes, MinSegmentBytes, MaxSegmentBytes))
	}
	if o.MaxBytes < minSegments*o.SegmentBytes || o.MaxBytes > min(maxSegments*o.SegmentBytes, MaxMaxBytes) {
		errs = append(errs, fmt.Errorf("outbox: MaxBytes(%d) is not %d to %d times SegmentBytes(%d), or over %d",
			o.MaxBytes, minSegments, maxSegments, o.SegmentBytes, int64(MaxMaxBytes)))
	}
	return o, errors.Join(errs...)
}

// An Outbox is an open directory. All methods are safe for concurrent use. Only Sync,
// Unknown, NotStored and Close, and Load, touch the disk.
type Outbox struct {
	fs      filesystem
	dir     string
	options Options
	lock    io.Closer
	log     appender // of whoever runs the round

	mu struct {
		sync.Mutex
		ledger
		binding  Binding
		lastID   ID
		items    []item // put and not written
		put      uint64 // how many were ever put
		wanted   uint64 // the last of them that a Sync is for
		synced   uint64 // how many of them are durable
		round    *round // the group commit that runs; nil for none
		failed   error
		closed   bool
		segments []*segment   // oldest first; changed by the round alone
		ending   map[ID]*held // ended, but what says so is not durable: they must stay
		ended    []*held      // of them, those whose end is written and not synced
		free     [][]byte     // bodies to use again
	}
}

// An item is an entry that waits to be written.
type item struct {
	entry entry
	body  []byte // with zeros up to a multiple of 8
	has   *held  // the batch that it brings; nil for none
	ends  *held  // the batch that it ends; nil for none
	twice bool
}

// Open opens the outbox in dir and makes the directory if there is none. It returns what
// is there. No file is removed or changed; what may not be durable yet is written to a
// new one first.
//
// The error is [ErrInUse] while another has the directory; a *[BindingError] when it holds
// the batches of another producer or topic; a *[VersionError] when its format is not
// known; or that of the disk. Damage is no error: see [Found].Damage.
func Open(dir string, binding Binding, options Options) (*Outbox, *Found, error) {
	options, err := options.withDefaults()
	if err = errors.Join(err, binding.check()); err != nil {
		return nil, nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, fmt.Errorf("outbox: %w", err)
	}
	if err := makeDir(options.fs, dir); err != nil {
		return nil, nil, fmt.Errorf("outbox: make %s: %w", dir, err)
	}
	lock, err := options.fs.lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, nil, fmt.Errorf("outbox: open %s: %w", dir, err)
	}
	r := &replay{ledger: newLedger(), fs: options.fs, dir: dir, binding: binding, tails: map[int32]laneTail{}}
	if err := r.open(); err != nil {
		return nil, nil, errors.Join(err, r.close(), lock.Close())
	}
	if err := r.read(); err != nil {
		return nil, nil, errors.Join(err, r.close(), lock.Close())
	}
	o := newOutbox(dir, options, lock, r)
	if err := o.adopt(r.late); err != nil {
		return nil, nil, errors.Join(err, o.closeFiles())
	}
	return o, r.found(), nil
}

func newOutbox(dir string, options Options, lock io.Closer, r *replay) *Outbox {
	o := &Outbox{fs: options.fs, dir: dir, options: options, lock: lock}
	o.mu.ledger, o.mu.binding, o.mu.segments, o.mu.ending = r.ledger, r.binding, r.segments, map[ID]*held{}
	o.log.outbox = o
	for _, seg := range r.segments {
		o.log.total += seg.size
		o.log.lastNumber = max(o.log.lastNumber, seg.number)
	}
	// Segments of this process have higher numbers than all others, so that ids which
	// begin with the first such number were never given.
	o.mu.lastID = ID((o.log.lastNumber + 1) << 32)
	return o
}

// adopt writes anew what stands behind the sync notes: reading it does not show whether
// the disk has it. What it ends needs no second look: an entry for what is over.
func (o *Outbox) adopt(late []entry) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	done := map[ID]bool{}
	for i := range late {
		e := &late[i]
		h := o.mu.live[e.id]
		switch {
		case e.kind == kindLane: // a new segment begins with them
		case h != nil && !done[e.id]:
			done[e.id] = true
			i, err := o.copyOf(h)
			if err != nil {
				return err
			}
			o.queue(i)
		case h == nil && (e.kind == kindStored || e.kind == kindNotStored):
			o.queue(item{entry: *e})
		case h == nil && e.replaced != 0: // over too, and so is the one in whose place it stood
			gone := *e
			gone.kind, gone.id, gone.length, gone.bodyCheck, gone.replaced = kindNotStored, e.replaced, 0, 0, 0
			o.queue(item{entry: gone, twice: true})
		}
	}
	if len(late) > 0 && len(o.mu.items) == 0 { // lanes alone are worth it too
		o.queueLanes()
	}
	return o.syncThrough(o.mu.put)
}

// queueLanes puts the states of all lanes.
func (o *Outbox) queueLanes() {
	for partition, s := range o.mu.lanes {
		o.queue(item{entry: s.entry(partition), twice: true})
	}
}

// Bind says which id the server gave to the producer. It must be called before the first
// Put when Open was not told; a *[BindingError] says that the batches here are of another
// id.
func (o *Outbox) Bind(id batchfmt.ProducerID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return err
	}
	want := o.mu.binding
	want.ProducerID = id
	if id == batchfmt.NoProducer || !o.mu.binding.fits(want) {
		return &BindingError{Dir: o.dir, Have: o.mu.binding, Want: want}
	}
	o.mu.binding = want
	return nil
}

// Put takes a sealed batch, of which nothing is kept by reference. It is durable, and may
// be sent, once a Sync that was called after Put has returned nil. Batches of a partition
// must be put in their order.
//
// The error is [ErrFull], [ErrTooLarge], [ErrUnbound], or says what is wrong with the
// batch; nothing was put then.
func (o *Outbox) Put(partition int32, sealed []byte) (ID, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.add(partition, sealed, nil)
}

// Replace takes a batch that was sealed anew, with another identity, in the place of one
// that is proved not stored under the identity that it had. From then on the old id is
// none. Once it is durable, like a Put, the new one is found by Open, and never the old
// one; before that, exactly one of the two is. It is never ErrFull.
//
// The error is [ErrNoBatch] or [ErrMustNotSend] for the old one, or as for Put.
func (o *Outbox) Replace(old ID, sealed []byte) (ID, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return 0, err
	}
	h := o.mu.live[old]
	switch {
	case h == nil:
		return 0, fmt.Errorf("%w: %d", ErrNoBatch, old)
	case h.state == Unknown:
		return 0, ErrMustNotSend
	}
	return o.add(h.entry.partition, sealed, h)
}

func (o *Outbox) add(partition int32, sealed []byte, old *held) (ID, error) {
	if err := o.usable(); err != nil {
		return 0, err
	}
	e, err := o.check(partition, sealed)
	if err != nil {
		return 0, err
	}
	if size := e.size(); size > o.options.SegmentBytes/2 {
		return 0, fmt.Errorf("%w: %d bytes of %d", ErrTooLarge, size, o.options.SegmentBytes)
	} else if old == nil && (o.mu.bytes+size > o.options.MaxBytes/2 || len(o.mu.live) >= maxBatches) {
		return 0, ErrFull
	}
	o.mu.lastID++
	e.id, e.place = o.mu.lastID, o.mu.lastID
	if old != nil {
		e.replaced, e.place = old.entry.id, old.entry.place
	}
	body := append(o.body(), sealed...)
	body = append(body, make([]byte, padded(len(sealed))-len(sealed))...)
	e.bodyCheck = checksum(body)
	h, ended := o.mu.apply(&e, true)
	h.waiting = body[:e.length]
	o.queue(item{entry: e, body: body, has: h, ends: o.ends(ended)})
	return e.id, nil
}

// body is memory for a body, used before if possible.
func (o *Outbox) body() []byte {
	n := len(o.mu.free)
	if n == 0 {
		return nil
	}
	b := o.mu.free[n-1]
	o.mu.free = o.mu.free[:n-1]
	return b[:0]
}

// check parses what is to be put: what is on the disk must be readable.
func (o *Outbox) check(partition int32, sealed []byte) (entry, error) {
	batch, err := batchfmt.Parse(sealed)
	switch {
	case err != nil:
		return entry{}, fmt.Errorf("outbox: put: %w", err)
	case batch.Size() != len(sealed), batch.RecordCount() == 0, batch.BaseSequence() < 0, batch.LastSequence() < 0, partition < 0:
		return entry{}, fmt.Errorf("outbox: put: %d bytes for partition %d are not one batch of records", len(sealed), partition)
	case o.mu.binding.ProducerID == batchfmt.NoProducer:
		return entry{}, ErrUnbound
	case batch.ProducerID() != o.mu.binding.ProducerID:
		return entry{}, fmt.Errorf("outbox: put: the batch is of producer id %d, the outbox of %d", batch.ProducerID(), o.mu.binding.ProducerID)
	}
	if err := batch.Verify(); err != nil {
		return entry{}, fmt.Errorf("outbox: put: %w", err)
	}
	return entry{kind: kindBatch, length: len(sealed), partition: partition, base: batch.BaseSequence(), last: batch.LastSequence(),
		epoch: batch.Epoch(), digest: batch.Digest(), offset: -1}, nil
}

// ends notes that a batch must stay on the disk until what ends it is durable.
func (o *Outbox) ends(h *held) *held {
	if h != nil {
		o.mu.ending[h.entry.id] = h
	}
	return h
}

func (o *Outbox) queue(i item) {
	o.mu.items = append(o.mu.items, i)
	o.mu.put++
	if i.entry.kind != kindStored {
		o.mu.wanted = o.mu.put
	}
}

// Stored ends a batch that the server has, pending or unknown; offset is that of its last
// record, or -1 when nobody knows it. It is written with what is synced next: if that
// does not happen the batch is found again. The error is [ErrNoBatch].
func (o *Outbox) Stored(id ID, offset batchfmt.Offset) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.mark(kindStored, id, max(offset, -1))
	return err
}

// NotStored ends a batch, pending or unknown, that is proved not to be stored. When it
// returns nil no Open finds the batch again, and the application may be told. The error
// is that of Sync, or [ErrNoBatch]. After one of Sync, a Sync that succeeds makes up for it.
func (o *Outbox) NotStored(id ID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	put, err := o.mark(kindNotStored, id, -1)
	if err != nil {
		return err
	}
	return o.syncThrough(put)
}

// Unknown says that the application is going to be told that nobody knows the outcome of
// a batch. When it returns nil every Open finds the batch as [Unknown] until it is Stored
// or NotStored, and the application may be told; not before. The error is that of Sync,
// or [ErrNoBatch]; calling it again is harmless.
func (o *Outbox) Unknown(id ID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	put, err := o.mark(kindUnknown, id, -1)
	if err != nil {
		return err
	}
	return o.syncThrough(put)
}

// mark puts what was said of a batch and returns what has to be synced.
func (o *Outbox) mark(kind kind, id ID, offset batchfmt.Offset) (put uint64, err error) {
	if err := o.usable(); err != nil {
		return 0, err
	}
	h := o.mu.live[id]
	if h == nil {
		return 0, fmt.Errorf("%w: %d", ErrNoBatch, id)
	}
	if kind == kindUnknown && h.told {
		return o.mu.wanted, nil
	}
	e := h.entry
	e.kind, e.state, e.length, e.bodyCheck, e.replaced, e.offset = kind, 0, 0, 0, 0, offset
	_, ended := o.mu.apply(&e, false)
	o.queue(item{entry: e, ends: o.ends(ended), twice: kind != kindStored})
	if kind == kindUnknown {
		h.told = true
	}
	return o.mu.put, nil
}

// SetLane sets what is known of a partition: the highest sequence known to be stored, -1
// for none, and the last record whose offset is known, nil for none. It is for a lane
// that begins anew, such as after a loss of data; else Stored keeps count. It is durable
// with the next Sync.
func (o *Outbox) SetLane(partition int32, through batchfmt.Seq, acked *Point, epoch batchfmt.Epoch) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil {
		return err
	}
	if partition < 0 || through < -1 || acked != nil && acked.Sequence < 0 {
		return fmt.Errorf("outbox: no lane %d can stand at %d", partition, through)
	}
	s := laneState{through: through, acked: acked, epoch: epoch}
	e := s.entry(partition) // apply makes a point of its own of it
	o.mu.apply(&e, false)
	o.queue(item{entry: e, twice: true})
	return nil
}

// Load appends the sealed bytes of a batch to dst, as they were put. The error is
// [ErrNoBatch], [ErrNoBody] or that of the disk.
func (o *Outbox) Load(dst []byte, id ID) ([]byte, error) {
	o.mu.Lock() // also while it reads, so that the file stays: it is done after a restart, not on the way of a record
	defer o.mu.Unlock()
	if o.mu.closed {
		return dst, ErrClosed
	}
	h := o.mu.live[id]
	switch {
	case h == nil:
		return dst, fmt.Errorf("%w: %d", ErrNoBatch, id)
	case h.waiting != nil:
		return append(dst, h.waiting...), nil
	case !h.body:
		return dst, ErrNoBody
	}
	body, err := o.readBody(h)
	if err != nil {
		return dst, err
	}
	return append(dst, body[:h.entry.length]...), nil
}

// readBody reads the body of a batch and the zeros behind it, and checks them.
func (o *Outbox) readBody(h *held) ([]byte, error) {
	body := make([]byte, padded(h.entry.length))
	n, err := h.seg.f.ReadAt(body, h.at+entryBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("outbox: read %s: %w", h.seg.name, err)
	}
	if n < len(body) || !h.entry.holds(body) {
		b := h.batch()
		b.Damaged = true
		return nil, &DamageError{Dir: o.dir, Damages: []Damage{{File: h.seg.name, Offset: h.at,
			Bytes: h.stored, Reason: "the batch is not what was put", Loss: LossBatch, Batch: &b}}}
	}
	return body, nil
}

// usable is why nothing can be put or synced, or nil.
func (o *Outbox) usable() error {
	if o.mu.closed {
		return ErrClosed
	}
	return o.mu.failed
}

// Close syncs what was put and closes the files; the directory is free then. The error is
// that of the sync; what was durable before is so in any case. Closing again is harmless.
func (o *Outbox) Close() error {
	o.mu.Lock()
	if o.mu.closed {
		o.mu.Unlock()
		return nil
	}
	err := o.syncThrough(o.mu.put)
	for o.mu.round != nil { // somebody else's that began since
		o.await(o.mu.round)
	}
	again := o.mu.closed
	o.mu.closed = true
	failed := o.mu.failed
	o.mu.Unlock()
	if again {
		return nil
	}
	if failed == nil {
		err = errors.Join(err, o.log.finish())
	}
	return errors.Join(err, o.closeFiles())
}

func (o *Outbox) closeFiles() error {
	var errs []error
	for _, seg := range slices.Clone(o.mu.segments) {
		if seg.f != nil {
			errs = append(errs, seg.f.Close())
		}
	}
	return errors.Join(append(errs, o.lock.Close())...)
}
