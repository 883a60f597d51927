package broker

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// A partition that cannot be opened keeps nobody from the others, says why, and comes back by
// itself when what was wrong is over.
func TestPartitionThatCannotBeOpened(t *testing.T) {
	rows := []struct {
		name  string
		spoil func(disk *vfs.Faulty, dir string)
		code  wire.Code
		back  bool // it comes back when the disk is well again
	}{
		{"the disk gives an error", func(disk *vfs.Faulty, dir string) { disk.FailUnder(dir, syscall.EIO) }, wire.CodePartitionStopped, true},
		{"the disk is full", func(disk *vfs.Faulty, dir string) { disk.FailUnder(dir, syscall.ENOSPC) }, wire.CodeDiskFull, true},
		{"nothing tells what was stored", spoilSegment, wire.CodePartitionStopped, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			disk := vfs.NewFaulty(vfs.NewMem())
			logs := new(strings.Builder)
			cfg := Config{Data: t.TempDir(), FS: disk, Now: time.Now, Log: slog.New(slog.NewTextHandler(logs, nil)), ScrubEvery: -1}
			b, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			m, e := b.CreateTopic(&wire.CreateTopic{Name: "t", Partitions: 3})
			if e != nil {
				t.Fatal(e)
			}
			id := m.(*wire.TopicCreated).Topic.ID
			dir := filepath.Join(b.topicDir(id), "1")
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}

			row.spoil(disk, dir)
			if b, err = Open(cfg); err != nil {
				t.Fatalf("one partition keeps the server from starting: %v", err)
			}
			defer b.Close()
			for n := range int32(3) {
				p, e := b.Partition(id, n)
				switch {
				case n != 1 && p == nil:
					t.Errorf("partition %d is not served: %v", n, e)
				case n == 1 && (e == nil || e.Code != row.code || e.Topic != "t" || e.Partition != 1):
					t.Errorf("partition 1 is answered with %v", e)
				}
			}
			if got := b.Totals(); got.Stopped != 1 || got.Partitions != 3 || fmt.Sprint(b.Stopped()) != "[t/1]" {
				t.Errorf("totals %+v, stopped %v", got, b.Stopped())
			}
			described, _ := b.DescribeTopics(&wire.DescribeTopics{})
			if p := described.(*wire.TopicsDescribed).Topics[0].Partitions; len(p) != 3 || p[1].Code != row.code || p[0].Code != wire.CodeOK {
				t.Errorf("described as %+v", p)
			}
			if !strings.Contains(logs.String(), "not served") {
				t.Error("nobody shouts")
			}
			disk.Heal()
			disk.Observe(nil)
			b.Reopen()
			if p, e := b.Partition(id, 1); (p != nil) != row.back {
				t.Errorf("when the disk is well again: %v", e)
			}
			if _, e := b.DeleteTopic(&wire.DeleteTopic{Name: "t"}); e != nil {
				t.Errorf("delete: %v", e)
			}
		})
	}
}

// spoilSegment makes a log of which nothing tells how far it went.
func spoilSegment(disk *vfs.Faulty, dir string) {
	f, err := disk.Open(filepath.Join(dir, fmt.Sprintf("%020d.seg", 0)))
	if err != nil {
		panic(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("x", 300)), 0); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}
