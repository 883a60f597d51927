package retired

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

var flips = flag.Int("retired.flips", 397, "flip every n-th bit of a table")

// damagedTable is a table of some runs, some of several blocks, with producers in more than
// one of them.
func damagedTable(t *testing.T) (*vfs.Mem, *model) {
	t.Helper()
	mem := newDisk(t)
	m := newModel()
	opts := m.options()
	opts.MaxRows = 1 << 20
	table := mustOpenWhole(t, mem, opts)
	for i := range 4 {
		var ids []pid
		for id := range pid(150) {
			if id%4 == pid(i) || id%7 == 0 {
				ids = append(ids, id+1)
			}
		}
		must(t, m.put(table, m.rowsOf(ids...)))
	}
	must(t, m.put(table, m.rowsOf(3, 77, 10)))
	must(t, table.Close())
	if found := verify(t, mem); len(found) > 0 {
		t.Fatalf("findings: %v", found)
	}
	return mem.CrashClone(), m
}

// never checks what damage may not lead to: a row that was never put, an old row that passes
// for the last one, a producer that passes for new.
func (m *model) never(t *testing.T, table *Table, what string) (refused int) {
	t.Helper()
	for id, tr := range m.rows {
		got, ok, err := table.Get(id)
		switch value := string(got.Value); {
		case errors.Is(err, ErrDamaged):
			refused++
		case err != nil:
			t.Fatalf("%s: Get(%d): %v", what, id, err)
		case ok && value == tr.last:
		case ok && got.Stale && slices.Contains(tr.older, value):
			refused++
		case ok:
			t.Fatalf("%s: producer %d has %q (stale %v), want %q", what, id, value, got.Stale, tr.last)
		case !table.MayHaveForgotten(id):
			t.Fatalf("%s: producer %d looks new, forgotten are those up to %d", what, id, table.ForgottenUpTo())
		default:
			refused++
		}
	}
	return refused
}

// survive opens a damaged disk and checks that nothing false is said: at once, after a restart
// that follows before anything was written, after merges of all there is, and after a restart
// that follows them.
func (m *model) survive(t *testing.T, disk *vfs.Mem, what string) (first, last int) {
	t.Helper()
	opts := m.options()
	opts.MaxRows = 1 << 20
	var damage []error
	opts.OnDamage = func(err error) { damage = append(damage, err) }
	table, report := mustOpen(t, disk, opts)
	first = m.never(t, table, what)
	if first > 0 && len(report.Damage) == 0 {
		for id := range m.rows { // then Get itself must have said so
			if _, ok, err := table.Get(id); err == nil && !ok {
				t.Fatalf("%s: producer %d is missing and nothing is said", what, id)
			}
		}
	}
	must(t, table.Close())
	table, again := mustOpen(t, disk.CrashClone(), opts)
	if again.LostUpTo != report.LostUpTo || again.Everything != report.Everything {
		t.Fatalf("%s: opening twice says %+v, then %+v", what, report, again)
	}
	m.never(t, table, what)
	must(t, table.Close())

	table, _ = mustOpen(t, disk, opts)
	for i := range pid(maxRuns) {
		must(t, table.Put([]Row{row(5000+i, "filler")}))
	}
	upkeep(t, table)
	table.view.Load().check(t)
	last = m.never(t, table, what+", merged")
	forgotten := table.ForgottenUpTo()
	must(t, table.Close())
	table = mustOpenWhole(t, disk.CrashClone(), opts)
	m.never(t, table, what+", merged and restarted")
	if table.ForgottenUpTo() != forgotten || forgotten >= 5000 {
		t.Fatalf("%s: forgotten up to %d, then %d", what, forgotten, table.ForgottenUpTo())
	}
	for i := range pid(maxRuns) {
		wantRow(t, table, row(5000+i, "filler"))
	}
	must(t, table.Close())
	return first, last
}

func (v *view) check(t *testing.T) {
	t.Helper()
	if err := v.head.check(); err != nil || len(v.runs) != len(v.head.runs) || len(v.runs) > maxRuns {
		t.Fatalf("%d runs, head %+v: %v", len(v.runs), v.head, err)
	}
}

