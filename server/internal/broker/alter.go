package broker

import (
	"errors"
	"math"
	"slices"

	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/wire"
)

// AlterTopic changes a topic, durably and all at once. Where partitions that are new cannot
// be opened nothing has changed; a crash in between leaves them to the next start.
func (b *Broker) AlterTopic(m *wire.AlterTopic) (wire.Message, *wire.Error) {
	b.admin.Lock()
	defer b.admin.Unlock()
	old, failure := b.incarnation(m.Name, m.ID)
	if failure != nil {
		return nil, failure
	}
	cfg, partitions := old.Config, old.Partitions
	if m.MaxBatchBytes != nil {
		if *m.MaxBatchBytes > math.MaxInt32 {
			return nil, about(m.Name, wire.Errorf(wire.CodeInvalidTopic, "max batch bytes %d is too large", *m.MaxBatchBytes))
		}
		cfg.MaxBatchBytes = int32(*m.MaxBatchBytes)
	}
	if m.Strict != nil {
		cfg.Strict = *m.Strict
	}
	if m.Partitions != nil {
		partitions = *m.Partitions
	}
	wanted, err := old.Altered(cfg, partitions)
	if err != nil {
		return nil, about(m.Name, refusal(err))
	}
	b.mu.RLock()
	open := b.mu.topics[old.ID]
	b.mu.RUnlock()
	if open == nil {
		return nil, about(m.Name, wire.Errorf(wire.CodeInternal, "topic %q is not open", m.Name))
	}
	altered, undo, err := b.alter(open, wanted)
	switch {
	case undo != nil:
		b.cfg.Log.Error("topic could not be altered, and the change is not undone: it comes with the next start",
			"topic", old.Name, "error", err, "undo", undo)
		return nil, about(m.Name, wire.Errorf(wire.CodeInternal, "the change is written down and could not be carried out: %v", err))
	case err != nil:
		b.cfg.Log.Error("topic could not be altered and is as it was", "topic", old.Name, "error", err)
		return nil, about(m.Name, refusal(err))
	}
	if wanted != old {
		b.cfg.Log.Info("topic altered", "topic", old.Name, "id", old.ID, "partitions", wanted.Partitions,
			"max_batch_bytes", wanted.Config.MaxBatchBytes, "strict", wanted.Config.Strict)
		b.tell(&wire.TopicChanged{Name: old.Name, ID: old.ID})
	}
	return &wire.TopicAltered{Topic: altered.info()}, nil
}

// alter makes an open topic another one; admin is held. undo is why what could not be carried
// out could not be taken back either.
func (b *Broker) alter(open *topic, wanted catalog.Topic) (made *topic, undo, err error) {
	if _, err := b.catalog.AlterTopic(wanted.ID, wanted.Config, wanted.Partitions); err != nil {
		return nil, nil, err
	}
	have := len(open.slots)
	altered := &topic{Topic: wanted, live: open.live, slots: slices.Clone(open.slots)}
	altered.addSlots()
	if errs := b.openSlots(altered, have); len(errs) > 0 {
		if err := b.takeBack(altered, have); err != nil {
			b.cfg.Log.Warn("files of partitions that could not be opened are left", "topic", open.Name, "error", err)
		}
		return nil, b.catalog.UndoAlter(open.Topic), errors.Join(errs...)
	}
	altered.live.set(wanted.Config)
	b.mu.Lock()
	b.mu.topics[wanted.ID] = altered
	b.mu.Unlock()
	return altered, nil, nil
}

// takeBack closes and removes partitions that were opened for nothing.
func (b *Broker) takeBack(t *topic, from int) error {
	err := closeSlots(t.slots[from:], wire.Errorf(wire.CodeShutdown, "the topic could not be altered"))
	for n := from; n < len(t.slots); n++ {
		err = errors.Join(err, seglog.Remove(b.cfg.FS, b.partitionDir(t.ID, int32(n))))
	}
	return err
}

// Watch sets who is told when a topic was altered or deleted; nil for nobody. The function
// must not block.
func (b *Broker) Watch(changed func(*wire.TopicChanged)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.changed = changed
}

func (b *Broker) tell(m *wire.TopicChanged) {
	b.mu.RLock()
	changed := b.mu.changed
	b.mu.RUnlock()
	if changed != nil {
		changed(m)
	}
}
