package catalog

import "bytes"

func (t *txn) putTopic(topic Topic) {
	t.put(bucketTopics, topic.ID[:], appendTopic(nil, topic))
}

func (t *txn) topic(bucket []byte, id TopicID) (Topic, error) {
	body, err := t.get("topic "+id.String(), bucket, id[:])
	if err != nil {
		return Topic{}, err
	}
	if body == nil {
		return Topic{}, ErrUnknownTopic
	}
	return decodeTopic(id, body)
}

func (t *txn) allTopics(bucket []byte) ([]Topic, error) {
	var list []Topic
	err := t.tx.Bucket(bucket).ForEach(func(k, v []byte) error {
		if len(k) != len(TopicID{}) {
			return damaged("topic id", "has %d bytes", len(k))
		}
		id := TopicID(k)
		body, err := openRow("topic "+id.String(), k, v)
		if err != nil {
			return err
		}
		topic, err := decodeTopic(id, body)
		list = append(list, topic)
		return err
	})
	return list, err
}

// checkNames checks that each topic, and nothing else, has the name that leads to it:
// else a name could be given to a second topic, or never be free again.
func (t *txn) checkNames(list []Topic) error {
	for _, topic := range list {
		body, err := t.get("topic name "+topic.Name, bucketNames, []byte(topic.Name))
		if err != nil {
			return err
		}
		if !bytes.Equal(body, topic.ID[:]) {
			return damaged("topic name "+topic.Name, "does not lead to topic %v, which has that name", topic.ID)
		}
	}
	if n := t.tx.Bucket(bucketNames).Stats().KeyN; n != len(list) {
		return damaged("topic names", "there are %d for %d topics", n, len(list))
	}
	return nil
}

// topicsAdded is how many more topics there are within the transaction than before it.
func (t *txn) topicsAdded() int {
	n := 0
	for _, ch := range t.topics {
		switch {
		case ch.added:
			n++
		case ch.removed:
			n--
		}
	}
	return n
}
