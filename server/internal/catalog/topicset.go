package catalog

import (
	"bytes"
	"slices"
	"strings"
)

// A topicChange is what memory learns when the transaction is durable.
type topicChange struct {
	topic          Topic
	added, removed bool
}

// publish replaces the topics in memory. Only the writer calls it.
func (c *Catalog) publish(changes []topicChange) {
	if len(changes) == 0 {
		return
	}
	byID := make(map[TopicID]Topic, c.topics.Load().len()+1)
	for _, t := range c.topics.Load().sorted {
		byID[t.ID] = t
	}
	for _, ch := range changes {
		if ch.removed {
			delete(byID, ch.topic.ID)
			continue
		}
		byID[ch.topic.ID] = ch.topic
	}
	list := make([]Topic, 0, len(byID))
	for _, t := range byID {
		list = append(list, t)
	}
	c.topics.Store(newTopicSet(list))
}

// A topicSet is all topics at one time. It never changes.
type topicSet struct {
	sorted []Topic
	byID   map[TopicID]int // index in sorted
	byName map[string]TopicID
}

func newTopicSet(list []Topic) *topicSet {
	slices.SortFunc(list, compareTopics)
	s := &topicSet{
		sorted: list,
		byID:   make(map[TopicID]int, len(list)),
		byName: make(map[string]TopicID, len(list)),
	}
	for i, t := range list {
		s.byID[t.ID] = i
		s.byName[t.Name] = t.ID
	}
	return s
}

func (s *topicSet) len() int { return len(s.sorted) }

func (s *topicSet) find(id TopicID) (Topic, error) {
	i, ok := s.byID[id]
	if !ok {
		return Topic{}, ErrUnknownTopic
	}
	return s.sorted[i], nil
}

func compareTopics(a, b Topic) int {
	if n := strings.Compare(a.Name, b.Name); n != 0 {
		return n
	}
	return bytes.Compare(a.ID[:], b.ID[:])
}
