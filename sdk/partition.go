package sdk

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// PartitionForKey is where records with a key go, unless the producer says otherwise:
// xxhash64 of the key, with seed 0, modulo the number of partitions. It will never
// change, so that other programs may rely on it. partitions must be at least 1.
func PartitionForKey(key []byte, partitions int) int {
	return int(xxhash.Sum64(key) % uint64(partitions))
}

// Murmur2 is a [ProducerBuilder.Partitioner] that sends keys where Kafka's Java client and
// those that follow it send them: the murmur2 hash of the key, its sign bit cleared, modulo
// the number of partitions. Records without a key are left to the producer.
func Murmur2() func(r *Record, partitions int) int {
	return func(r *Record, partitions int) int {
		if r.Key == nil {
			return -1
		}
		return int(murmur2(r.Key)&0x7fffffff) % partitions
	}
}

// murmur2 is MurmurHash2 of 32 bits with the seed that Kafka uses.
func murmur2(b []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := uint32(seed) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		h = h*m ^ (k^k>>r)*m
	}
	for i := len(b) - 1; i >= 0; i-- {
		h ^= uint32(b[i]) << (8 * i)
	}
	if len(b) > 0 {
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// choosePartition returns the partition of r, or sticky when the record has no say.
func (p *Producer) choosePartition(r *Record) (partition int, sticky bool, err error) {
	n := len(p.slots())
	switch {
	case p.config.partition >= 0:
		return p.config.partition, false, nil
	case p.config.partitioner != nil:
		// A copy, as whatever is given to a function that is not known escapes to the heap:
		// so only producers with a partitioner pay for that.
		given := *r
		chosen := p.config.partitioner(&given, n)
		if chosen == -1 {
			return int(p.sticky.Load()), n > 1, nil
		}
		if chosen < 0 || chosen >= n {
			return 0, false, fmt.Errorf("%w: the partitioner chose %d, topic %q has %d", ErrUnknownPartition, chosen, p.topic, n)
		}
		return chosen, false, nil
	case r.Key != nil:
		return PartitionForKey(r.Key, n), false, nil
	}
	return int(p.sticky.Load()), n > 1, nil
}

// moveOn chooses another partition for records without a key, one whose lane did not
// fail if there is one. Of several goroutines that leave the same partition one wins.
func (p *Producer) moveOn(from int) int {
	n := len(p.slots())
	next := from
	for try := 0; try < n && (next == from || p.laneFailed(next)); try++ {
		next = (from + 1 + rand.IntN(n-1)) % n
	}
	if next == from || p.laneFailed(next) {
		for i := 1; i < n; i++ { // the dice found none: look at all
			if next = (from + i) % n; !p.laneFailed(next) {
				break
			}
		}
	}
	p.sticky.CompareAndSwap(int64(from), int64(next))
	return int(p.sticky.Load())
}

func (p *Producer) laneFailed(partition int) bool {
	s := p.slots()[partition].Load()
	return s != nil && s.failed.Load()
}

// senderSlots holds the senders of a producer by partition; each is made when its
// partition gets its first record. The slots are shared with the longer ones that take
// their place when the topic gets more partitions.
type senderSlots []*atomic.Pointer[sender]

// grown is s with room for so many partitions.
func (s senderSlots) grown(partitions int) senderSlots {
	longer := append(make(senderSlots, 0, partitions), s...)
	for len(longer) < partitions {
		longer = append(longer, new(atomic.Pointer[sender]))
	}
	return longer
}

// slots are the senders as of now. There may be more of them a moment later, never fewer.
func (p *Producer) slots() senderSlots { return *p.senders.Load() }
