package server_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// The server goes down, in good order or not, and what it remembers afterwards.
var crashScenarios = []scenario{
	{41, "crash-before-the-sync", "a crash takes a batch that was not synced: its retry is appended, once",
		[]string{"early-ack"}, crashBeforeTheSync},
	{42, "crash-before-the-ack", "a crash after the sync, before the answer: DUPLICATE at the same offset",
		[]string{"no-replay"}, crashBeforeTheAck},
	{43, "crash-in-the-middle", "a crash leaves three of five: three DUPLICATEs and two appends",
		[]string{"no-replay"}, crashInTheMiddle},
	{44, "torn-batch", "a crash tears the last batch: it is cut off, and its retry is appended",
		[]string{"skip-body-check"}, tornBatch},
	{45, "snapshot-beyond-the-log", "the log ends before its snapshot: what is lost is not called stored and readable",
		[]string{"lost-is-stored"}, snapshotBeyondTheLog},
	{46, "bad-snapshot", "a snapshot is torn, wrong, or of another version: the same state from an older one and the log",
		[]string{"no-replay"}, badSnapshot},
	{47, "restart-with-open-outcomes", "a restart with five open outcomes: five DUPLICATEs, also after another restart",
		[]string{"dedup-off"}, restartWithOpenOutcomes},
	{48, "no-snapshot", "no snapshot is left after a clean stop: the same state from the log alone",
		[]string{"no-replay"}, noSnapshot},
	{51, "crash-in-a-snapshot", "killed, or the power off, at any step of writing a snapshot: the same state",
		[]string{"no-replay"}, crashInASnapshot},
	{89, "drain", "a stop in good order: what is in flight is answered durably, and remembered",
		[]string{"early-ack"}, drainInFlight},
}

func crashBeforeTheSync(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	stored := f.stored(t, 0, 1)
	began, release := f.HoldSync()
	b := f.batch(t, 2, two(2)...)
	f.lane.Produce(b)
	<-began
	f.appended(t, 9)
	f.CrashWith(release)

	f.reconnect(t, 3)
	f.wantLog(t, 1)
	f.wantRetries(t, stored)
	f.lane.Produce(f.batch(t, 4, two(4)...))
	r := f.lane.Result()
	if wantCode(t, r, wire.CodeOutOfOrder); r.Expected != 2 {
		t.Fatalf("expected %d, want 2", r.Expected)
	}
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, false)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, true)
	f.wantLog(t, 2)
}

func crashBeforeTheAck(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	f.stored(t, 0, 7)
	b := f.batch(t, 14, two(14)...)
	f.DropAck(1)
	f.lane.Produce(b)
	<-f.c.Conn.Context().Done()
	f.Crash()
	f.reconnect(t, 15)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 14, true)
	f.wantLog(t, 8)
}

// segmentHeader is what stands before the first batch of a segment, and sectorBytes what a
// disk writes as a whole.
const segmentHeader, sectorBytes = 32, 512

// onlyFirst keeps, of what was not synced, the sectors of segments up to the byte at.
func onlyFirst(at int) func(vfs.Unsynced) bool {
	return func(u vfs.Unsynced) bool {
		return u.Kind != vfs.UnsyncedSector || !strings.HasSuffix(u.Name, ".seg") || u.Sector*sectorBytes < int64(at)
	}
}

func crashInTheMiddle(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	began, release := f.HoldSync()
	var batches [][]byte
	size := segmentHeader
	for i := range 5 {
		b := f.batch(t, batchfmt.Seq(2*i), strings.Repeat("v", 700), "w")
		batches = append(batches, b)
		f.lane.Produce(b)
		if i < 3 {
			size += len(b)
		}
	}
	<-began
	if before := f.arrived(t); len(before) > 0 {
		t.Fatalf("answered before the sync: %+v", before[0])
	}
	f.c.Lane(f.c.NewProducer(), f.topic, 0, -1) // all that came before it is appended
	f.CrashKeeping(onlyFirst(size), release)

	f.reconnect(t, 9)
	for i, b := range batches {
		f.lane.Produce(b)
		wantStored(t, f.lane.Result(), batchfmt.Offset(2*i), i < 3)
	}
	f.wantRetries(t, batches)
}

