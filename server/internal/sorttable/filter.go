package sorttable

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

const (
	groupSize = 32 // bytes: one 32-bit word a salt
	groupBits = 8 * groupSize
	bitsPerA  = 10
)

// salts spread the lower half of a mixed A over the words of its group. They are part of the
// format.
var salts = [groupSize / 4]uint32{
	0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
	0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31,
}

// filter is a Bloom filter in which all bits of a number stand in one group, so that a
// question touches one cache line.
type filter []byte

// filterSize is the size in bytes of a filter for n numbers.
func filterSize(n int64) int64 {
	return (n*bitsPerA + groupBits - 1) / groupBits * groupSize
}

// newFilter makes the filter of numbers that are mixed already.
func newFilter(mixed []uint64) filter {
	f := make(filter, filterSize(int64(len(mixed))))
	for _, m := range mixed {
		g := f.group(m)
		for i, salt := range salts {
			word := binary.LittleEndian.Uint32(g[4*i:])
			binary.LittleEndian.PutUint32(g[4*i:], word|bit(m, salt))
		}
	}
	return f
}

// parseFilter takes b, which is not copied, for the filter of h.
func parseFilter(h *header, b []byte) (filter, *FormatError) {
	if got := xxhash.Sum64(b); got != h.filterCheck {
		return nil, fault("filter", h.filterAt(), "the check is %016x, the bytes have %016x", h.filterCheck, got)
	}
	return b, nil
}

// has reports whether a may be among the numbers.
func (f filter) has(a uint64) bool {
	if len(f) == 0 {
		return false
	}
	m := mix(a)
	g := f.group(m)
	for i, salt := range salts {
		if binary.LittleEndian.Uint32(g[4*i:])&bit(m, salt) == 0 {
			return false
		}
	}
	return true
}

func (f filter) group(m uint64) []byte {
	g := m >> 32 * uint64(len(f)/groupSize) >> 32
	return f[g*groupSize:][:groupSize]
}

func bit(m uint64, salt uint32) uint32 { return 1 << (uint32(m) * salt >> 27) }

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
