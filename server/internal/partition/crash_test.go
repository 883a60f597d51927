package partition

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

var (
	crashesFlag = flag.Int("crashes", 0, "how many disks the crash campaign looks at; 0 is 2,000 and what it takes for five workloads, or 200 with -short")
	seedFlag    = flag.Uint64("seed", 0, "the first seed of the campaigns")
)

// TestCrashAtEveryCall runs a mixed workload over a whole partition and cuts the power in
// front of every call that changes the disk: with nothing kept of what was not synced, and
// with a part of it. Starts and stops are part of the workload.
func TestCrashAtEveryCall(t *testing.T) {
	states := *crashesFlag
	if states == 0 {
		states = 2000
		if testing.Short() {
			states = 200
		}
	}
	least := uint64(0)
	if !testing.Short() {
		least = *seedFlag + 5 // the fifth world forgets lanes
	}
	run := campaign.Start(t, *seedFlag)
	seen, did := 0, map[string]int{}
	for seed := *seedFlag; (seen < states || seed < least) && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				defer w.end()
				w.mustStart()
				for range []int{0, 20, 40}[seed%3] { // some have a past
					w.step()
				}
				w.mu.watched = true
				for range 12 {
					w.step()
				}
				must(t, w.stop())
				seen += w.states
				run.Count("states", w.states)
				for what, n := range w.did() {
					did[what] += n
					run.Count(what, n)
				}
			})
		})
		run.Count("workloads", 1)
	}
	for _, what := range []string{"fences", "retirements", "forgotten lanes"} {
		if did[what] == 0 && !testing.Short() && !t.Failed() {
			t.Errorf("the workloads came to no %s: %v", what, did)
		}
	}
}

// did counts what not every workload comes to.
func (w *world) did() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	did := maps.Clone(w.mu.did)
	did["retirements"] = int(w.cfg.Counters.Producers.Retirements.Load())
	return did
}

// end leaves no goroutine behind, whatever has happened.
func (w *world) end() {
	w.stopHolding()
	for _, release := range w.mu.held {
		select {
		case <-release:
		default:
			close(release)
		}
	}
	if w.p != nil && w.p.Gone() == nil {
		w.kill(false)
	}
}

// TestCrashWithinRecovery cuts the power in front of every call of a recovery that follows
// a crash: the next one must come to the same.
func TestCrashWithinRecovery(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	seeds = max(seeds, uint64(*crashesFlag/500))
	run := campaign.Start(t, *seedFlag)
	for seed := *seedFlag; seed < *seedFlag+seeds; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.end()
			w.mustStart()
			for range 6 {
				w.step()
			}
			w.dieIn(1 + w.r.IntN(10))
			w.give(w.plan(8), true)
			w.rest()
			w.within(w.mu.mem.CrashCloneRandom(w.r))
			run.Count("states", w.states)
		})
	}
}

// within recovers a disk once without being disturbed, and then with a crash at every call.
func (w *world) within(crashed *vfs.Mem) {
	w.t.Helper()
	s := state{mem: crashed.CrashClone(), fates: slices.Clone(w.mu.fates), ended: maps.Clone(w.mu.ended), what: "undisturbed"}
	p, stored := w.lookAt(s)
	defer p.Abandon()
	mem := crashed.CrashClone()
	disk := vfs.NewFaulty(mem)
	type moment struct {
		mem  *vfs.Mem
		what string
	}
	var moments []moment
	disk.Observe(func(op vfs.Op, name string) {
		if changes(op) {
			what := fmt.Sprint("a crash in recovery before ", op, " ", name)
			moments = append(moments, moment{mem.CrashClone(), what}, moment{mem.CrashCloneRandom(w.r), what})
		}
	})
	q, err := Open(w.config(disk))
	must(w.t, err)
	disk.Observe(nil)
	q.Abandon()
	for _, m := range moments {
		w.states++
		w.wantSame(m.mem, stored, m.what)
	}
}
