package catalog

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/quoin-io/quoin/batchfmt"
)

// A TermRequest asks for the next term of a partition.
type TermRequest struct {
	Topic     TopicID
	Partition int32
	// After is the last term in the partition's log, 0 if the log has none. The new
	// term is above it even when the catalog is older than the log, as after a restore.
	After batchfmt.Term
}

// NextTerm is [Catalog.NextTerms] for one partition.
func (c *Catalog) NextTerm(topic TopicID, partition int32, after batchfmt.Term) (batchfmt.Term, error) {
	terms, err := c.NextTerms([]TermRequest{{Topic: topic, Partition: partition, After: after}})
	if err != nil {
		return 0, err
	}
	return terms[0], nil
}

// NextTerms gives each partition a term that no owner before had, in the order of the
// requests, all in one transaction: either all are given or none. The first term of a
// partition is 1. A term is given once only, even if nothing was ever appended under it.
//
// Errors: [ErrUnknownTopic], [ErrPartitions], [ErrExhausted].
func (c *Catalog) NextTerms(requests []TermRequest) ([]batchfmt.Term, error) {
	terms := make([]batchfmt.Term, len(requests))
	err := c.update(func(t *txn) error {
		next, err := t.planTerms(requests, terms)
		for key, term := range next {
			t.put(bucketTerms, []byte(key), numberBody(uint64(term)))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("next term: %w", err)
	}
	return terms, nil
}

// planTerms fills terms and returns what to write, nothing on error.
func (t *txn) planTerms(requests []TermRequest, terms []batchfmt.Term) (map[string]batchfmt.Term, error) {
	next := make(map[string]batchfmt.Term, len(requests))
	partitions := map[TopicID]int32{}
	for i, r := range requests {
		if _, ok := partitions[r.Topic]; !ok {
			topic, err := t.topic(bucketTopics, r.Topic)
			if err != nil {
				return nil, fmt.Errorf("topic %v: %w", r.Topic, err)
			}
			partitions[r.Topic] = topic.Partitions
		}
		if r.Partition < 0 || r.Partition >= partitions[r.Topic] {
			return nil, fmt.Errorf("topic %v: %w: no partition %d", r.Topic, ErrPartitions, r.Partition)
		}
		key := termKey(r.Topic, r.Partition)
		last, planned := next[string(key)]
		if !planned {
			n, _, err := t.number("term", bucketTerms, key)
			if err != nil {
				return nil, err
			}
			if n > math.MaxUint32 {
				return nil, damaged("term", "%d does not fit", n)
			}
			last = batchfmt.Term(n)
		}
		last = max(last, r.After)
		if last == math.MaxUint32 {
			return nil, fmt.Errorf("topic %v partition %d: term: %w", r.Topic, r.Partition, ErrExhausted)
		}
		terms[i], next[string(key)] = last+1, last+1
	}
	return next, nil
}

// termKey is the key of a partition's term.
func termKey(id TopicID, partition int32) []byte {
	return binary.BigEndian.AppendUint32(id[:], uint32(partition))
}
