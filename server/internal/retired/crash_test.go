package retired

import (
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

var (
	every = flag.Int("retired.every", 13, "look at every n-th I/O call of a workload")
	puts  = flag.Int("retired.puts", 34, "puts of a workload")
	seed  = flag.Uint64("retired.seed", 1, "of the workloads")
)

// workload puts and maintains as a partition does: a few producers come back often, others
// never; names go away. step is told before each Put what will be put.
func workload(m *model, table *Table, r *rand.Rand, puts int, step func(rows []Row)) (errs []error) {
	fresh := pid(100)
	for i := range puts {
		var ids []pid
		for range 1 + r.IntN(4) {
			fresh++
			switch r.IntN(4) {
			case 0:
				ids = append(ids, pid(1+r.IntN(6)))
			case 1:
				ids = append(ids, producerstate.GatewaySpace+fresh)
			default:
				ids = append(ids, fresh)
			}
		}
		rows := m.rowsOf(ids...)
		step(rows)
		errs = append(errs, m.put(table, rows))
		if r.IntN(3) == 0 {
			step(nil)
			_, err := table.Maintain()
			errs = append(errs, err)
		}
		if i%5 == 4 {
			m.gone[fresh-pid(r.IntN(8))] = true
		}
	}
	return errs
}

// TestCrashAtEveryCall looks, at each I/O call of a workload, at disks that a power cut may
// leave there. What was put is there or forgotten, nothing is damaged, opening a second time
// finds the same, and the table goes on.
func TestCrashAtEveryCall(t *testing.T) {
	t.Run("dropping", func(t *testing.T) { crashAtEveryCall(t, dropping) })
	t.Run("merging", func(t *testing.T) { crashAtEveryCall(t, merging) })
}

func crashAtEveryCall(t *testing.T, maxRows int) {
	run := campaign.Start(t, *seed)
	mem := newDisk(t)
	f := vfs.NewFaulty(mem)
	m := newModel()
	m.max = maxRows
	r := rand.New(rand.NewPCG(*seed, 1))
	table := mustOpenWhole(t, f, m.options())
	var doing []Row
	calls, merged, looking := 0, 0, false
	f.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpRemove && strings.HasSuffix(name, runSuffix) && !looking {
			merged++
		}
		if calls++; calls%*every != 0 || looking {
			return
		}
		looking = true
		defer func() { looking = false }()
		for _, disk := range []*vfs.Mem{
			mem.CrashClone(), mem.CrashCloneRandom(r), mem.CrashCloneRandom(r),
			mem.CrashCloneKeeping(func(vfs.Unsynced) bool { return true }),
		} {
			c := m.clone()
			c.attempt(doing)
			lookAfterCrash(t, disk, c, table.ForgottenUpTo())
			run.Count("states", 1)
		}
	})
	for _, err := range workload(m, table, r, *puts, func(rows []Row) { doing = rows }) {
		must(t, err)
	}
	f.Observe(nil)
	m.check(t, table, false)
	if dropped := table.ForgottenUpTo() > 0; !dropped && maxRows == dropping || merged == 0 {
		t.Fatalf("the workload dropped: %v, and made %d runs of others: %+v", dropped, merged, table.Stats())
	}
	must(t, table.Close())
	if n := mem.OpenFiles(); n != 0 {
		t.Fatalf("%d files are open", n)
	}
}

func lookAfterCrash(t *testing.T, disk *vfs.Mem, m *model, forgotten pid) {
	t.Helper()
	table := mustOpenWhole(t, disk, m.options())
	m.check(t, table, true)
	if table.ForgottenUpTo() < forgotten {
		t.Fatalf("forgotten was %d, now %d", forgotten, table.ForgottenUpTo())
	}
	must(t, table.Close())
	disk = disk.CrashClone()
	table, report := mustOpen(t, disk, m.options())
	if len(report.Damage) > 0 {
		t.Fatalf("the second time: %+v", report)
	}
	m.check(t, table, true)
	rows := m.rowsOf(2, m.most+1)
	must(t, m.put(table, rows))
	upkeep(t, table)
	m.check(t, table, false)
	must(t, table.Close())
	if found := verify(t, disk); len(found) > 0 {
		t.Fatalf("findings: %v", found)
	}
}

