package partition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/planted"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/retired"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

const (
	// defaultSnapshotBytes is well under a second of reading.
	defaultSnapshotBytes = 64 << 20

	snapshotPrefix = "producers-"
	snapshotSuffix = ".snap"
	tempSuffix     = ".tmp"
)

// A pendingSnapshot was taken and must not be written before all that it says is durable:
// else it could know of batches that a crash took away.
type pendingSnapshot struct {
	end      batchfmt.Offset
	controls uint64 // control batches that it knows of
	bytes    []byte
}

func snapshotName(end batchfmt.Offset) string {
	return fmt.Sprintf("%s%020d%s", snapshotPrefix, end, snapshotSuffix)
}

// checkpoint is what the newest snapshot that verifies holds.
type checkpoint struct {
	state  *producerstate.State // nil if there is none
	end    batchfmt.Offset      // all below it was durable when the snapshot was written
	unread error                // the disk did not give back one that may be newer
}

// newestSnapshot reads the newest snapshot that verifies.
func newestSnapshot(cfg Config) (checkpoint, error) {
	names, err := snapshots(cfg.FS, cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint{}, nil
	}
	if err != nil {
		return checkpoint{}, err
	}
	var unread error
	for _, name := range slices.Backward(names) {
		state, end, err := readSnapshot(cfg.FS, filepath.Join(cfg.Dir, name), cfg.id())
		if err == nil {
			return checkpoint{state: state, end: end, unread: unread}, nil
		}
		cfg.discarded(name, err)
		var bad *producerstate.SnapshotError
		if !errors.As(err, &bad) {
			unread = err
		}
	}
	return checkpoint{unread: unread}, nil
}

// id is what the partition's snapshots carry.
func (cfg Config) id() *producerstate.Partition {
	return &producerstate.Partition{TopicID: cfg.TopicID, Number: cfg.Number}
}

func (cfg Config) discarded(name string, why error) {
	cfg.Logger.Warn("producer snapshot discarded", "topic", cfg.Topic, "partition", cfg.Number, "file", name, "reason", why)
}

// recoverState rebuilds the producer state: the newest snapshot that verifies, and the
// batches behind it. What stood in a damaged part of the log that no snapshot covers is
// not known, and the state says so from then on; lost reports whether there was any.
func recoverState(cfg Config, log *seglog.Log, table *retired.Table, newest checkpoint) (state *producerstate.State, lost bool, err error) {
	if err := removeLeftovers(cfg.FS, cfg.Dir); err != nil {
		return nil, false, err
	}
	state, from, err := beginning(cfg, log, newest)
	if err != nil {
		return nil, false, err
	}
	if planted.NoReplay {
		from = log.End()
	}
	limit := producerstate.New(cfg.Producers).Limits().MaxLanes
	var holes []seglog.DamagedRange
	err = log.Replay(from, func(b batchfmt.Batch) error {
		if err := bringBack(state, table, b.ProducerID()); err != nil {
			return err
		}
		state.Replay(b)
		if state.Len() > 2*limit && !makeRoomInReplay(cfg, state, table, limit, log.End()) {
			limit = math.MaxInt / 2
		}
		return nil
	}, func(d seglog.DamagedRange) error {
		holes = append(holes, d)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("rebuild producer state: %w", err)
	}
	if len(holes) > 0 {
		if err := forgetHoles(cfg, state, holes, from); err != nil {
			return nil, false, err
		}
	}
	state.SetLimits(cfg.Producers)
	if state.Len() > limit {
		makeRoomInReplay(cfg, state, table, limit, log.End())
	}
	return state, len(holes) > 0, nil
}

// makeRoomInReplay lets as many lanes leave memory as are over the limit. If that cannot be,
// they stay: there is no room for newcomers then, and nothing is forgotten.
func makeRoomInReplay(cfg Config, state *producerstate.State, table *retired.Table, limit int, durable batchfmt.Offset) (done bool) {
	leavers := state.Leavers(state.Len()-limit, 0, durable)
	table.Vouch(durable)
	if err := table.Put(cfg.rows(leavers)); err != nil {
		cfg.Logger.Warn("producers over the limit stay in memory", "topic", cfg.Topic, "partition", cfg.Number, "lanes", state.Len(), "error", err)
		return false
	}
	state.SetRetired(table.Generation())
	for _, l := range leavers {
		state.Evict(l)
	}
	return true
}

// bringBack gives a lane that goes on behind the snapshot, and had left memory before it,
// what it had then.
func bringBack(state *producerstate.State, table *retired.Table, pid batchfmt.ProducerID) error {
	if pid == batchfmt.NoProducer || state.Lane(pid).Known() {
		return nil
	}
	row, ok, err := table.Get(pid)
	switch {
	case errors.Is(err, retired.ErrDamaged):
		return nil // its lane begins with the batch, and of what was before nothing is claimed
	case err != nil || !ok:
		return err
	}
	if err := state.Restore(pid, producerstate.Retired{Row: row.Value, Stale: row.Stale}); err != nil {
		return fmt.Errorf("retired producer: %w", err)
	}
	return nil
}

// forgetHoles says to the state what it cannot know, when it has seen all the rest; from is
// where the replay began.
func forgetHoles(cfg Config, state *producerstate.State, holes []seglog.DamagedRange, from batchfmt.Offset) error {
	for _, d := range holes {
		if d.Next > from { // else the snapshot knows every lane that was in there
			last, err := cfg.LastProducerID()
			if err != nil {
				return err
			}
			state.Forget(last)
		}
		// A range without records, or the end of one that the snapshot knows, may have
		// held a fence of the lanes before it.
		state.Lost(d.From, max(d.Next, d.From+1))
	}
	return nil
}

// beginning is the state from which the replay goes on, and the offset from which.
func beginning(cfg Config, log *seglog.Log, newest checkpoint) (*producerstate.State, batchfmt.Offset, error) {
	start, end := log.Start(), log.End()
	if newest.state != nil && start <= newest.end && (newest.end <= end || planted.SnapshotBeyondEnd) {
		return newest.state, min(newest.end, end), nil
	}
	if newest.state != nil {
		cfg.discarded(snapshotName(newest.end), fmt.Errorf("it ends at offset %d, the log is [%d,%d)", newest.end, start, end))
	}
	state := producerstate.New(cfg.Producers)
	if start > 0 && newest.unread != nil {
		return nil, 0, newest.unread // it may be readable again: nothing is forgotten for that
	}
	if start > 0 {
		last, err := cfg.LastProducerID()
		if err != nil {
			return nil, 0, err
		}
		state.Forget(last)
		cfg.Logger.Error("the partition has lost the history of its producers",
			"topic", cfg.Topic, "partition", cfg.Number, "log_start", start)
	}
	return state, start, nil
}

// removeLeftovers removes snapshots that a crash has left half written.
func removeLeftovers(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, snapshotPrefix) && strings.HasSuffix(name, snapshotSuffix+tempSuffix) {
			if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshots lists the snapshot files, oldest first.
func snapshots(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list producer snapshots: %w", err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, snapshotPrefix) || !strings.HasSuffix(name, snapshotSuffix)
	}), nil
}

