package partition

import (
	"github.com/quoin-io/quoin/server/internal/producerindex"
)

// Versions says which batch versions the partition holds. Each segment's index knows them;
// where an index is missing it is made, which takes a walk over the headers of the segment. So
// this is for people who ask, and not for the owner.
func (p *Partition) Versions() (producerindex.Versions, error) {
	var versions producerindex.Versions
	for _, s := range p.log.Segments() {
		indexes, err := p.indexesOf(s)
		if err != nil {
			return 0, err
		}
		for _, x := range indexes {
			versions |= x.Versions()
		}
	}
	return versions, nil
}
