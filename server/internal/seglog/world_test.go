package seglog

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

var (
	statesFlag = flag.Int("states", 0, "how many disks the crash campaign looks at; 0 is 10,000, or 400 with -short")
	seedFlag   = flag.Uint64("seed", 0, "with which the campaigns begin")
	fullFlag   = flag.Bool("full", false, "tear at every fourth byte and flip every bit, not only a part of them")
)

// A world is a log on a disk that can do anything, and what is known of it.
type world struct {
	t    testing.TB
	r    *rand.Rand
	cfg  Config
	mem  *vfs.Mem
	disk *vfs.Faulty
	l    *Log
	m    *maker

	found   Recovery         // what the last opening found
	kept    []batchfmt.Batch // what the log should hold
	told    int              // of kept, whose offsets were told: they were synced, or there when the log was opened
	pending []batchfmt.Batch // of an append that is under way or of which nothing is known
	refused map[string]bool  // batches that were said not to be stored
	states  int
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 11)), cfg: small(), m: newMaker(), refused: map[string]bool{}}
	w.cfg.SegmentBytes = []int64{700, 2000, 12_000}[seed%3]
	if w.cfg.SegmentBytes == 12_000 {
		w.cfg.FillBytes = 2500
	}
	w.mem = vfs.NewMem()
	w.disk = vfs.NewFaulty(w.mem)
	return w
}

func (w *world) group() []batchfmt.Batch {
	var group []batchfmt.Batch
	for range 1 + w.r.IntN(3) {
		if w.r.IntN(6) == 0 {
			group = append(group, w.m.control(w.t))
		} else {
			group = append(group, w.m.batch(w.t, 1+w.r.IntN(3), w.r.IntN(250)))
		}
	}
	return group
}

// append appends a group and notes what became of it.
func (w *world) append() error {
	before := w.m.next
	group := w.group()
	w.pending = group
	err := w.l.Append(group)
	switch {
	case err == nil:
		w.kept, w.pending = append(w.kept, group...), nil
	case errors.Is(err, ErrBroken):
		w.m.next = before
	default:
		w.m.next, w.pending = before, nil
		for _, b := range group {
			w.refused[string(b.Bytes())] = true
		}
	}
	return err
}

func (w *world) sync() error {
	end, err := w.l.Sync()
	if err != nil {
		return err
	}
	if end != w.m.next {
		w.t.Fatalf("durable end is %d, want %d", end, w.m.next)
	}
	w.told, w.m.durable = len(w.kept), end
	return nil
}

// open opens the log and makes what it holds what is known: it is told from now on.
func (w *world) open(fs vfs.FS) error {
	l, info, err := Open(fs, testDir, w.cfg)
	if err != nil {
		return err
	}
	w.l, w.found = l, info
	got, damage := replayAll(w.t, l)
	w.check(got, damage)
	w.kept, w.told, w.pending = got, len(got), nil
	w.m.next, w.m.durable = l.End(), l.End()
	w.m.term++
	return nil
}

// check compares what a log holds with what it may: all that was told, nothing that was not
// appended or was refused, in order. These disks lose nothing that was synced, so there may
// be no damage.
func (w *world) check(got []batchfmt.Batch, damage []DamagedRange) {
	w.t.Helper()
	if len(damage) > 0 {
		w.t.Fatalf("damage: %+v", damage)
	}
	for _, b := range got {
		if w.refused[string(b.Bytes())] {
			w.t.Fatalf("the batch at offset %d was refused, and is there", b.BaseOffset())
		}
	}
	may := append(w.kept[:len(w.kept):len(w.kept)], w.pending...)
	if len(got) < w.told || len(got) > len(may) {
		w.t.Fatalf("%d batches are there; %d were told, %d appended", len(got), w.told, len(may))
	}
	wantBatches(w.t, got, may[:len(got)])
}

