package server_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// The disk refuses, and what is left of a batch that it refused.
var diskScenarios = []scenario{
	{14, "failed-append", "an append fails and a retry had joined it: both get the same retriable error, the third attempt is appended",
		[]string{"early-state"}, failedAppend},
	{49, "failed-sync", "a sync fails: the partition stops, waiters learn nothing, after a restart the disk decides",
		[]string{"retry-failed-sync"}, failedSync},
	{50, "no-room", "no room on the disk, or a fault: no sequence is spent, the same batch is stored later",
		[]string{"early-state"}, noRoom},
	{67, "deleted-before-the-sync", "a topic is deleted while a batch waits for its sync: one outcome, no write to files that are gone",
		[]string{"early-ack"}, deletedBeforeTheSync},
	{91, "failed-first-append", "the first append of a producer fails: its place is free again",
		[]string{"slot-leak"}, failedFirstAppend},
}

func failedAppend(t *testing.T) {
	f := setUp(t)
	// The owner of the partition is busy with another producer's batch, so that what
	// comes meanwhile goes down together. Both writes fail.
	other := f.c.NewProducer()
	busy := f.c.Lane(other, f.topic, 0, -1)
	began, release := f.HoldAppend()
	f.FailAppend()
	f.FailAppend()
	busy.Produce(rawclient.Batch(t, other, 0, "other"))
	<-began
	b := f.batch(t, 0, two(0)...)
	f.lane.Produce(b)
	f.lane.Produce(b)
	if before := f.arrived(t); len(before) > 0 {
		t.Fatalf("answered before the append: %+v", before[0])
	}
	release()
	wantCode(t, busy.Result(), wire.CodeStorageError)
	for range 2 {
		r := f.lane.Result()
		wantCode(t, r, wire.CodeStorageError)
		if info := r.Code.Info(); !info.Retry || info.Outcome != wire.NothingHappened {
			t.Errorf("%v must be retriable and say that nothing happened", r.Code)
		}
	}
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 0, false)
	f.wantLog(t, 1)
	f.restart(t, 1, nil)
	f.wantLog(t, 1)
}

func failedSync(t *testing.T) {
	f := setUp(t, servertest.InMemory()) // where a failed sync drops what it was to write, as systems do
	stored := f.stored(t, 0, 1)
	f.FailSync()
	b := f.batch(t, 2, two(2)...)
	for range 2 { // it is in the page cache, and must not be called stored
		f.lane.Produce(b)
		r := f.lane.Result()
		if wantCode(t, r, wire.CodeDurabilityUnknown); r.Code.Info().Outcome != wire.OutcomeUnknown {
			t.Fatalf("the outcome of %v is not unknown", r.Code)
		}
	}
	f.lane.Produce(f.batch(t, 4, two(4)...))
	wantCode(t, f.lane.Result(), wire.CodePartitionStopped)
	f.wantRetries(t, stored)
	f.wantLog(t, 1)

	f.restart(t, 5, nil)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, false) // the disk does not have it
	f.stored(t, 4, 1)
	f.wantLog(t, 3)
	f.Crash()
	f.reconnect(t, 5)
	f.wantLog(t, 3)
}

func noRoom(t *testing.T) {
	rows := []struct {
		name   string
		strike func(*servertest.Server)
		code   wire.Code
	}{
		{"a write fails", (*servertest.Server).FailAppend, wire.CodeStorageError},
		{"the disk is full", (*servertest.Server).FillDisk, wire.CodeDiskFull},
		{"the quota is used up", (*servertest.Server).UseUpQuota, wire.CodeDiskFull},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			f.stored(t, 0, 1)
			row.strike(f.Server)
			b := f.batch(t, 2, two(2)...)
			f.lane.Produce(b)
			r := f.lane.Result()
			wantCode(t, r, row.code)
			if info := r.Code.Info(); !info.Retry || info.Outcome != wire.NothingHappened {
				t.Errorf("%v must be retriable and say that nothing happened", r.Code)
			}
			f.wantLog(t, 1) // reads go on
			f.FreeDisk()
			f.lane.Produce(b)
			wantStored(t, f.lane.Result(), 2, false)
			f.wantLog(t, 2)
			f.restart(t, 3, nil)
			f.wantLog(t, 2)
		})
	}
}

