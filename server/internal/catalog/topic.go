package catalog

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
)

// MaxPartitions bounds the partitions of a topic.
const MaxPartitions = 10_000

// MinBatchBytes is the least that TopicConfig.MaxBatchBytes may be.
const MinBatchBytes = 1 << 10

// TopicID names one incarnation of a topic. The zero id names none.
type TopicID [16]byte

// String returns 32 hexadecimal digits.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// ParseTopicID is the inverse of [TopicID.String].
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	if len(s) != hex.EncodedLen(len(id)) {
		return TopicID{}, fmt.Errorf("topic id has %d characters, not %d", len(s), hex.EncodedLen(len(id)))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return TopicID{}, fmt.Errorf("topic id: %w", err)
	}
	return id, nil
}

// TopicConfig is what may be changed of a topic.
type TopicConfig struct {
	// MaxBatchBytes bounds a batch as it is stored. 0 means
	// [batchfmt.DefaultTopicBatchBytes] when a topic is made or altered; else from
	// [MinBatchBytes] to [batchfmt.MaxBatchBytes].
	MaxBatchBytes int32
	// Strict topics refuse a reader that does not know a batch's version; others give
	// it the batch in a version that it knows.
	Strict bool
}

// A Topic is one incarnation of a named topic.
type Topic struct {
	ID         TopicID
	Name       string
	Partitions int32
	Created    int64 // Unix ms, by the server's clock
	Config     TopicConfig
}

func (t *Topic) check() error {
	if err := CheckTopicName(t.Name); err != nil {
		return err
	}
	if t.Partitions < 1 || t.Partitions > MaxPartitions {
		return fmt.Errorf("%w: %d is not within 1 to %d", ErrPartitions, t.Partitions, MaxPartitions)
	}
	if n := t.Config.MaxBatchBytes; n < MinBatchBytes || n > batchfmt.MaxBatchBytes {
		return fmt.Errorf("%w: largest batch of %d bytes is not within %d to %d", ErrConfig, n, MinBatchBytes, batchfmt.MaxBatchBytes)
	}
	return nil
}

func (c TopicConfig) withDefaults() TopicConfig {
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = batchfmt.DefaultTopicBatchBytes
	}
	return c
}

// CreateTopic makes a topic with a new random id.
//
// Errors: *NameError, [ErrPartitions], [ErrConfig], [ErrTopicExists], [ErrTopicLimit].
func (c *Catalog) CreateTopic(name string, partitions int32, cfg TopicConfig) (Topic, error) {
	topic := Topic{
		Name: name, Partitions: partitions, Config: cfg.withDefaults(),
		Created: c.opts.Now().UnixMilli(),
	}
	rand.Read(topic.ID[:])
	if planted.SameTopicID {
		topic.ID = TopicID{}
		copy(topic.ID[:], name)
	}
	if err := topic.check(); err != nil {
		return Topic{}, fmt.Errorf("create topic: %w", err)
	}
	err := c.update(func(t *txn) error {
		if t.tx.Bucket(bucketNames).Get([]byte(name)) != nil {
			return ErrTopicExists
		}
		if c.topics.Load().len()+t.topicsAdded() >= c.opts.MaxTopics {
			return fmt.Errorf("%w: %d topics", ErrTopicLimit, c.opts.MaxTopics)
		}
		t.putTopic(topic)
		t.put(bucketNames, []byte(name), topic.ID[:])
		t.topics = append(t.topics, topicChange{topic: topic, added: true})
		return nil
	})
	if err != nil {
		return Topic{}, fmt.Errorf("create topic %q: %w", name, err)
	}
	return topic, nil
}

// Altered is the topic as [Catalog.AlterTopic] would leave it, with the same errors.
func (t Topic) Altered(cfg TopicConfig, partitions int32) (Topic, error) {
	if partitions < t.Partitions {
		return t, fmt.Errorf("%w: %d are there, %d were asked for", ErrPartitions, t.Partitions, partitions)
	}
	t.Config, t.Partitions = cfg.withDefaults(), partitions
	return t, t.check()
}

