package server_test

import (
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

func TestFailedAppendIsUndone(t *testing.T) {
	rows := []struct {
		name   string
		strike func(*servertest.Server)
		code   wire.Code
	}{
		{"a write fails", (*servertest.Server).FailAppend, wire.CodeStorageError},
		{"the disk is full", (*servertest.Server).FillDisk, wire.CodeDiskFull},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			f := setUp(t)
			f.lane.Produce(f.batch(t, 0, "a"))
			wantStored(t, f.lane.Result(), 0, false)
			row.strike(f.Server)
			f.lane.Produce(f.batch(t, 1, "b"))
			r := f.lane.Result()
			wantCode(t, r, row.code)
			if info := r.Code.Info(); !info.Retry || info.Outcome != wire.NothingHappened {
				t.Errorf("%v must be retriable and say that nothing happened", r.Code)
			}
			f.FreeDisk()
			f.lane.Produce(f.batch(t, 1, "b"))
			wantStored(t, f.lane.Result(), 1, false)
			wantValues(t, f.c, f.topic, 0, "a", "b")
			f.Restart()
			f.reconnect(t, 1)
			wantValues(t, f.c, f.topic, 0, "a", "b")
		})
	}
}

func TestFailedSyncStopsThePartition(t *testing.T) {
	f := setUp(t)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	f.FailSync()
	b := f.batch(t, 1, "b")
	f.lane.Produce(b)
	wantCode(t, f.lane.Result(), wire.CodeDurabilityUnknown)
	// The batch is in the page cache and must not be called stored; new ones are refused.
	f.lane.Produce(b)
	wantCode(t, f.lane.Result(), wire.CodeDurabilityUnknown)
	f.lane.Produce(f.batch(t, 2, "c"))
	wantCode(t, f.lane.Result(), wire.CodePartitionStopped)
	// What was durable before is read and answered as before.
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, true)
	wantValues(t, f.c, f.topic, 0, "a")

	f.Restart()
	f.reconnect(t, 2)
	f.lane.Produce(b)
	r := f.lane.Result()
	if r.Code != wire.CodeOK || r.BaseOffset != 1 {
		t.Fatalf("after the restart: %+v", r)
	}
	wantValues(t, f.c, f.topic, 0, "a", "b")
}

func TestPowerCut(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	began, release := f.HoldSync()
	f.lane.Produce(f.batch(t, 1, "b"))
	<-began
	f.CrashWith(release)

	f.reconnect(t, 1)
	wantValues(t, f.c, f.topic, 0, "a")
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, true)
	f.lane.Produce(f.batch(t, 1, "b"))
	wantStored(t, f.lane.Result(), 1, false)
	wantValues(t, f.c, f.topic, 0, "a", "b")
}

func TestRestartKeepsTheWindow(t *testing.T) {
	f := setUp(t)
	var batches [][]byte
	for i := range 7 {
		batches = append(batches, f.batch(t, batchfmt.Seq(i), "v"))
		f.lane.Produce(batches[i])
		wantStored(t, f.lane.Result(), batchfmt.Offset(i), false)
	}
	for range 2 {
		f.Restart()
		f.reconnect(t, 6)
		for i, b := range batches {
			f.lane.Produce(b)
			wantStored(t, f.lane.Result(), batchfmt.Offset(i), true)
		}
	}
}

func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	s := servertest.Start(t)
	seen := make(map[batchfmt.ProducerID]bool)
	for range 4 {
		c := rawclient.Dial(t, s.URL())
		for range 20 {
			p := c.NewProducer()
			if seen[p.ProducerID] || p.ProducerID == 0 || p.Epoch != 0 {
				t.Fatalf("got %+v, given before: %v", p, seen[p.ProducerID])
			}
			seen[p.ProducerID] = true
		}
		s.Restart()
	}
}

func TestDroppedAckAndCutConnection(t *testing.T) {
	f := setUp(t)
	f.DropAck(2)
	f.lane.Produce(f.batch(t, 0, "a"))
	wantStored(t, f.lane.Result(), 0, false)
	f.lane.Produce(f.batch(t, 1, "b"))
	<-f.c.Conn.Context().Done() // the second acknowledgement is lost with the connection
	f.reconnect(t, 1)
	f.lane.Produce(f.batch(t, 1, "b"))
	wantStored(t, f.lane.Result(), 1, true)
	f.CutConnection()
	<-f.c.Conn.Context().Done()
	f.reconnect(t, 1)
	wantValues(t, f.c, f.topic, 0, "a", "b")
}

// A stop in good order answers what is in flight, refuses what comes later, and tells
// clients before it closes.
func TestDrain(t *testing.T) {
	f := setUp(t)
	began, release := f.HoldSync()
	f.lane.Produce(f.batch(t, 0, "a"))
	<-began
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.Restart()
	}()
	if m, ok := f.c.Control().(*wire.Drain); !ok || m.RetryAfter <= 0 {
		t.Fatalf("the client was told %+v", m)
	}
	release()
	wantStored(t, f.lane.Result(), 0, false)
	wantClosed(t, f.c, wire.CodeShutdown)
	<-stopped
	f.reconnect(t, 0)
	wantValues(t, f.c, f.topic, 0, "a")
}
