package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/wire"
)

// reopenEvery is how often partitions that could not be opened are tried again.
const reopenEvery = 5 * time.Second

// A slot is the place of one partition. One that cannot be opened keeps nobody from the
// others: the server serves them, says why that one is not served, and tries again.
type slot struct {
	open atomic.Pointer[partition.Partition]
	why  atomic.Pointer[error] // why it could not be opened
}

func (s *slot) put(p *partition.Partition, err error) {
	if err != nil {
		s.why.Store(&err)
		return
	}
	s.open.Store(p)
}

// refusal is the answer for a partition that is not open.
func (s *slot) refusal() *wire.Error {
	err := *s.why.Load()
	code := wire.CodePartitionStopped
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code = wire.CodeDiskFull
	}
	return wire.Errorf(code, "the partition could not be opened: %v", err)
}

// hopeless says that trying again would give the same: what the files hold is at fault.
func (s *slot) hopeless() bool {
	var corrupt *seglog.CorruptError
	var newer *seglog.VersionError
	return errors.As(*s.why.Load(), &corrupt) || errors.As(*s.why.Load(), &newer)
}

// serves reports whether the partition is open and takes writes.
func (s *slot) serves() bool {
	p := s.open.Load()
	return p != nil && !p.Failed()
}

// describe is what there is to say of the partition to people.
func (s *slot) describe() wire.PartitionInfo {
	if p := s.open.Load(); p != nil {
		return p.Describe()
	}
	return wire.PartitionInfo{Code: s.refusal().Code}
}

// reopen tries again and again to open what could not be opened.
func (b *Broker) reopen(ctx context.Context) {
	tick := time.NewTicker(reopenEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.Reopen()
		}
	}
}

// Reopen tries once to open the partitions that could not be opened.
func (b *Broker) Reopen() {
	b.admin.Lock() // so that no topic goes meanwhile
	defer b.admin.Unlock()
	b.mu.RLock()
	var topics []*topic
	for _, t := range b.mu.topics {
		topics = append(topics, t)
	}
	b.mu.RUnlock()
	for _, t := range topics {
		for n := range t.slots {
			s := t.slots[n]
			if s.open.Load() != nil || s.hopeless() {
				continue
			}
			p, err := b.openPartition(t, int32(n))
			s.put(p, err)
			if err == nil {
				b.cfg.Log.Info("partition opened at last", "topic", t.Name, "partition", n)
			}
		}
	}
}

// openSlots opens the partitions of t from a number on, at once and as far as that is
// possible; errs has why not.
func (b *Broker) openSlots(t *topic, from int) (errs []error) {
	failed := make([]error, len(t.slots)-from)
	forEach(t.slots[from:], func(i int, s *slot) {
		p, err := b.openPartition(t, int32(from+i))
		s.put(p, err)
		failed[i] = err
	})
	for i, err := range failed {
		if err != nil {
			errs = append(errs, fmt.Errorf("partition %d: %w", from+i, err))
		}
	}
	return errs
}