// AlterTopic replaces the configuration and raises the number of partitions, both or
// neither. The same number again is no error; a lower one is, since records would be lost.
//
// Errors: [ErrUnknownTopic], [ErrConfig], [ErrPartitions].
func (c *Catalog) AlterTopic(id TopicID, cfg TopicConfig, partitions int32) (Topic, error) {
	var topic Topic
	err := c.update(func(t *txn) error {
		old, err := t.topic(bucketTopics, id)
		if err != nil {
			return err
		}
		if topic, err = old.Altered(cfg, partitions); err != nil {
			return err
		}
		if topic == old {
			return nil
		}
		t.putTopic(topic)
		t.topics = append(t.topics, topicChange{topic: topic})
		return nil
	})
	if err != nil {
		return Topic{}, fmt.Errorf("alter topic %v: %w", id, err)
	}
	return topic, nil
}

// UndoAlter puts back what AlterTopic has replaced, with fewer partitions too: for who could
// not open those that are new, so that nobody has written to them.
//
// Errors: [ErrUnknownTopic].
func (c *Catalog) UndoAlter(old Topic) error {
	err := c.update(func(t *txn) error {
		if _, err := t.topic(bucketTopics, old.ID); err != nil {
			return err
		}
		t.putTopic(old)
		t.topics = append(t.topics, topicChange{topic: old})
		return nil
	})
	if err != nil {
		return fmt.Errorf("undo a change of topic %v: %w", old.ID, err)
	}
	return nil
}

// DeleteTopic takes the topic out of the catalog and, in the same transaction, marks
// it as a pending delete. Its name is free at once; its terms stay until
// [Catalog.FinishDelete]. Errors: [ErrUnknownTopic].
func (c *Catalog) DeleteTopic(id TopicID) error {
	err := c.update(func(t *txn) error {
		topic, err := t.topic(bucketTopics, id)
		if err != nil {
			return err
		}
		t.delete(bucketTopics, id[:])
		t.delete(bucketNames, []byte(topic.Name))
		t.put(bucketDeleting, id[:], appendTopic(nil, topic))
		t.topics = append(t.topics, topicChange{topic: topic, removed: true})
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete topic %v: %w", id, err)
	}
	return nil
}

// PendingDeletes returns the deleted topics whose directories may still be there,
// sorted by name, then id.
func (c *Catalog) PendingDeletes() ([]Topic, error) {
	var list []Topic
	err := c.view(func(t *txn) error {
		var err error
		list, err = t.allTopics(bucketDeleting)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list deleted topics: %w", err)
	}
	slices.SortFunc(list, compareTopics)
	return list, nil
}

// FinishDelete forgets a pending delete; call it when nothing of the topic is on disk
// any more. An id that is not pending is no error.
func (c *Catalog) FinishDelete(id TopicID) error {
	err := c.update(func(t *txn) error {
		if t.tx.Bucket(bucketDeleting).Get(id[:]) == nil {
			return nil
		}
		// bbolt's cursor may skip keys when it deletes, hence two passes.
		var terms [][]byte
		cur := t.tx.Bucket(bucketTerms).Cursor()
		for k, _ := cur.Seek(id[:]); bytes.HasPrefix(k, id[:]); k, _ = cur.Next() {
			terms = append(terms, bytes.Clone(k))
		}
		for _, k := range terms {
			t.delete(bucketTerms, k)
		}
		t.delete(bucketDeleting, id[:])
		return nil
	})
	if err != nil {
		return fmt.Errorf("finish deletion of topic %v: %w", id, err)
	}
	return nil
}

// TopicByName returns the topic, or [ErrUnknownTopic]. It reads memory only.
func (c *Catalog) TopicByName(name string) (Topic, error) {
	set := c.topics.Load()
	return set.find(set.byName[name])
}

// TopicByID returns the topic, or [ErrUnknownTopic]. It reads memory only.
func (c *Catalog) TopicByID(id TopicID) (Topic, error) {
	return c.topics.Load().find(id)
}

// Topics returns all topics sorted by name. It reads memory only; the slice is the
// caller's.
func (c *Catalog) Topics() []Topic {
	return slices.Clone(c.topics.Load().sorted)
}