// TestEveryCallFails makes each I/O call of a workload fail once. The table answers as if
// what failed had not been tried, goes on, and a restart finds what was put.
func TestEveryCallFails(t *testing.T) {
	for name, err := range map[string]error{"once with an I/O error": syscall.EIO, "once for lack of space": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) { everyCall(t, 1, err) })
	}
	t.Run("and all after it", func(t *testing.T) { everyCall(t, math.MaxInt, errTest) })
}

func everyCall(t *testing.T, times int, fault error) {
	run := campaign.Start(t, *seed)
	for at := 0; ; at += *every {
		mem := newDisk(t)
		f := vfs.NewFaulty(mem)
		m := newModel()
		m.max = []int{dropping, merging}[at / *every % 2]
		r := rand.New(rand.NewPCG(*seed, 2))
		table := mustOpenWhole(t, f, m.options())
		f.FailCall(at, times, fault)
		opened := f.Calls()
		workload(m, table, r, 22, func([]Row) {
			if times == 1 && f.Calls()-opened > at {
				m.check(t, table, false)
			}
		})
		done := f.Calls()-opened <= at
		f.Heal()
		m.check(t, table, false)
		forgotten := table.ForgottenUpTo()
		lookAfterCrash(t, mem.CrashClone(), m.clone(), forgotten)
		lookAfterCrash(t, mem.CrashCloneRandom(r), m.clone(), forgotten)
		must(t, m.put(table, m.rowsOf(3, 4)))
		upkeep(t, table)
		m.check(t, table, false)
		must(t, table.Close())
		if n := mem.OpenFiles(); n != 0 {
			t.Fatalf("%d files are open", n)
		}
		run.Count("calls", 1)
		if done {
			return
		}
	}
}

// TestOpenFails makes each I/O call of an Open fail: it opens, or refuses and leaves
// everything as it was.
func TestOpenFails(t *testing.T) {
	mem := newDisk(t)
	m := newModel()
	table := mustOpenWhole(t, mem, m.options())
	workload(m, table, rand.New(rand.NewPCG(*seed, 3)), 10, func([]Row) {})
	must(t, table.Close())
	for at := 0; ; at++ {
		disk := mem.CrashClone()
		writeFile(t, disk, runName(999)+tempSuffix, []byte("left by a crash"))
		f := vfs.NewFaulty(disk)
		f.FailCall(at, 1, errTest)
		table, report, err := Open(f, testDir, m.options())
		if err == nil {
			if len(report.Damage) > 0 {
				t.Fatalf("damage: %v", report.Damage)
			}
			must(t, table.Close())
		} else {
			wantErr(t, err, errTest)
		}
		if n := disk.OpenFiles(); n != 0 {
			t.Fatalf("%d files are open", n)
		}
		table = mustOpenWhole(t, disk, m.options())
		m.check(t, table, true)
		must(t, table.Close())
		if f.Calls() <= at {
			return
		}
	}
}

// TestDiskFillsUp puts until the disk is full, at every size, and goes on when there is room.
func TestDiskFillsUp(t *testing.T) {
	for space := int64(0); space < 60_000; space += 1301 {
		mem := newDisk(t)
		f := vfs.NewFaulty(mem)
		m := newModel()
		table := mustOpenWhole(t, f, m.options())
		r := rand.New(rand.NewPCG(*seed, 4))
		f.LimitSpace(space)
		for _, err := range workload(m, table, r, 22, func([]Row) {}) {
			if err != nil {
				wantErr(t, err, syscall.ENOSPC)
			}
		}
		m.check(t, table, false)
		f.Heal()
		lookAfterCrash(t, mem.CrashClone(), m.clone(), table.ForgottenUpTo())
		must(t, m.put(table, m.rowsOf(5, 6)))
		upkeep(t, table)
		m.check(t, table, false)
		must(t, table.Close())
		if found := verify(t, mem); len(found) > 0 {
			t.Fatalf("findings: %v", found)
		}
	}
}
