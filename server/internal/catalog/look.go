package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/quoin-io/quoin/batchfmt"
)

// lookWait is how long a look waits for the file. It is short, and a look holds the file
// for less than a start waits for it, unless all of it is verified.
const lookWait = 50 * time.Millisecond

// A Content is what a look into a catalog that nobody has open has found.
type Content struct {
	Starts   uint64  // how often it was opened by a server
	Topics   []Topic // sorted by name
	Deleting []Topic // pending deletes, sorted by name
	Bytes    int64   // of the file
	opened   map[string]bool
}

// Opened reports whether a partition ever had an owner: then it must have a log.
func (c *Content) Opened(id TopicID, partition int32) bool {
	return c.opened[string(termKey(id, partition))]
}

// StartsOf is [Catalog.Starts] of a catalog that nobody has open. It changes nothing.
//
// Errors: [ErrLocked], [ErrVersion], [ErrDamaged], fs.ErrNotExist.
func StartsOf(dir string) (uint64, error) {
	var starts uint64
	err := look(dir, func(tx *bolt.Tx, _ int64) error {
		c := &Catalog{path: filepath.Join(dir, FileName)}
		if err := c.checkFormat(tx); err != nil {
			return err
		}
		var err error
		starts, err = (&txn{tx: tx}).counter(keyStarts)
		return c.in(err)
	})
	return starts, err
}

// FindTopic returns the topic of a name from the catalog in a data directory that no
// server has open. It changes nothing.
//
// Errors: [ErrLocked], [ErrUnknownTopic], [ErrVersion], [ErrDamaged], fs.ErrNotExist.
func FindTopic(dir, name string) (Topic, error) {
	var topic Topic
	err := look(dir, func(tx *bolt.Tx, _ int64) error {
		c := &Catalog{path: filepath.Join(dir, FileName)}
		if err := c.checkFormat(tx); err != nil {
			return err
		}
		t := &txn{tx: tx}
		body, err := t.get("topic name "+name, bucketNames, []byte(name))
		switch {
		case err != nil:
			return c.in(err)
		case body == nil:
			return fmt.Errorf("%w: %q", ErrUnknownTopic, name)
		case len(body) != len(topic.ID):
			return c.in(damaged("topic name "+name, "has %d bytes", len(body)))
		}
		topic, err = t.topic(bucketTopics, TopicID(body))
		if errors.Is(err, ErrUnknownTopic) {
			err = damaged("topic name "+name, "leads to no topic")
		}
		return c.in(err)
	})
	return topic, err
}

// Verify reads everything in the catalog of a data directory that no server has open,
// and changes nothing: every row with its checksum, the order of the rows, and what they
// point to. visit is called for each thing that is wrong, or that only a newer release can
// read, a *VersionError with the row, and what is returned is what could
// be read nevertheless. bbolt's own check of its pages is not used: it ends the process where
// a page leads out of the file.
//
// Errors: [ErrLocked], [ErrVersion], fs.ErrNotExist, or the system's. Damage is not one.
func Verify(dir string, visit func(error)) (Content, error) {
	v := &verifier{path: filepath.Join(dir, FileName), visit: visit}
	v.content.opened = make(map[string]bool)
	err := look(dir, func(tx *bolt.Tx, size int64) error {
		v.content.Bytes = size
		if err := (&Catalog{path: v.path}).checkFormat(tx); err != nil {
			return err
		}
		v.txn = txn{tx: tx}
		v.run()
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		visit(err)
		err = nil
	}
	slices.SortFunc(v.content.Topics, compareTopics)
	slices.SortFunc(v.content.Deleting, compareTopics)
	return v.content, err
}

// look opens the file for reading only and calls fn with it and its size.
func look(dir string, fn func(tx *bolt.Tx, size int64) error) error {
	path := filepath.Join(dir, FileName)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("look into the catalog: %w", err)
	case !info.Mode().IsRegular():
		return &DamagedError{Path: path, What: "file", Reason: "is no file"}
	case info.Size() == 0:
		return &DamagedError{Path: path, What: "file", Reason: "is empty"}
	}
	var file *os.File
	err = guard(func() error {
		db, err := bolt.Open(path, 0o600, &bolt.Options{
			ReadOnly: true, Timeout: lookWait,
			OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
				f, err := os.OpenFile(name, flag&^os.O_CREATE, perm)
				file = f
				return f, err
			},
		})
		if err != nil {
			return err
		}
		err = db.View(func(tx *bolt.Tx) error {
			if tx.Size() > info.Size() {
				reason := fmt.Sprintf("has %d bytes of %d", info.Size(), tx.Size())
				return &DamagedError{Path: path, What: "file", Reason: reason}
			}
			return fn(tx, info.Size())
		})
		return errors.Join(err, db.Close())
	})
	if errors.Is(err, errFell) && file != nil {
		file.Close() // bbolt cannot be closed any more
	}
	return lookError(path, err)
}