// look opens a disk as a crash left it, and once more after a second crash: what the first
// has told must be there.
func (w *world) look(mem *vfs.Mem) []batchfmt.Batch {
	w.t.Helper()
	w.states++
	report, verifyErr := Verify(mem, testDir, func(f Finding) {
		if f.Kind == FoundDamage || f.Kind == FoundOrder {
			w.t.Fatalf("Verify says %v", f)
		}
	})
	l, info, err := Open(mem, testDir, w.cfg)
	must(w.t, err)
	got, damage := replayAll(w.t, l)
	w.check(got, damage)
	if verifyErr == nil && report.End != info.End || verifyErr != nil && info.End > 0 {
		w.t.Fatalf("Verify says that the log ends at %d, and it opens with %d: %v", report.End, info.End, verifyErr)
	}
	for _, crashed := range []*vfs.Mem{mem.CrashClone(), mem.CrashCloneRandom(w.r)} {
		again, info, err := Open(crashed, testDir, w.cfg)
		must(w.t, err)
		twice, damage := replayAll(w.t, again)
		if err := sameBatches(twice, got); err != nil || len(damage) > 0 || info.Cut != nil {
			w.t.Fatalf("recovered twice: %v, damage %+v, cut %+v", err, damage, info.Cut)
		}
	}
	return got
}

// lookWithin opens a disk as a crash left it, with another crash at every call of the
// recovery: all must come to the same.
func (w *world) lookWithin(crashed *vfs.Mem) {
	w.t.Helper()
	want := w.look(crashed.CrashClone())
	mem := crashed.CrashClone()
	disk := vfs.NewFaulty(mem)
	call := 0
	disk.Observe(func(op vfs.Op, name string) {
		call++
		if op == vfs.OpRead || op == vfs.OpSize || op == vfs.OpStat {
			return // nothing has changed since the call before
		}
		for _, c := range []*vfs.Mem{mem.CrashClone(), mem.CrashCloneRandom(w.r)} {
			w.states++
			l, _, err := Open(c, testDir, w.cfg)
			must(w.t, err)
			got, damage := replayAll(w.t, l)
			if err := sameBatches(got, want); err != nil || len(damage) > 0 {
				w.t.Fatalf("a crash in call %d of recovery, %s %s: %v, damage %+v", call, op, name, err, damage)
			}
		}
	})
	_, _, err := Open(disk, testDir, w.cfg)
	must(w.t, err)
}

// TestCrashAtEveryCall runs a mixed workload and cuts the power in front of every call that
// the log makes: with nothing kept that was not synced, with a part of it, and with all.
func TestCrashAtEveryCall(t *testing.T) {
	states := *statesFlag
	if states == 0 {
		states = 10_000
		if testing.Short() {
			states = 400
		}
	}
	seen := 0
	run := campaign.Start(t, *seedFlag)
	defer func() { run.Count("disks", seen) }()
	for seed := *seedFlag; seen < states && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			busy := false
			w.disk.Observe(func(op vfs.Op, _ string) {
				if busy || op == vfs.OpRead || op == vfs.OpSize || op == vfs.OpStat || op == vfs.OpClose {
					return
				}
				busy = true
				w.look(w.mem.CrashClone())
				if names, _ := w.mem.List(testDir); len(names) > 0 && w.r.IntN(8) == 0 {
					w.lookWithin(w.mem.CrashCloneRandom(w.r))
				} else {
					w.look(w.mem.CrashCloneRandom(w.r))
				}
				busy = false
			})
			must(t, w.open(w.disk))
			for range 25 {
				w.step()
			}
			seen += w.states
		})
	}
}

// step does one thing of the workload; no fault strikes.
func (w *world) step() {
	w.t.Helper()
	switch n := w.r.IntN(20); {
	case n < 11:
		must(w.t, w.append())
	case n < 17:
		must(w.t, w.sync())
	case n < 18:
		must(w.t, w.l.Close())
		w.told = len(w.kept)
		must(w.t, w.open(w.disk))
	case n < 19: // the process is killed, the system goes on
		must(w.t, w.open(w.disk))
	default:
		w.mem = w.mem.CrashCloneRandom(w.r)
		observer := w.disk
		w.disk = vfs.NewFaulty(w.mem)
		w.disk.Observe(observer.Observer())
		must(w.t, w.open(w.disk))
	}
}

