package broker

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// What an operator is told that all readers know must not be a version that nothing stored
// has, while what is stored is refused or converted for some of them.
func TestReadersKnowOnlyWhatIsStored(t *testing.T) {
	for _, row := range []struct {
		readers [][]batchfmt.Version
		want    batchfmt.Version
	}{
		{[][]batchfmt.Version{{1, 2}, {1}}, 1},
		{[][]batchfmt.Version{{1, 2, 3}, {1, 2, 3}}, 2},
		{[][]batchfmt.Version{{2, 3}, {1, 3}}, 0}, // each of them is refused at something
		{[][]batchfmt.Version{{9}}, 0},            // is refused at everything
		{[][]batchfmt.Version{{0, 1}}, 1},
	} {
		var r readers
		for _, versions := range row.readers {
			r.add(versions, 1)
		}
		if _, know := r.look(); know != row.want {
			t.Errorf("readers of %v know %d, want %d", row.readers, know, row.want)
		}
	}
}

// A partition that is not open may hold anything: a list without it must say so.
func TestVersionsThatCannotBeSaid(t *testing.T) {
	b, disk, id := twoPartitions(t)
	cfg := b.cfg
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	disk.FailUnder(filepath.Join(b.topicDir(id), "1"), syscall.EIO)
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d, e := b.DescribeTopics(&wire.DescribeTopics{Names: []string{"t"}, Versions: true})
	if e != nil {
		t.Fatal(e)
	}
	info := d.(*wire.TopicsDescribed).Topics[0]
	if !info.VersionsPartial || !slices.Equal(info.BatchVersions, nil) {
		t.Errorf("partition 1 cannot be looked at, and the topic is said to hold %v, partial %v", info.BatchVersions, info.VersionsPartial)
	}
}