// lookError tells damage from what the system says: bbolt gives some of what it finds wrong
// in a file no name of its own.
func lookError(path string, err error) error {
	var system syscall.Errno
	switch {
	case err == nil, errors.Is(err, ErrDamaged), errors.Is(err, ErrVersion), errors.Is(err, ErrUnknownTopic):
		return err
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("look into the catalog %s: %w", path, ErrLocked)
	case errors.As(err, &system):
		return fmt.Errorf("look into the catalog: %w", err)
	}
	return &DamagedError{Path: path, What: "file", Reason: err.Error()}
}

// A verifier goes through all rows and tells of each that is wrong.
type verifier struct {
	txn
	path    string
	visit   func(error)
	content Content
}

func (v *verifier) tell(err error) {
	if err != nil {
		v.visit((&Catalog{path: v.path}).in(err))
	}
}

func (v *verifier) run() {
	var incarnation [16]byte
	var secret secret
	v.tell(v.bytes(keyIncarnation, incarnation[:]))
	v.tell(v.bytes(keySecret, secret[:]))
	var err error
	v.content.Starts, err = v.counter(keyStarts)
	v.tell(err)
	v.content.Topics = v.topicRows(bucketTopics)
	v.content.Deleting = v.topicRows(bucketDeleting)
	if v.rows("topic name", bucketNames, func(_, _ []byte) error { return nil }) {
		v.tell(v.checkNames(v.content.Topics))
	}
	v.rows("term of a partition", bucketTerms, func(key, body []byte) error {
		n, err := decodeNumber("term", body)
		v.content.opened[string(key)] = n > 0
		return err
	})
	v.producerRows()
}

// rows calls fn for each row that is sealed rightly, and reports whether it came to the end:
// where keys do not rise there may be none.
func (v *verifier) rows(what string, bucket []byte, fn func(key, body []byte) error) bool {
	cursor := v.tx.Bucket(bucket).Cursor()
	var before []byte
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		if before != nil && bytes.Compare(before, key) >= 0 {
			v.tell(damaged(what, "key %x stands behind key %x", key, before))
			return false
		}
		before = key
		body, err := openRow(fmt.Sprintf("%s, key %x", what, key), key, value)
		if err == nil {
			err = fn(key, body)
		}
		v.tell(err)
	}
	return true
}

func (v *verifier) topicRows(bucket []byte) []Topic {
	var list []Topic
	v.rows("topic", bucket, func(key, body []byte) error {
		if len(key) != len(TopicID{}) {
			return damaged("topic id", "has %d bytes", len(key))
		}
		topic, err := decodeTopic(TopicID(key), body)
		if err == nil {
			list = append(list, topic)
		}
		return err
	})
	return list
}

// producerRows checks producers, and that ids which names and instances lead to are there.
func (v *verifier) producerRows() {
	next, err := v.counter(keyNextPID)
	v.tell(err)
	_, err = v.counter(keyProducers)
	v.tell(err)
	v.rows("producer", bucketProducers, func(key, body []byte) error {
		if pid, err := decodeNumber("producer id", key); err != nil || pid >= next {
			return damaged(fmt.Sprintf("producer %x", key), "no such id was ever given")
		}
		_, err := decodeProducer(body)
		return err
	})
	leads := func(_, body []byte) error {
		n, err := decodeNumber("producer id", body)
		if err == nil {
			_, err = v.mustProducer(batchfmt.ProducerID(n))
		}
		return err
	}
	v.rows("instance of a producer", bucketInstances, leads)
	v.rows("name of a producer", bucketHolders, leads)
}