func tornBatch(t *testing.T) {
	f := setUp(t, servertest.InMemory())
	stored := f.stored(t, 0, 1)
	began, release := f.HoldSync()
	long := strings.Repeat("v", 4000)
	b := f.batch(t, 2, long)
	f.lane.Produce(b)
	<-began
	f.CrashKeeping(onlyFirst(len(stored[0])+2000), release)

	f.reconnect(t, 2)
	f.wantLog(t, 1)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, false)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 2, true)
	f.wantRetries(t, stored)
	wantValues(t, f.c, f.topic, 0, append(two(0), long)...)
}

// copyFiles copies the files of a directory that fit the pattern.
func copyFiles(t *testing.T, to, from, pattern string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(from, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s in %s: %v", pattern, from, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err := errors.Join(err, os.WriteFile(filepath.Join(to, filepath.Base(name)), b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func snapshotBeyondTheLog(t *testing.T) {
	f := setUp(t)
	old := t.TempDir()
	kept := f.stored(t, 0, 3)
	f.restart(t, 5, func() { copyFiles(t, old, f.partitionDir(), "*") })
	lost := f.stored(t, 6, 3)
	f.restart(t, 11, func() { // the newest snapshot stays, beside the older log
		for _, pattern := range []string{"*.seg", "*.idx"} {
			newer, err := filepath.Glob(filepath.Join(f.partitionDir(), pattern))
			for _, name := range newer {
				err = errors.Join(err, os.Remove(name))
			}
			if err != nil {
				t.Fatal(err)
			}
			copyFiles(t, f.partitionDir(), old, pattern)
		}
	})
	f.wantRetries(t, kept)
	for i, b := range lost {
		f.lane.Produce(b)
		r := f.lane.Result()
		if wantCode(t, r, wire.CodeBatchUnreadable); r.BaseOffset != batchfmt.Offset(6+2*i) {
			t.Fatalf("sequence %d was at offset %d by the answer", r.BaseSequence, r.BaseOffset)
		}
	}
}

// newestSnapshot is the file of the newest snapshot of producers.
func (f *fixture) newestSnapshot(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(f.partitionDir(), "producers-*.snap"))
	if err != nil || len(names) == 0 {
		t.Fatalf("there is no snapshot: %v", err)
	}
	return names[len(names)-1]
}

// storedInThreeRuns stores twelve batches with clean stops in between, so that there are
// snapshots of which none is the whole story. The first carries a position, which only
// the oldest snapshot and the log know of.
func (f *fixture) storedInThreeRuns(t *testing.T, last func()) (batches [][]byte) {
	t.Helper()
	for run := range 3 {
		base := batchfmt.Seq(8 * run)
		if run == 0 {
			b := f.sealed(t, batchfmt.Seal{Position: []byte("here")}, batchfmt.Record{Value: []byte("v0")}, batchfmt.Record{Value: []byte("v1")})
			f.lane.Produce(b)
			wantStored(t, f.lane.Result(), 0, false)
			batches = append(append(batches, b), f.stored(t, 2, 3)...)
		} else {
			batches = append(batches, f.stored(t, base, 4)...)
		}
		if run < 2 {
			f.restart(t, base+7, nil)
		}
	}
	f.restart(t, 23, last)
	return batches
}

// wantState checks that everything of storedInThreeRuns is remembered.
func (f *fixture) wantState(t *testing.T, batches [][]byte) {
	t.Helper()
	m, ok := f.openLane(func(m *wire.OpenLane) { m.Sent = seqPtr(23) }).(*wire.LaneOpened)
	if !ok || m.LastSequence != 23 || m.LastOffset != 23 || string(m.Position) != "here" {
		t.Fatalf("the lane was opened with %+v", m)
	}
	f.wantRetries(t, batches)
	f.wantLog(t, 12)
	f.stored(t, 24, 1)
}