// TestEveryBitFlips flips bits all over a table, each on a disk of its own.
func TestEveryBitFlips(t *testing.T) {
	run := campaign.Start(t)
	mem, m := damagedTable(t)
	for _, base := range list(t, mem) {
		b := content(t, mem, base)
		for bit := 0; bit < 8*len(b); bit += *flips {
			what := fmt.Sprintf("%s, bit %d", base, bit)
			disk := mem.CrashClone()
			b[bit/8] ^= 1 << (bit % 8)
			writeFile(t, disk, base, b)
			b[bit/8] ^= 1 << (bit % 8)
			if found := verify(t, disk); len(found) != 1 || found[0].Kind != FoundDamage || found[0].File != base {
				t.Fatalf("%s: findings: %v", what, found)
			}
			first, last := m.survive(t, disk, what)
			if base == headName && first+last > 0 {
				t.Fatalf("%s: one copy of the head is damaged, and %d producers are refused", what, first+last)
			}
			run.Count("bits", 1)
		}
	}
}

// TestFileIsGone removes each file and each two files of a table, and cuts each one.
func TestFileIsGone(t *testing.T) {
	mem, m := damagedTable(t)
	names := list(t, mem)
	for i, a := range names {
		for _, b := range names[i:] {
			disk := mem.CrashClone()
			must(t, disk.Remove(testDir+"/"+a))
			if a != b {
				must(t, disk.Remove(testDir+"/"+b))
			}
			must(t, disk.SyncDir(testDir))
			what := a + " and " + b + " are gone"
			if len(verify(t, disk)) == 0 {
				t.Fatalf("%s: nothing was found", what)
			}
			m.survive(t, disk, what)
		}
		whole := content(t, mem, a)
		for _, n := range []int{0, 1, 63, 64, len(whole) / 2, len(whole) - 1} {
			disk := mem.CrashClone()
			writeFile(t, disk, a, whole[:n])
			m.survive(t, disk, fmt.Sprintf("%s has %d bytes", a, n))
		}
	}
}

// TestRunIsAnotherOne puts every run in the place of every other.
func TestRunIsAnotherOne(t *testing.T) {
	mem, m := damagedTable(t)
	for _, a := range list(t, mem) {
		for _, b := range list(t, mem) {
			if a == b || a == headName || b == headName {
				continue
			}
			disk := mem.CrashClone()
			writeFile(t, disk, a, content(t, mem, b))
			if first, _ := m.survive(t, disk, b+" as "+a); first == 0 {
				t.Fatalf("%s in the place of %s was not seen", b, a)
			}
		}
	}
}

// TestFilesOfAnEarlierTime puts files of a table back that it had some puts before.
func TestFilesOfAnEarlierTime(t *testing.T) {
	mem := newDisk(t)
	m := newModel()
	table := mustOpenWhole(t, mem, m.options())
	r := rand.New(rand.NewPCG(*seed, 5))
	workload(m, table, r, 14, func([]Row) {})
	old := mem.CrashClone()
	workload(m, table, r, 14, func([]Row) {})
	generation := table.Generation()
	must(t, table.Close())

	disk := mem.CrashClone()
	writeFile(t, disk, headName, content(t, old, headName))
	if table, report := mustOpen(t, disk, m.options()); !report.Lost {
		t.Fatalf("an old head was not seen: %+v", report)
	} else {
		m.never(t, table, "old head")
		must(t, table.Close())
	}
	opts := m.options()
	opts.AtLeast = generation
	for name, disk := range map[string]*vfs.Mem{"all files are old": old, "no file is there": newDisk(t)} {
		table, report := mustOpen(t, disk, opts)
		if !report.Everything || report.LostUpTo != opts.Issued {
			t.Fatalf("%s: %+v", name, report)
		}
		m.never(t, table, name)
		must(t, m.put(table, m.rowsOf(8)))
		if table.Generation() <= generation {
			t.Fatalf("%s: generation %d", name, table.Generation())
		}
		must(t, table.Close())
	}
}

