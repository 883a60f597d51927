package partition

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// A failing sync may write nothing or a part, and the system may go on to show what it
// dropped.
var failedSyncs = []struct {
	name    string
	prepare func(m *vfs.Mem, r *rand.Rand)
}{
	{"a failed sync writes nothing", func(*vfs.Mem, *rand.Rand) {}},
	{"a failed sync writes a part", func(m *vfs.Mem, r *rand.Rand) { m.FailedSyncKeeps(vfs.KeepRandom(r)) }},
	{"the cache cannot be dropped", func(m *vfs.Mem, _ *rand.Rand) { m.KeepCache(true) }},
}

// everyFault says that no call and no seed is left out.
func everyFault() bool { return *crashesFlag > 0 }

// strikes runs the workload again and again, each time with one call of a kind, or of any,
// failing: the first, then a later one, until there are no more.
func strikes(t *testing.T, op vfs.Op, cause error) {
	run := campaign.Start(t, *seedFlag)
	every := 1
	switch {
	case everyFault() || op != "" && !testing.Short():
	case testing.Short():
		every = 13
	default:
		every = 3
	}
	for _, variant := range failedSyncs {
		t.Run(variant.name, func(t *testing.T) {
			for n, struck := 0, true; struck; n += every {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, *seedFlag+uint64(n))
					defer w.end()
					w.exact = false
					variant.prepare(w.mu.mem, w.r)
					w.disk.Fail(op, n, 1, cause)
					w.suffer(cause)
					struck = w.callsOf(op) > n
					w.revive()
					run.Count("faults", 1)
				})
			}
		})
	}
}

func (w *world) callsOf(op vfs.Op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.calls[op]
}

// suffer goes through starts, orders and stops while one call fails with a cause.
func (w *world) suffer(cause error) {
	w.t.Helper()
	for range 2 {
		if err, _ := w.start(); err != nil {
			w.wantCause(err, cause)
			if n := w.mu.mem.OpenFiles(); n != 0 {
				w.t.Fatalf("seed %d: a start that failed has left %d files open: %v", w.seed, n, err)
			}
			w.mustStart()
		}
		for range 5 {
			w.burst()
			if w.p.Failed() {
				w.wantStopped()
				break
			}
		}
		if err := w.stop(); err != nil {
			w.wantCause(err, cause)
		}
	}
}

func (w *world) wantCause(err, cause error) {
	w.t.Helper()
	if !errors.Is(err, cause) {
		w.t.Fatalf("seed %d: %v does not name its cause, %v", w.seed, err, cause)
	}
}

// wantStopped expects a partition that has failed to say so, to take nothing new, and to
// give again what was told before.
func (w *world) wantStopped() {
	w.t.Helper()
	if w.codes()[wire.CodeDurabilityUnknown] == 0 || w.p.Describe().Code != wire.CodePartitionStopped {
		w.t.Fatalf("seed %d: the partition has stopped and said %v", w.seed, w.codes())
	}
	w.begin()
	for _, pr := range w.producers {
		if pr.lane == nil {
			continue
		}
		fresh := w.retry(w.p, pr.lane, &w.mu.fates[w.batch(pr, pr.next)])
		var again []*answer
		for _, i := range pr.line[:pr.told] {
			again = append(again, w.retry(w.p, pr.lane, &w.mu.fates[i]))
		}
		synctest.Wait()
		// A sync that was under way when the partition stopped may have made durable what was
		// told to be unknown by then: that is a duplicate.
		if r := fresh.result; fresh.count != 1 || r.Code == wire.CodeOK && !r.Duplicate || r.Code != wire.CodeOK && r.Code.Info().Outcome == wire.Happened {
			w.t.Fatalf("seed %d: a partition that has stopped took a batch: %+v", w.seed, fresh.result)
		}
		if pr.lane.number == 0 || w.p.owner.state.Lane(pr.id).Opening() != pr.lane.number {
			continue
		}
		for n, a := range again {
			if f := w.mu.fates[pr.line[n]]; a.count != 1 || a.result.Code != wire.CodeOK || a.result.BaseOffset != f.offset {
				w.t.Fatalf("seed %d: a partition that has stopped says of what is stored at %d: %+v", w.seed, f.offset, a.result)
			}
		}
	}
}

func (w *world) codes() map[wire.Code]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.mu.codes)
}

// revive starts the next process on a disk that works: what was told is there, also after a
// power cut, and everything goes on.
func (w *world) revive() {
	w.t.Helper()
	w.kill(false) // the disk is another one now, without faults
	w.mustStart()
	w.lookNow("a start after a fault")
	w.goOn(2)
	must(w.t, w.stop())
	w.lookNow("all is well again")
}

// goOn expects the right answer to everything.
func (w *world) goOn(bursts int) {
	w.t.Helper()
	w.begin()
	w.exact = true
	for range bursts {
		w.burst()
	}
	w.exact = false
}