func badSnapshot(t *testing.T) {
	rows := map[string]func(b []byte) []byte{
		"torn":        func(b []byte) []byte { return b[:len(b)/2] },
		"empty":       func([]byte) []byte { return nil },
		"a wrong bit": func(b []byte) []byte { b[60] ^= 4; return b },
		"another version": func(b []byte) []byte {
			b[3]++
			binary.LittleEndian.PutUint64(b[len(b)-8:], xxhash.Sum64(b[:len(b)-8]))
			return b
		},
		"zeros": func(b []byte) []byte { clear(b); return b },
	}
	for name, edit := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			batches := f.storedInThreeRuns(t, func() {
				file := f.newestSnapshot(t)
				b, err := os.ReadFile(file)
				if err := errors.Join(err, os.WriteFile(file, edit(b), 0o600)); err != nil {
					t.Fatal(err)
				}
			})
			f.wantState(t, batches)
		})
	}
}

func noSnapshot(t *testing.T) {
	f := setUp(t)
	batches := f.storedInThreeRuns(t, func() {
		names, err := filepath.Glob(filepath.Join(f.partitionDir(), "producers-*"))
		for _, name := range names {
			err = errors.Join(err, os.Remove(name))
		}
		if err != nil || len(names) == 0 {
			t.Fatalf("%d snapshots removed: %v", len(names), err)
		}
	})
	f.wantState(t, batches)
}

func restartWithOpenOutcomes(t *testing.T) {
	f := setUp(t)
	batches := f.fiveWithoutAcks(t)
	for range 2 {
		f.restart(t, 9, nil)
		f.wantRetries(t, batches)
	}
	f.wantLog(t, 5)
	f.stored(t, 10, 1)
}

// atSnapshotCall is true for the nth call of the file system that has to do with a
// snapshot of producers, and for the syncs of directories between them.
func atSnapshotCall(nth int) func(vfs.Op, string) bool {
	calls, begun := 0, false
	return func(op vfs.Op, name string) bool {
		begun = begun || op == vfs.OpCreate && strings.Contains(name, "producers-")
		if begun && (op == vfs.OpSyncDir || strings.Contains(name, "producers-")) {
			calls++
		}
		return calls == nth
	}
}

func crashInASnapshot(t *testing.T) {
	everything := func(vfs.Unsynced) bool { return true } // a process that is killed
	named := func(u vfs.Unsynced) bool { return u.Kind == vfs.UnsyncedName }
	for name, keep := range map[string]func(vfs.Unsynced) bool{"killed": everything, "power off": nil, "only names": named} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, servertest.InMemory())
			steps := 0
			// A batch more, and the stop breaks off a step later. The end of the steps may
			// never come: what a power cut brings back is there to be removed next time.
			for n := 1; n <= 24; n++ {
				batches := f.stored(t, batchfmt.Seq(2*(n-1)), 1)
				f.c.Conn.CloseWithError(0, "")
				crashed := f.CrashInStop(atSnapshotCall(n), keep)
				f.reconnect(t, batchfmt.Seq(2*n-1))
				f.lane.Produce(batches[0])
				wantStored(t, f.lane.Result(), batchfmt.Offset(2*(n-1)), true)
				f.wantLog(t, n)
				if !crashed {
					break
				}
				steps++
			}
			if steps < 5 {
				t.Errorf("writing a snapshot took %d calls: it is not seen", steps)
			}
		})
	}
}

func drainInFlight(t *testing.T) {
	// Long enough on any machine: the client leaves as soon as it has its answer.
	f := setUp(t, servertest.Configure(func(c *server.Config) { c.Drain = time.Minute }))
	began, release := f.HoldSync()
	b := f.batch(t, 0, two(0)...)
	f.lane.Produce(b)
	<-began
	f.appended(t, 9)
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
	f.c.Conn.CloseWithError(0, "")
	<-stopped
	f.reconnect(t, 1)
	f.lane.Produce(b)
	wantStored(t, f.lane.Result(), 0, true)
	f.wantLog(t, 1)
	f.stored(t, 2, 1)
}