func readSnapshot(fsys vfs.FS, name string, of *producerstate.Partition) (*producerstate.State, batchfmt.Offset, error) {
	size, err := fsys.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if size > producerstate.MaxSnapshotBytes {
		return nil, 0, fmt.Errorf("%d bytes are over the limit, %d", size, producerstate.MaxSnapshotBytes)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n == len(b) || errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, 0, err
	}
	return producerstate.ParseSnapshot(b[:n], of)
}

// saveSnapshot takes a snapshot when one is due, and writes the one that was taken when
// everything in it is durable.
func (p *Partition) saveSnapshot() {
	o := &p.owner
	if o.snapshot == nil && o.unsaved >= p.cfg.SnapshotBytes && !o.saving {
		o.snapshot = &pendingSnapshot{
			end: o.end, controls: o.controls.appended, bytes: producerstate.AppendSnapshot(nil, o.state, *p.cfg.id(), o.end),
		}
		o.unsaved = 0
	}
	if o.snapshot == nil || !planted.EarlySnapshot && (o.snapshot.end > o.durable || o.snapshot.controls > o.controls.durable) {
		return
	}
	s := o.snapshot
	o.snapshot, o.saving = nil, true
	p.helpers.Add(1)
	go func() { // ends when the file is written; end waits for it
		defer p.helpers.Done()
		p.writeSnapshot(s)
		p.do(func() { p.owner.saving = false })
	}()
}

// saveFinalSnapshot makes the next start quick. The owner is the only one left, but for
// helpers that may still be writing an older snapshot under another name.
func (p *Partition) saveFinalSnapshot() {
	o := &p.owner
	if o.failure != nil || o.unsaved == 0 && o.snapshot == nil {
		return
	}
	p.writeSnapshot(&pendingSnapshot{end: o.end, bytes: producerstate.AppendSnapshot(nil, o.state, *p.cfg.id(), o.end)})
}

// writeSnapshot writes a snapshot and removes those that are too old. A failure costs
// time at the next start and nothing else: the log has it all.
func (p *Partition) writeSnapshot(s *pendingSnapshot) {
	p.snapshots.Lock() // the last one may come while a helper writes the one before
	defer p.snapshots.Unlock()
	err := p.store(s)
	if err != nil {
		p.cfg.Logger.Warn("producer snapshot not written", "topic", p.cfg.Topic, "partition", p.cfg.Number, "error", err)
	}
}

func (p *Partition) store(s *pendingSnapshot) error {
	err := storeSnapshot(p.cfg.FS, p.cfg.Dir, p.cfg.id(), s)
	if err != nil {
		p.cfg.Counters.Snapshots.Failed.Add(1)
	} else {
		p.cfg.Counters.Snapshots.Written.Add(1)
	}
	return err
}

// storeSnapshot writes a snapshot by way of a temporary file, which is synced and read
// back past the system's memory before it gets its name.
func storeSnapshot(fsys vfs.FS, dir string, of *producerstate.Partition, s *pendingSnapshot) error {
	name := filepath.Join(dir, snapshotName(s.end))
	temp := name + tempSuffix
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(s.bytes, 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = vfs.DropCache(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		_, _, err = readSnapshot(fsys, temp, of)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(temp))
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	return removeOldSnapshots(fsys, dir, of)
}

// removeOldSnapshots keeps the newest snapshot and the newest other one that verifies, in
// case the first does not any more when it is needed.
func removeOldSnapshots(fsys vfs.FS, dir string, of *producerstate.Partition) error {
	names, err := snapshots(fsys, dir)
	if err != nil || len(names) < 2 {
		return err
	}
	spare := len(names) - 2
	for spare > 0 {
		if _, _, err := readSnapshot(fsys, filepath.Join(dir, names[spare]), of); err == nil {
			break
		}
		spare--
	}
	for _, name := range names[:spare] {
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Describe is what there is to say of the partition to people.
func (p *Partition) Describe() wire.PartitionInfo {
	info := wire.PartitionInfo{LogStart: p.LogStart(), HighWatermark: p.HighWatermark()}
	for _, s := range p.log.Segments() {
		info.Bytes += s.Bytes
	}
	if p.Failed() {
		info.Code = wire.CodePartitionStopped
	}
	return info
}
