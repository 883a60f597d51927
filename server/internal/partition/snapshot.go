package partition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
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
	end   batchfmt.Offset
	bytes []byte
}

func snapshotName(end batchfmt.Offset) string {
	return fmt.Sprintf("%s%020d%s", snapshotPrefix, end, snapshotSuffix)
}

// checkpoint is what the newest snapshot that verifies holds.
type checkpoint struct {
	state *producerstate.State // nil if there is none
	end   batchfmt.Offset      // all below it was durable when the snapshot was written
}

// newestSnapshot reads the newest snapshot that verifies. It comes before the log is
// opened, because its end says how far the log was durable once.
func newestSnapshot(cfg Config) (checkpoint, error) {
	names, err := snapshots(cfg.FS, cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint{}, nil
	}
	if err != nil {
		return checkpoint{}, err
	}
	for _, name := range slices.Backward(names) {
		state, end, err := readSnapshot(cfg.FS, filepath.Join(cfg.Dir, name))
		if err == nil {
			return checkpoint{state: state, end: end}, nil
		}
		cfg.discarded(name, err)
	}
	return checkpoint{}, nil
}

func (cfg Config) discarded(name string, why error) {
	cfg.Logger.Warn("producer snapshot discarded", "topic", cfg.Topic, "partition", cfg.Number, "file", name, "reason", why)
}

// recoverState rebuilds the producer state: the newest snapshot that verifies, and the
// batches behind it. What stood in a damaged part of the log that no snapshot covers is
// not known, and the state says so from then on; lost reports whether there was any.
func recoverState(cfg Config, log *seglog.Log, newest checkpoint) (state *producerstate.State, lost bool, err error) {
	if err := removeLeftovers(cfg.FS, cfg.Dir); err != nil {
		return nil, false, err
	}
	state, from, err := beginning(cfg, log, newest)
	if err != nil {
		return nil, false, err
	}
	var holes []seglog.DamagedRange
	err = log.Replay(from, func(b batchfmt.Batch) error {
		state.Replay(b)
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
	return state, len(holes) > 0, nil
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
	if newest.state != nil && start <= newest.end && newest.end <= end {
		return newest.state, newest.end, nil
	}
	if newest.state != nil {
		cfg.discarded(snapshotName(newest.end), fmt.Errorf("it ends at offset %d, the log is [%d,%d)", newest.end, start, end))
	}
	state := producerstate.New(cfg.Producers)
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

func readSnapshot(fsys vfs.FS, name string) (*producerstate.State, batchfmt.Offset, error) {
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
	return producerstate.ParseSnapshot(b[:n])
}

// saveSnapshot takes a snapshot when one is due, and writes the one that was taken when
// everything in it is durable.
func (p *Partition) saveSnapshot() {
	o := &p.owner
	if o.snapshot == nil && o.unsaved >= p.cfg.SnapshotBytes && !o.saving {
		o.snapshot = &pendingSnapshot{end: o.end, bytes: producerstate.AppendSnapshot(nil, o.state, o.end)}
		o.unsaved = 0
	}
	if o.snapshot == nil || o.snapshot.end > o.durable {
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
	p.writeSnapshot(&pendingSnapshot{end: o.end, bytes: producerstate.AppendSnapshot(nil, o.state, o.end)})
}

// writeSnapshot writes a snapshot and removes those that are too old. A failure costs
// time at the next start and nothing else: the log has it all.
func (p *Partition) writeSnapshot(s *pendingSnapshot) {
	p.snapshots.Lock() // the last one may come while a helper writes the one before
	defer p.snapshots.Unlock()
	err := storeSnapshot(p.cfg.FS, p.cfg.Dir, s)
	if err != nil {
		p.cfg.Logger.Warn("producer snapshot not written", "topic", p.cfg.Topic, "partition", p.cfg.Number, "error", err)
	}
}

// storeSnapshot writes a snapshot by way of a temporary file, which is synced and read
// back past the system's memory before it gets its name.
func storeSnapshot(fsys vfs.FS, dir string, s *pendingSnapshot) error {
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
		_, _, err = readSnapshot(fsys, temp)
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
	return removeOldSnapshots(fsys, dir)
}

// removeOldSnapshots keeps the newest snapshot and the newest other one that verifies, in
// case the first does not any more when it is needed.
func removeOldSnapshots(fsys vfs.FS, dir string) error {
	names, err := snapshots(fsys, dir)
	if err != nil || len(names) < 2 {
		return err
	}
	spare := len(names) - 2
	for spare > 0 {
		if _, _, err := readSnapshot(fsys, filepath.Join(dir, names[spare])); err == nil {
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
