package catalog

import (
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// maxGroup bounds the requests of one commit, and with it the pages that bbolt holds
// in memory for one.
const maxGroup = 1024

// A write is one request to the writer. run must decide before it writes: when it
// returns an error the others of its group are committed all the same.
type write struct {
	run  func(t *txn) error
	err  error
	done chan struct{}
}

// update hands fn to the writer and returns when its outcome is durable.
func (c *Catalog) update(fn func(t *txn) error) error {
	w := &write{run: fn, done: make(chan struct{})}
	select {
	case c.writes <- w:
		<-w.done
		return w.err
	case <-c.stop:
		return ErrClosed
	}
}

// view runs fn on the durable state.
func (c *Catalog) view(fn func(t *txn) error) error {
	switch {
	case c.isClosed():
		return ErrClosed
	case c.broken.Load():
		return ErrBroken
	}
	err := guard(func() error {
		return c.db.View(func(tx *bolt.Tx) error { return fn(&txn{tx: tx}) })
	})
	switch {
	case errors.Is(err, errFell):
		return &DamagedError{Path: c.path, What: "file", Reason: err.Error()}
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return ErrClosed
	}
	return c.in(err)
}

func (c *Catalog) isClosed() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// writeLoop commits what came in while the previous commit was under way.
func (c *Catalog) writeLoop() {
	defer close(c.stopped)
	var group []*write
	for {
		select {
		case w := <-c.writes:
			group = c.gather(append(group[:0], w))
		case <-c.stop:
			return
		}
		c.commit(group)
		for _, w := range group {
			close(w.done)
		}
		clear(group)
	}
}

func (c *Catalog) gather(group []*write) []*write {
	for len(group) < maxGroup {
		select {
		case w := <-c.writes:
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

// commit runs a group in one transaction and sets the outcome of each of its writes.
func (c *Catalog) commit(group []*write) {
	if c.broken.Load() {
		fail(group, ErrBroken)
		return
	}
	t, ids := &txn{}, c.ids
	err := c.transact(t, group)
	if err == nil {
		c.publish(t.topics)
		return
	}
	c.ids = ids // nothing of this group is given away
	fail(group, c.judge(t, err))
}

var errUnchanged = errors.New("nothing to commit")

func (c *Catalog) transact(t *txn, group []*write) error {
	err := guard(func() error {
		return c.db.Update(func(tx *bolt.Tx) error {
			t.tx, t.id = tx, tx.ID()
			for _, w := range group {
				w.err = c.in(w.run(t))
			}
			if t.err == nil && !t.wrote {
				return errUnchanged // spares the syncs
			}
			return t.err
		})
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// judge says what a failed transaction means.
//
//	bbolt fell over                              broken, damaged    what it did is not known
//	refused before the commit                    failed             nothing was written
//	no space, and the root has not moved         ErrFull            nothing has happened
//	otherwise                                    broken             the disk may hold either state
//
// The last line matters because memory shows the new state in any case: an answer read
// from it could be undone by a power failure.
func (c *Catalog) judge(t *txn, err error) error {
	switch {
	case errors.Is(err, errFell):
		// A transaction that was rolled back has no database any more; else bbolt still
		// holds its locks.
		c.wrecked.Store(t.tx == nil || t.tx.DB() != nil)
		c.broken.Store(true)
		return &DamagedError{Path: c.path, What: "file", Reason: err.Error()}
	case t.err != nil:
		return fmt.Errorf("write to the catalog: %w", t.err)
	case noSpace(err) && c.rootBefore(t.id):
		return asFull(err)
	}
	c.broken.Store(true)
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, berrors.ErrMaxSizeReached)
}

// asFull adds ErrFull to an error that says so in the system's words.
func asFull(err error) error {
	if !noSpace(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// rootBefore reports whether the file still shows a state older than transaction id.
func (c *Catalog) rootBefore(id int) bool {
	before := false
	err := guard(func() error {
		return c.db.View(func(tx *bolt.Tx) error {
			before = tx.ID() < id
			return nil
		})
	})
	return err == nil && before
}

// fail leaves a write's own refusal in place: it did not depend on the commit.
func fail(group []*write, err error) {
	for _, w := range group {
		if w.err == nil {
			w.err = err
		}
	}
}

var errFell = errors.New("bbolt fell over")

// guard turns a panic of bbolt, or a fault in its mapping of a file that became too
// short, into an error: bytes of a disk must not end the server.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errFell, r)
		}
	}()
	return fn()
}

// A txn is a transaction that keeps its first write error, so that callers need not.
type txn struct {
	tx     *bolt.Tx
	id     int
	wrote  bool
	err    error
	topics []topicChange
}

func (t *txn) put(bucket, key, body []byte) {
	t.wrote = true
	if err := t.tx.Bucket(bucket).Put(key, sealRow(key, body)); err != nil && t.err == nil {
		t.err = err
	}
}

func (t *txn) delete(bucket, key []byte) {
	t.wrote = true
	if err := t.tx.Bucket(bucket).Delete(key); err != nil && t.err == nil {
		t.err = err
	}
}

// get returns the body under key, or nil if there is none. It is valid until the next
// write of the transaction.
func (t *txn) get(what string, bucket, key []byte) ([]byte, error) {
	v := t.tx.Bucket(bucket).Get(key)
	if v == nil {
		return nil, nil
	}
	return openRow(what, key, v)
}

// number returns the number under key and whether there is one.
func (t *txn) number(what string, bucket, key []byte) (uint64, bool, error) {
	body, err := t.get(what, bucket, key)
	if body == nil || err != nil {
		return 0, false, err
	}
	n, err := decodeNumber(what, body)
	return n, err == nil, err
}

// counter returns a number of the meta bucket, which must be there.
func (t *txn) counter(key []byte) (uint64, error) {
	n, ok, err := t.number(string(key), bucketMeta, key)
	if err == nil && !ok {
		err = damaged(string(key), "is missing")
	}
	return n, err
}

// bytes fills dst from the meta bucket.
func (t *txn) bytes(key, dst []byte) error {
	body, err := t.get(string(key), bucketMeta, key)
	if err == nil && len(body) != len(dst) {
		err = damaged(string(key), "has %d bytes, not %d", len(body), len(dst))
	}
	copy(dst, body)
	return err
}
