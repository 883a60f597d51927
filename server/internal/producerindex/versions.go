package producerindex

import "github.com/quoin-io/quoin/batchfmt"

// Versions is a set of batch versions; bit n-1 stands for version n. Those above 32 are left out.
type Versions uint32

// VersionBit is the set of one version.
func VersionBit(v batchfmt.Version) Versions { return 1 << (v - 1) }

// List lists the versions in ascending order.
func (s Versions) List() (list []batchfmt.Version) {
	for v := batchfmt.Version(1); v <= 32; v++ {
		if s&VersionBit(v) != 0 {
			list = append(list, v)
		}
	}
	return list
}
