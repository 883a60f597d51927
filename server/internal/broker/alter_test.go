package broker

import (
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// twoPartitions is a broker on a disk that can fail, with the topic t.
func twoPartitions(t *testing.T) (*Broker, *vfs.Faulty, catalog.TopicID) {
	t.Helper()
	disk := vfs.NewFaulty(vfs.NewMem())
	b, err := Open(Config{Data: t.TempDir(), FS: disk, Now: time.Now, Log: slog.New(slog.DiscardHandler), ScrubEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	m, e := b.CreateTopic(&wire.CreateTopic{Name: "t", Partitions: 2})
	if e != nil {
		t.Fatal(e)
	}
	return b, disk, m.(*wire.TopicCreated).Topic.ID
}

// Where the disk has no room for a new partition nothing of the change is left, and the
// same change works when there is room again.
func TestAlterTopicIsUndone(t *testing.T) {
	b, disk, id := twoPartitions(t)
	cfg := b.cfg
	told := 0
	b.Watch(func(*wire.TopicChanged) { told++ })
	partitions, strict := int32(5), true
	change := &wire.AlterTopic{Name: "t", Partitions: &partitions, Strict: &strict}

	disk.FailUnder(filepath.Join(b.topicDir(id), "3"), syscall.ENOSPC)
	if _, e := b.AlterTopic(change); e == nil || e.Code != wire.CodeDiskFull || e.Topic != "t" {
		t.Fatalf("altered without room: %v", e)
	}
	left := func() (int, bool) {
		t.Helper()
		d, e := b.DescribeTopics(&wire.DescribeTopics{Names: []string{"t"}})
		if e != nil {
			t.Fatal(e)
		}
		info := d.(*wire.TopicsDescribed).Topics[0]
		for n, p := range info.Partitions {
			if p.Code != wire.CodeOK {
				t.Errorf("partition %d: %v", n, p.Code)
			}
		}
		return len(info.Partitions), info.Strict
	}
	if n, strict := left(); n != 2 || strict || told != 0 {
		t.Errorf("left with %d partitions, strict %v, told %d times", n, strict, told)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	disk.Heal()
	disk.Observe(nil)
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if n, strict := left(); n != 2 || strict {
		t.Errorf("after a restart: %d partitions, strict %v", n, strict)
	}
	if _, e := b.AlterTopic(change); e != nil {
		t.Fatal(e)
	}
	if n, strict := left(); n != 5 || !strict {
		t.Errorf("altered to %d partitions, strict %v", n, strict)
	}
}