// faults runs the workload with a disk that refuses as strike makes it, for n from 0 until
// nothing is refused any more. The log may break; then the process is started again, without
// a power cut first and with one after that.
func faults(t *testing.T, strike func(disk *vfs.Faulty, n int), every int) {
	run := campaign.Start(t, *seedFlag)
	for _, variant := range []struct {
		name    string
		prepare func(m *vfs.Mem, r *rand.Rand)
	}{
		{"a failed sync writes nothing", func(*vfs.Mem, *rand.Rand) {}},
		{"a failed sync writes a part", func(m *vfs.Mem, r *rand.Rand) { m.FailedSyncKeeps(vfs.KeepRandom(r)) }},
		{"the cache cannot be dropped", func(m *vfs.Mem, _ *rand.Rand) { m.KeepCache(true) }},
	} {
		t.Run(variant.name, func(t *testing.T) {
			for n := 0; ; n += every {
				w := newWorld(t, *seedFlag+uint64(n))
				run.Count("runs", 1)
				variant.prepare(w.mem, w.r)
				must(t, w.open(w.disk))
				calls := w.disk.Calls()
				strike(w.disk, n)
				w.suffer()
				w.disk.Heal()
				struck := w.disk.Calls() // of a run with n beyond all calls nothing is refused
				w.restart()
				if n > struck-calls {
					return
				}
			}
		})
	}
}

// suffer goes through the workload and takes what comes.
func (w *world) suffer() {
	for range 14 {
		err := w.append()
		if errors.Is(err, ErrBroken) {
			break
		}
		if err != nil { // what was refused must not come back
			w.look(w.mem.CrashCloneRandom(w.r))
		}
		if w.r.IntN(2) > 0 {
			continue
		}
		if w.sync() != nil {
			break
		}
	}
	if w.l.Err() == nil && w.r.IntN(2) == 0 && w.l.Close() == nil {
		w.told = len(w.kept)
	}
	if w.l.Err() != nil {
		if _, err := w.l.Sync(); err == nil {
			w.t.Fatal("a broken log was synced")
		}
	}
}

// restart opens the log as a process does that was killed and started again, shows what is
// there, and then cuts the power: it must still be there, and take appends.
func (w *world) restart() {
	w.t.Helper()
	must(w.t, w.open(w.disk))
	w.look(w.mem.CrashClone())
	must(w.t, w.append())
	must(w.t, w.sync())
	w.look(w.mem.CrashClone())
	w.look(w.mem.CrashCloneRandom(w.r))
}

func step16() int {
	if testing.Short() {
		return 16
	}
	return 1
}

func TestEverySyncFails(t *testing.T) {
	faults(t, func(disk *vfs.Faulty, n int) { disk.Fail(vfs.OpSync, n, 1, errTest) }, step16())
}

func TestEverySyncOfADirectoryFails(t *testing.T) {
	faults(t, func(disk *vfs.Faulty, n int) { disk.Fail(vfs.OpSyncDir, n, 1, errTest) }, step16())
}

func TestEveryCallFails(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		faults(t, func(disk *vfs.Faulty, n int) { disk.FailCall(n, 1, errTest) }, step16())
	})
	t.Run("from then on", func(t *testing.T) {
		faults(t, func(disk *vfs.Faulty, n int) { disk.FailCall(n, 1<<30, errTest) }, step16())
	})
	t.Run("once and half done", func(t *testing.T) {
		faults(t, func(disk *vfs.Faulty, n int) { disk.ShortWrite(n+1, 300, errTest) }, step16())
	})
}

// Every call of a recovery may fail, and the next one succeeds.
func TestEveryCallOfRecoveryFails(t *testing.T) {
	run := campaign.Start(t, *seedFlag)
	for n := 0; ; n += step16() {
		w := newWorld(t, *seedFlag+uint64(n%6))
		run.Count("runs", 1)
		must(t, w.open(w.disk))
		for range 12 {
			must(t, w.append())
			if w.r.IntN(3) == 0 {
				must(t, w.sync())
			}
		}
		w.mem = w.mem.CrashCloneRandom(w.r)
		w.disk = vfs.NewFaulty(w.mem)
		w.disk.FailCall(n, 1, errTest)
		l, _, err := Open(w.disk, testDir, w.cfg)
		calls := w.disk.Calls()
		w.disk.Heal()
		if err != nil {
			wantErr(t, err, errTest)
		} else {
			got, damage := replayAll(t, l)
			w.check(got, damage)
		}
		w.restart()
		if n > calls {
			return
		}
	}
}

// The disk fills up and is freed, again and again.
func TestDiskFillsUp(t *testing.T) {
	run := campaign.Start(t, *seedFlag)
	for seed := range crashSeeds() {
		w := newWorld(t, *seedFlag+seed)
		run.Count("fills", 5)
		must(t, w.open(w.disk))
		for range 5 {
			w.disk.LimitSpace(int64(w.r.IntN(6000)))
			full := 0
			for full < 3 {
				if w.append() != nil {
					full++
					must(t, w.l.Err())
					w.look(w.mem.CrashCloneRandom(w.r))
				}
				must(t, w.sync())
			}
			w.disk.Heal()
			for range 3 {
				must(t, w.append())
				must(t, w.sync())
			}
			wantBatches(t, scanAll(t, w.l), w.kept)
		}
		w.restart()
	}
}

