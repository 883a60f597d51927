package broker

import (
	"slices"
	"sync"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/wire"
)

// A Reader is an open partition with one who reads from it, from Reader to Close.
type Reader struct {
	*partition.Partition
	Topic    string
	live     *live
	versions []batchfmt.Version
}

// Reader finds an open partition for one who can read batches of these versions.
func (b *Broker) Reader(id [16]byte, n int32, versions []batchfmt.Version) (*Reader, *wire.Error) {
	p, t, failure := b.find(id, n)
	if failure != nil {
		return nil, failure
	}
	versions = slices.Clone(versions)
	slices.Sort(versions)
	r := &Reader{Partition: p, Topic: t.Name, live: t.live, versions: slices.Compact(versions)}
	t.live.readers.add(r.versions, 1)
	return r, nil
}

// Reads reports whether the reader can read batches of a version.
func (r *Reader) Reads(v batchfmt.Version) bool { return slices.Contains(r.versions, v) }

// Strict reports whether the topic hands out batches only as they are stored.
func (r *Reader) Strict() bool { return r.live.strict.Load() }

// Close says that nobody reads any more.
func (r *Reader) Close() { r.live.readers.add(r.versions, -1) }

// readers counts who reads a topic, and what they can read.
type readers struct {
	sync.Mutex
	count int
	of    map[batchfmt.Version]int // how many know the version
}

func (r *readers) add(versions []batchfmt.Version, n int) {
	r.Lock()
	defer r.Unlock()
	if r.of == nil {
		r.of = make(map[batchfmt.Version]int)
	}
	r.count += n
	for _, v := range versions {
		if r.of[v] += n; r.of[v] == 0 {
			delete(r.of, v)
		}
	}
}

// look says how many there are, and which is the newest version that all of them know, of those
// that a topic here can hold: what else they know does not help them.
func (r *readers) look() (count uint32, know batchfmt.Version) {
	r.Lock()
	defer r.Unlock()
	for v, n := range r.of {
		if n == r.count && v > know && v <= batchfmt.Version2 {
			know = v
		}
	}
	return uint32(r.count), know
}
