package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// newerRow is a row as a newer release writes it: the version and the checksum stand where they
// always do, and nothing is known of what is between.
func newerRow(key []byte) []byte {
	v := append([]byte{rowVersion + 6}, "what came with it"...)
	return binary.BigEndian.AppendUint32(v, rowSum(key, v))
}

// keyIn gives the first key of a bucket, in a closed catalog.
func keyIn(t *testing.T, dir string, bucket []byte) (key []byte) {
	t.Helper()
	edit(t, dir, func(tx *bolt.Tx) error {
		first, _ := tx.Bucket(bucket).Cursor().First()
		key = bytes.Clone(first)
		return nil
	})
	return key
}

func wantNewer(t *testing.T, err error, path string) {
	t.Helper()
	var newer *VersionError
	switch {
	case !errors.As(err, &newer) || !errors.Is(err, ErrVersion) || errors.Is(err, ErrDamaged):
		t.Errorf("it is taken for something else: %v", err)
	case newer.Row == "" || newer.Found != rowVersion+6 || newer.Known != rowVersion || newer.Path != path:
		t.Errorf("%+v", newer)
	case !strings.Contains(err.Error(), "has row version 7, written by a newer version of quoin; this one reads row version 1"):
		t.Errorf("it does not say who has to do what: %v", err)
	}
}

// wantVerifyTells looks at the catalog as quoin log verify does.
func wantVerifyTells(t *testing.T, dir string) {
	t.Helper()
	newer := 0
	_, err := Verify(dir, func(err error) {
		if errors.Is(err, ErrVersion) {
			newer++
		}
	})
	if newer == 0 && !errors.Is(err, ErrVersion) {
		t.Errorf("verify finds nothing of a newer release: %v", err)
	}
}

// filled is a closed catalog with a row in every bucket.
func filled(t *testing.T) (dir string, topic Topic, named Producer) {
	t.Helper()
	dir = t.TempDir()
	c := open(t, dir, Options{})
	topic = must(c.CreateTopic("orders", 2, TopicConfig{}))(t)
	gone := must(c.CreateTopic("gone", 1, TopicConfig{}))(t)
	must(c.NextTerm(topic.ID, 0, 0))(t)
	must(c.InitProducer(instance(1), ""))(t)
	named = must(c.InitProducer(instance(2), "billing"))(t)
	if err := errors.Join(c.DeleteTopic(gone.ID), c.Close()); err != nil {
		t.Fatal(err)
	}
	return dir, topic, named
}

// TestNewerRowIsNotDamage plants a row of a newer release in every bucket. Who comes upon it,
// at the start or in use, says so, and leaves the row as it is.
func TestNewerRowIsNotDamage(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		bucket  []byte
		key     []byte // nil for the first of the bucket
		atStart bool
		use     func(c *Catalog, topic Topic, named Producer) error
	}{
		{reason: "format", bucket: bucketMeta, key: keyFormat, atStart: true},
		{reason: "count of starts", bucket: bucketMeta, key: keyStarts, atStart: true},
		{reason: "next producer id", bucket: bucketMeta, key: keyNextPID, atStart: true},
		{reason: "secret", bucket: bucketMeta, key: keySecret, atStart: true},
		{reason: "topic", bucket: bucketTopics, atStart: true},
		{reason: "name of a topic", bucket: bucketNames, atStart: true},
		{reason: "topic that is to go", bucket: bucketDeleting, use: func(c *Catalog, _ Topic, _ Producer) error {
			return second(c.PendingDeletes())
		}},
		{reason: "term", bucket: bucketTerms, use: func(c *Catalog, topic Topic, _ Producer) error {
			return second(c.NextTerm(topic.ID, 0, 0))
		}},
		{reason: "producer", bucket: bucketProducers, key: pidKey(2), use: func(c *Catalog, _ Topic, named Producer) error {
			return second(c.Authorize(named.ID, named.Key))
		}},
		{reason: "producer whose name is asked for", bucket: bucketProducers, key: pidKey(2), use: func(c *Catalog, _ Topic, _ Producer) error {
			return second(c.InitProducer(instance(3), "billing"))
		}},
		{reason: "name of a producer", bucket: bucketHolders, use: func(c *Catalog, _ Topic, _ Producer) error {
			return second(c.InitProducer(instance(3), "billing"))
		}},
		{reason: "instance of a producer", bucket: bucketInstances, use: func(c *Catalog, _ Topic, _ Producer) error {
			return second(c.InitProducer(instance(1), ""))
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			dir, topic, named := filled(t)
			key := tt.key
			if key == nil {
				key = keyIn(t, dir, tt.bucket)
			}
			planted := newerRow(key)
			edit(t, dir, func(tx *bolt.Tx) error { return tx.Bucket(tt.bucket).Put(key, planted) })
			c, err := Open(dir, Options{})
			if (err != nil) != tt.atStart {
				t.Fatalf("the start: %v", err)
			}
			if err == nil {
				err = tt.use(c, topic, named)
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			wantNewer(t, err, filepath.Join(dir, FileName))
			wantVerifyTells(t, dir)
			edit(t, dir, func(tx *bolt.Tx) error {
				if got := tx.Bucket(tt.bucket).Get(key); !bytes.Equal(got, planted) {
					t.Errorf("the row was changed to %x", got)
				}
				return nil
			})
		})
	}
}