// TestRecoveryWithoutRoom recovers on a disk that takes no new file and no further byte than
// those that are there: what the log shows then is durable as ever.
func TestRecoveryWithoutRoom(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 40
	}
	run := campaign.Start(t, *seedFlag)
	inPlace := 0
	for seed := range seeds {
		w := newWorld(t, *seedFlag+seed)
		switch seed % 3 {
		case 1:
			w.mem.FailedSyncKeeps(vfs.KeepRandom(w.r))
		case 2:
			w.mem.KeepCache(true)
		}
		must(t, w.open(w.disk))
		for range 3 + w.r.IntN(10) {
			must(t, w.append())
			if w.r.IntN(3) == 0 {
				must(t, w.sync())
			}
		}
		if w.r.IntN(2) == 0 { // a failed sync leaves pages that pass for written
			must(t, w.append())
			w.disk.FailSync(1, errTest)
			w.sync()
			w.disk.Heal()
		} else {
			w.mem = w.mem.CrashCloneRandom(w.r)
			w.disk = vfs.NewFaulty(w.mem)
		}
		// The process is killed, perhaps within the recovery, and comes up on a full disk.
		for range 2 {
			w.disk.Fail(vfs.OpCreate, 0, 1<<30, syscall.ENOSPC)
			must(t, w.open(w.disk))
			if w.found.Rewritten > 0 {
				inPlace++
			}
			w.look(w.mem.CrashClone())
			w.look(w.mem.CrashCloneRandom(w.r))
			w.disk.Heal()
		}
		w.restart()
		run.Count("recoveries", 2)
	}
	run.Count("in_place", inPlace)
	if inPlace < int(seeds)/8 {
		t.Errorf("only %d recoveries had something to write", inPlace)
	}
}

// A place is where in which file a batch stands.
type place struct {
	name     string
	pos, end int64
}

// places finds the batches on a disk, by their bytes.
func places(t testing.TB, mem *vfs.Mem) map[string]place {
	t.Helper()
	all := map[string]place{}
	names, err := mem.List(testDir)
	must(t, err)
	for _, name := range names {
		if _, ok := parseName(name, segSuffix); !ok {
			continue
		}
		b := content(t, mem, name)
		for pos := int64(segHeaderSize); pos < int64(len(b)); {
			x, err := batchfmt.Parse(b[pos:])
			if err != nil || bytes.Count(b[pos:], []byte{0}) == len(b[pos:]) {
				break
			}
			all[string(x.Bytes())] = place{name, pos, pos + int64(x.Size())}
			pos += int64(x.Size())
		}
	}
	return all
}

// TestEveryDisk cuts the power in front of every call of a small workload and looks at all
// disks that are possible, not at some: every choice of sectors, lengths and names.
func TestEveryDisk(t *testing.T) {
	limit, seeds := 11, uint64(8) // 2,048 disks a call
	if testing.Short() {
		limit, seeds = 6, 2
	}
	for seed := range seeds {
		everyDisk(t, seed, limit)
	}
}

func everyDisk(t *testing.T, seed uint64, limit int) {
	w := newWorld(t, seed)
	w.cfg.SegmentBytes = 900
	w.disk.Observe(func(op vfs.Op, _ string) {
		unsynced := w.mem.Unsynced()
		if op == vfs.OpRead || op == vfs.OpSize || op == vfs.OpStat || op == vfs.OpClose || len(unsynced) > limit {
			return
		}
		number := map[vfs.Unsynced]int{}
		for i, u := range unsynced {
			number[u] = i
		}
		for choice := range 1 << len(unsynced) {
			w.look(w.mem.CrashCloneKeeping(func(u vfs.Unsynced) bool { return choice>>number[u]&1 > 0 }))
		}
	})
	must(t, w.open(w.disk))
	for i := range 5 {
		must(t, w.append())
		if i%2 > 0 {
			must(t, w.sync())
		}
	}
	must(t, w.open(w.disk))
	must(t, w.append())
	must(t, w.l.Close())
}