// lookNow looks at two disks that a power cut could leave now.
func (w *world) lookNow(what string) {
	w.t.Helper()
	w.mu.Lock()
	w.capture(what)
	w.mu.Unlock()
	w.rest()
}

func TestEveryCallFailsWithEIO(t *testing.T)    { strikes(t, "", syscall.EIO) }
func TestEveryCallFailsWithENOSPC(t *testing.T) { strikes(t, "", syscall.ENOSPC) }

func TestEverySyncFails(t *testing.T) {
	strikes(t, vfs.OpSync, syscall.EIO)
	t.Run("of a directory", func(t *testing.T) { strikes(t, vfs.OpSyncDir, syscall.EIO) })
}

// A lane that cannot be read is not taken for one that is not there. Whatever is read of lanes
// that have left memory fails once.
func TestEveryReadOfARowFails(t *testing.T) {
	run := campaign.Start(t, *seedFlag)
	every := uint64(1)
	if testing.Short() {
		every = 13
	}
	rounds := uint64(60)
	if everyFault() {
		rounds = uint64(*crashesFlag)
	}
	for seed := *seedFlag; seed < *seedFlag+rounds; seed += every {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.end()
			w.mustStart()
			for range 15 {
				w.burst()
			}
			w.exact = false
			var left atomic.Int64
			left.Store(w.r.Int64N(4))
			w.disk.Observe(func(op vfs.Op, name string) {
				if op == vfs.OpRead && strings.HasPrefix(filepath.Base(name), "retired") && left.Add(-1) == -1 {
					w.disk.Fail(op, 0, 1, syscall.EIO)
				}
				w.observe(op, name)
			})
			for n := 0; n < 20 && left.Load() >= 0; n++ {
				w.burst()
			}
			if left.Load() < 0 {
				run.Count("faults", 1)
			}
			must(t, w.stop())
			w.revive()
		})
	}
}

// What was answered before the sync failed is durable, what waited for it is unknown, and
// after a start it is as the disk has it, whatever the system shows.
func TestFailedSyncStopsThePartition(t *testing.T) {
	run := campaign.Start(t, *seedFlag)
	for _, variant := range failedSyncs {
		t.Run(variant.name, func(t *testing.T) {
			for seed := *seedFlag; seed < *seedFlag+30; seed++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed)
					defer w.end()
					w.exact = false
					variant.prepare(w.mu.mem, w.r)
					w.mustStart()
					w.burst()
					for n := 0; !w.p.Failed(); n++ {
						if n > 50 {
							t.Fatalf("seed %d: syncs fail and the partition goes on", seed)
						}
						w.disk.Heal()
						w.disk.Fail(vfs.OpSync, 0, 1, syscall.EIO) // a second one would succeed
						w.burst()
					}
					w.disk.Heal()
					w.wantStopped()
					w.burst()
					if w.p.Describe().HighWatermark > w.told() {
						t.Fatalf("seed %d: readers see up to %d, told was %d", seed, w.p.HighWatermark(), w.told())
					}
					if err := w.stop(); err != nil {
						w.wantCause(err, syscall.EIO)
					}
					w.revive()
					run.Count("faults", 1)
				})
			}
		})
	}
}

// told is the offset behind the last batch that was said to be stored.
func (w *world) told() batchfmt.Offset {
	end := batchfmt.Offset(0)
	for _, f := range w.mu.fates {
		if f.offset >= 0 {
			end = max(end, f.offset+batchfmt.Offset(f.id.Last-f.id.Base)+1)
		}
	}
	return end
}

// A disk that is full, of bytes or of names, refuses what is new and says why; what is
// stored is read; and when there is room again all goes on without a restart.
func TestDiskFillsUpAndIsFreed(t *testing.T) {
	run := campaign.Start(t, *seedFlag)
	seeds := uint64(20)
	if everyFault() {
		seeds = uint64(*crashesFlag / 50)
	}
	for seed := *seedFlag; seed < *seedFlag+seeds; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.end()
			w.exact = false
			w.mustStart()
			for round := range 5 {
				if round%2 == 0 {
					w.disk.LimitSpace(int64(w.r.IntN(4000)))
				} else {
					w.disk.Fail(vfs.OpCreate, w.r.IntN(3), math.MaxInt, syscall.ENOSPC)
				}
				full := w.codes()[wire.CodeDiskFull]
				for n := 0; n < 40 && w.codes()[wire.CodeDiskFull] < full+3; n++ {
					w.burst()
					w.read()
				}
				if round%2 == 0 && w.codes()[wire.CodeDiskFull] == full {
					t.Fatalf("seed %d: nobody says that the disk is full: %v", seed, w.codes())
				}
				w.lookNow("the disk is full")
				w.disk.Heal()
				if w.p.Failed() {
					t.Fatalf("seed %d: a full disk has stopped the partition: %v", seed, w.codes())
				}
				w.goOn(3)
				run.Count("fillings", 1)
			}
			must(t, w.stop())
			w.revive()
		})
	}
}