// TestDamageLosesNoMoreThanItMust breaks one block of a large run and merges: what stands in
// other parts of the run is still there.
func TestDamageLosesNoMoreThanItMust(t *testing.T) {
	for _, at := range []int{1, 30, 55, 99} {
		mem := newDisk(t)
		opts := Options{Issued: 1 << 40}
		told := 0
		opts.OnDamage = func(error) { told++ }
		table := mustOpenWhole(t, mem, opts)
		var rows []Row
		for id := range pid(8000) {
			rows = append(rows, row(id*10+5, strings.Repeat("x", 200)))
		}
		must(t, table.Put(rows))
		must(t, table.Close())
		base := runName(1)
		for _, name := range list(t, mem) {
			if name != headName {
				base = name
			}
		}
		b := content(t, mem, base)
		b[len(b)*at/100] ^= 1
		writeFile(t, mem, base, b)
		table, report := mustOpen(t, mem, opts)
		if at == 99 { // the fences: the run does not open
			if !report.Lost || report.LostUpTo != 79_995 || table.ForgottenUpTo() != 79_995 {
				t.Fatalf("%+v", report)
			}
			must(t, table.Close())
			continue
		}
		for i := range pid(maxRuns) {
			must(t, table.Put([]Row{row(90_000+i, "filler")}))
		}
		must(t, table.merge(plan{to: table.Stats().Runs}))
		lost := 0
		for _, r := range rows {
			got, ok, err := table.Get(r.PID)
			must(t, err)
			if !ok {
				lost++
			}
			if ok && got.Stale || !ok && !table.MayHaveForgotten(r.PID) {
				t.Fatalf("producer %d: %+v %v", r.PID, got, ok)
			}
		}
		forgotten := int(table.ForgottenUpTo())
		if lost == 0 || lost > 320 || told != 1 || forgotten < 80_000*(at-8)/100 || forgotten > 80_000*(at+8)/100 {
			t.Fatalf("a block at %d%%: %d rows lost, forgotten up to %d, told %d times", at, lost, forgotten, told)
		}
		if !slices.Contains(list(t, mem), badName(base)) {
			t.Fatalf("the damaged run was not kept: %v", list(t, mem))
		}
		must(t, table.Close())
		if found := verify(t, mem); len(found) != 1 || found[0].Kind != FoundAside {
			t.Fatalf("findings: %v", found)
		}
	}
}

// TestOldRowsAreStale loses a run and looks at older rows of producers that it may have held,
// through merges and restarts, until they are put again.
func TestOldRowsAreStale(t *testing.T) {
	mem := newDisk(t)
	table := mustOpenWhole(t, mem, Options{})
	must(t, table.Put([]Row{row(6, "a"), row(7, "a"), row(9, "a")}))
	must(t, table.Put([]Row{row(7, "b")}))
	lost := runName(table.view.Load().runs[1].number)
	must(t, table.Put([]Row{row(5, "c")}))
	must(t, table.Close())
	must(t, errors.Join(mem.Remove(testDir+"/"+lost), mem.SyncDir(testDir)))

	table, report := mustOpen(t, mem, Options{})
	if len(report.Damage) != 1 || !report.Lost || report.Everything || report.LostUpTo != 7 || table.ForgottenUpTo() != 7 {
		t.Fatalf("%+v, forgotten up to %d", report, table.ForgottenUpTo())
	}
	check := func() {
		t.Helper()
		for _, id := range []pid{6, 7} {
			if got, ok, err := table.Get(id); !ok || err != nil || !got.Stale || string(got.Value) != "a" {
				t.Fatalf("Get(%d) = %+v, %v, %v", id, got, ok, err)
			}
		}
		wantRow(t, table, row(9, "a")) // above all that was lost
		wantRow(t, table, row(5, "c")) // newer than what was lost
	}
	check()
	worked, err := table.Maintain() // writes the loss down
	must(t, err)
	if !worked {
		t.Fatal("nothing was written down")
	}
	check()
	must(t, table.Close())
	table = mustOpenWhole(t, mem, Options{})
	check()
	must(t, table.merge(plan{to: 2}))
	check()
	must(t, table.Put([]Row{row(7, "d")}))
	wantRow(t, table, row(7, "d"))
	must(t, table.merge(plan{to: 2}))
	wantRow(t, table, row(7, "d"))
	if table.ForgottenUpTo() != 7 {
		t.Errorf("forgotten up to %d", table.ForgottenUpTo())
	}
	must(t, table.Close())
}
