package catalog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// formatVersion is the version of the file as a whole: which buckets there are and
// what they mean. Rows have a version of their own.
const formatVersion = 1

var (
	bucketMeta      = []byte("meta")      // key below -> number or bytes
	bucketTopics    = []byte("topics")    // topic id -> topic
	bucketNames     = []byte("names")     // topic name -> topic id
	bucketDeleting  = []byte("deleting")  // topic id -> topic
	bucketTerms     = []byte("terms")     // topic id, partition (4, big endian) -> term
	bucketProducers = []byte("producers") // producer id -> producer
	bucketInstances = []byte("instances") // instance of a producer without a name -> producer id
	bucketHolders   = []byte("holders")   // producer name -> producer id

	allBuckets = [][]byte{
		bucketMeta, bucketTopics, bucketNames, bucketDeleting, bucketTerms,
		bucketProducers, bucketInstances, bucketHolders,
	}

	keyFormat      = []byte("format")
	keyIncarnation = []byte("incarnation")
	keySecret      = []byte("secret")
	keyStarts      = []byte("starts")
	keyNextPID     = []byte("next-pid")  // first id that is not reserved
	keyProducers   = []byte("producers") // count
)

const newSuffix = ".new"

// openFile opens the file under its lock, and makes it before that if there is none.
func (c *Catalog) openFile(dir string) error {
	info, err := os.Stat(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if c.created, err = createFile(dir, c.path); err != nil {
			return fmt.Errorf("create catalog: %w", asFull(err))
		}
	case err != nil:
		return fmt.Errorf("open catalog: %w", err)
	case info.Size() == 0:
		// bbolt would take it for a new one.
		return &DamagedError{Path: c.path, What: "file", Reason: "is empty"}
	}
	if err := tighten(c.path); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if err := c.openBolt(); err != nil {
		return err
	}
	return c.removeStale(dir)
}

func (c *Catalog) openBolt() error {
	err := guard(func() error {
		var err error
		c.db, err = bolt.Open(c.path, 0o600, &bolt.Options{
			Timeout:      c.opts.LockWait,
			FreelistType: bolt.FreelistMapType,
			MaxSize:      c.opts.maxFileBytes,
			OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
				f, err := os.OpenFile(name, flag&^os.O_CREATE, perm)
				c.file = f
				return f, err
			},
		})
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("open catalog %s: %w (waited %v)", c.path, ErrLocked, c.opts.LockWait)
	case errors.Is(err, errFell):
		c.file.Close() // the lock may stay until the process ends, as in closeFile
		return &DamagedError{Path: c.path, What: "file", Reason: err.Error()}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return &DamagedError{Path: c.path, What: "file", Reason: err.Error()}
	}
	return fmt.Errorf("open catalog %s: %w", c.path, err)
}

// createFile makes a complete catalog under a name of its own and then links it to its
// place, so that a crash never leaves half a catalog there, and so that of two servers
// that start at once one wins and the other meets the winner's lock.
func createFile(dir, path string) (won bool, err error) {
	f, err := os.CreateTemp(dir, FileName+".*"+newSuffix)
	if err != nil {
		return false, err
	}
	name := f.Name()
	if err := f.Close(); err != nil {
		return false, err
	}
	defer os.Remove(name) // after the link it is the second name of the same file
	if err := fillFile(name); err != nil {
		return false, err
	}
	switch err := os.Link(name, path); {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		// The winner may have tidied ours away.
		if _, statErr := os.Stat(path); statErr == nil {
			return false, nil
		}
		return false, err
	}
	return true, syncDir(dir)
}

func fillFile(name string) error {
	db, err := bolt.Open(name, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		var random [16 + 32]byte
		rand.Read(random[:])
		t := &txn{tx: tx}
		t.put(bucketMeta, keyFormat, numberBody(formatVersion))
		t.put(bucketMeta, keyIncarnation, random[:16])
		t.put(bucketMeta, keySecret, random[16:])
		t.put(bucketMeta, keyStarts, numberBody(0))
		t.put(bucketMeta, keyNextPID, numberBody(1))
		t.put(bucketMeta, keyProducers, numberBody(0))
		return t.err
	})
	return errors.Join(err, db.Close())
}

// checkFormat looks at the version before anything else of the file is believed.
func (c *Catalog) checkFormat(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return &DamagedError{Path: c.path, What: "file", Reason: "is a bbolt file but not a catalog"}
	}
	body, err := openRow("format version", keyFormat, meta.Get(keyFormat))
	if err != nil {
		return c.in(err)
	}
	v, err := decodeNumber("format version", body)
	if err != nil {
		return c.in(err)
	}
	if v != formatVersion {
		return &VersionError{Path: c.path, Found: uint32(min(v, 1<<32-1)), Known: formatVersion}
	}
	for _, name := range allBuckets {
		if tx.Bucket(name) == nil {
			return &DamagedError{Path: c.path, What: "file", Reason: "bucket " + string(name) + " is missing"}
		}
	}
	return nil
}

// in adds the path to a DamagedError and to a VersionError.
func (c *Catalog) in(err error) error {
	if v := new(VersionError); errors.As(err, &v) && v.Path == "" {
		return &VersionError{Path: c.path, Row: v.Row, Found: v.Found, Known: v.Known}
	}
	if d := new(DamagedError); errors.As(err, &d) && d.Path == "" {
		return &DamagedError{Path: c.path, What: d.What, Reason: d.Reason}
	}
	return err
}

// removeStale removes what crashes during createFile left. The lock is held.
func (c *Catalog) removeStale(dir string) error {
	stale, err := filepath.Glob(filepath.Join(dir, FileName+".*"+newSuffix))
	for _, name := range stale {
		if rmErr := os.Remove(name); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	if err != nil {
		c.closeFile()
		return fmt.Errorf("open catalog: %w", err)
	}
	return nil
}

// tighten takes the permissions of group and others away: the file holds keys.
func tighten(path string) error {
	if runtime.GOOS == "windows" { // permissions are not in the mode there
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(path, 0o600)
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // directories cannot be synced there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