// diskWatch holds the first sync of a topic's files, and notes what is done to them when
// they are removed.
type diskWatch struct {
	began   chan struct{} // closed when the sync has come and waits
	release func()        // lets it go on
	mu      sync.Mutex
	removed bool
	late    []string // changes of files behind the first removal
}

func watchTopic(t *testing.T, f *fixture) *diskWatch {
	gate := make(chan struct{})
	w := &diskWatch{began: make(chan struct{}), release: sync.OnceFunc(func() { close(gate) })}
	t.Cleanup(w.release) // before the server stops, which syncs
	dir := filepath.Dir(f.partitionDir())
	var first sync.Once
	f.ObserveDisk(func(op vfs.Op, name string) {
		if !strings.HasPrefix(name, dir) {
			return
		}
		w.mu.Lock()
		switch {
		case op == vfs.OpRemoveAll, op == vfs.OpRemove && filepath.Ext(name) == ".seg":
			w.removed = true
		case w.removed && slices.Contains([]vfs.Op{vfs.OpWrite, vfs.OpTruncate, vfs.OpSync, vfs.OpCreate}, op):
			w.late = append(w.late, fmt.Sprintf("%s %s", op, name))
		}
		w.mu.Unlock()
		if op == vfs.OpSync {
			first.Do(func() { close(w.began); <-gate })
		}
	})
	return w
}

func (w *diskWatch) seen() (removed bool, late []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed, w.late
}

func deletedBeforeTheSync(t *testing.T) {
	f := setUp(t)
	w := watchTopic(t, f)
	f.lane.Produce(f.batch(t, 0, two(0)...))
	<-w.began
	f.appended(t, 9)
	deleted := make(chan wire.Message, 1)
	admin := rawclient.Dial(t, f.URL())
	go func() { deleted <- admin.Request(&wire.DeleteTopic{Name: "orders"}) }()
	for f.c.Request(&wire.DescribeTopics{Names: []string{"orders"}}).Kind() == wire.KindTopicsDescribed {
	} // until the topic cannot be found
	if removed, _ := w.seen(); removed {
		t.Error("files were removed before the sync ended")
	}
	w.release()
	r := f.lane.Result()
	if r.Code != wire.CodeUnknownTopicID {
		wantStored(t, r, 0, false)
	}
	if m, ok := (<-deleted).(*wire.TopicDeleted); !ok {
		t.Fatalf("delete: %+v", m)
	}
	if removed, late := w.seen(); !removed || len(late) > 0 {
		t.Errorf("files were removed: %v, and changed afterwards: %q", removed, late)
	}
	f.lane.Produce(f.batch(t, 2, two(2)...))
	if r = f.lane.Result(); r.BaseSequence != 2 { // the first has no second answer
		t.Fatalf("sequence %d was answered", r.BaseSequence)
	}
	wantCode(t, r, wire.CodeUnknownTopicID)
}

func failedFirstAppend(t *testing.T) {
	f := setUp(t, servertest.Configure(func(c *server.Config) { c.MaxProducers = 1 }))
	for range 3 {
		f.FailAppend()
		f.lane.Produce(f.batch(t, 0, two(0)...))
		wantCode(t, f.lane.Result(), wire.CodeStorageError)
		f.lane.Stream.Close()
		f.lane.Stream.Read(make([]byte, 1)) // the server has let go of the lane when this ends
		f.p = f.c.NewProducer()
		f.lane = f.c.Lane(f.p, f.topic, 0, -1)
	}
	f.stored(t, 0, 1)
	f.wantLog(t, 1)
}
