package catalog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

// FileName is the name of the catalog in the data directory.
const FileName = "catalog.db"

// Options of [Open]. The zero value of a field is its default.
type Options struct {
	// LockWait is how long Open waits for another process to let go of the file, so that
	// a restart may overlap with a slow stop. Default 500 ms; at least 50 ms.
	LockWait time.Duration
	// MaxTopics bounds the topics, which are all held in memory (about 300 bytes each).
	// Default 10,000.
	MaxTopics int
	// MaxProducers bounds the producers, with and without a name. Each takes about 200
	// bytes of disk and none of memory. Default 5,000,000.
	MaxProducers int
	// IDBlock is how many producer ids one reservation takes. A larger block means
	// fewer writes for [Catalog.ReserveProducerID] and more ids skipped at each start.
	// Default 1,000; at most 1,000,000.
	IDBlock int
	// Now gives the time that is stored with topics and holders. Default time.Now.
	// Nothing is decided by it.
	Now func() time.Time

	maxFileBytes int // 0: no limit; tests fill the "disk" with it
}

const maxIDBlock = 1_000_000

func (o Options) withDefaults() Options {
	if o.LockWait <= 0 {
		o.LockWait = 500 * time.Millisecond
	}
	if o.MaxTopics <= 0 {
		o.MaxTopics = 10_000
	}
	if o.MaxProducers <= 0 {
		o.MaxProducers = 5_000_000
	}
	if o.IDBlock <= 0 {
		o.IDBlock = 1_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.LockWait = max(o.LockWait, 50*time.Millisecond)
	o.IDBlock = min(o.IDBlock, maxIDBlock)
	return o
}

// A Catalog is an open catalog. All methods may be called at any time from any
// goroutine.
type Catalog struct {
	path string
	opts Options
	db   *bolt.DB
	file *os.File // db's own; only closed here when db cannot be

	created     bool
	incarnation [16]byte
	starts      uint64
	secret      secret

	topics atomic.Pointer[topicSet] // what is durable; replaced by the writer

	writes  chan *write   // unbuffered: what was handed over is answered
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed by the writer when it is gone
	closing sync.Once
	closed  error // outcome of the one real Close

	broken  atomic.Bool // set by the writer: no writes, no producer rows
	wrecked atomic.Bool // set by the writer: bbolt fell over and holds its locks for ever

	// ids belongs to the writer.
	ids idBlock
}

// Open opens the catalog of a data directory, which must exist, and makes it if there
// is none ([Catalog.Created] tells). Each Open counts as a start of the server. It
// tightens the permissions of the file to 0600.
//
// Errors: [ErrLocked], [ErrVersion], [ErrDamaged], [ErrFull], or the system's.
func Open(dir string, o Options) (*Catalog, error) {
	c := &Catalog{
		path:    filepath.Join(dir, FileName),
		opts:    o.withDefaults(),
		writes:  make(chan *write),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	if err := c.openFile(dir); err != nil {
		return nil, err
	}
	if err := c.start(); err != nil {
		c.closeFile()
		return nil, err
	}
	// Owner: the catalog. Stop: c.stop. Waiter: Close.
	go c.writeLoop()
	return c, nil
}

// Close finishes the writes that were handed over and closes the file. Methods called
// afterwards return [ErrClosed]. Closing twice is harmless.
func (c *Catalog) Close() error {
	c.closing.Do(func() {
		close(c.stop)
		<-c.stopped
		c.closed = c.closeFile()
	})
	return c.closed
}

// closeFile does not wait for bbolt when that fell over while it held a lock of its
// own. The file's mapping then stays, and with it the lock of the file, until the
// process ends.
func (c *Catalog) closeFile() error {
	if !c.wrecked.Load() {
		return c.db.Close()
	}
	return c.file.Close()
}

// Created reports whether this Open made the catalog. A data directory that has
// partitions but had no catalog must not be served: the new one gives producer ids
// from 1 again.
func (c *Catalog) Created() bool { return c.created }

// Incarnation is 16 random bytes that were made with the catalog.
func (c *Catalog) Incarnation() [16]byte { return c.incarnation }

// Starts counts how often the catalog was opened, this time included. It starts at 1.
func (c *Catalog) Starts() uint64 { return c.starts }

// start checks the format, reads what stays in memory and counts the start.
func (c *Catalog) start() error {
	w := &write{run: func(t *txn) error { return c.load(t) }}
	c.commit([]*write{w})
	if w.err != nil {
		return fmt.Errorf("open catalog: %w", w.err)
	}
	return nil
}

func (c *Catalog) load(t *txn) error {
	if err := c.checkFormat(t.tx); err != nil {
		return err
	}
	var err error
	if c.starts, err = t.counter(keyStarts); err != nil {
		return err
	}
	next, err := t.counter(keyNextPID)
	if err != nil {
		return err
	}
	if _, err = t.counter(keyProducers); err != nil {
		return err
	}
	if err = errors.Join(t.bytes(keyIncarnation, c.incarnation[:]), t.bytes(keySecret, c.secret[:])); err != nil {
		return err
	}
	list, err := t.allTopics(bucketTopics)
	if err != nil {
		return err
	}
	if err = t.checkNames(list); err != nil {
		return err
	}
	c.topics.Store(newTopicSet(list))
	// Ids of an earlier start's block that were not given away are skipped: nobody
	// knows which were.
	c.ids = idBlock{next: next, end: next}
	c.starts++
	t.put(bucketMeta, keyStarts, numberBody(c.starts))
	return nil
}
