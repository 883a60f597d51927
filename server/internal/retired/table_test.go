package retired

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/sorttable"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestAnEmptyTableHasNoFiles(t *testing.T) {
	mem := newDisk(t)
	table := mustOpenWhole(t, mem, Options{})
	wantNone(t, table, 7)
	must(t, table.Put(nil))
	worked, err := table.Maintain()
	must(t, err)
	if worked || table.ForgottenUpTo() != 0 || table.MayHaveForgotten(1) || table.Stats() != (Stats{}) || len(list(t, mem)) != 0 {
		t.Errorf("%v %d %+v %v", worked, table.ForgottenUpTo(), table.Stats(), list(t, mem))
	}
	must(t, table.Close())
	if found := verify(t, mem); len(found) > 0 {
		t.Errorf("findings: %v", found)
	}
}

func TestThereMustBeADirectory(t *testing.T) {
	_, _, err := Open(vfs.NewMem(), testDir, Options{})
	wantErr(t, err, fs.ErrNotExist)
	_, err = Verify(vfs.NewMem(), testDir, nil)
	wantErr(t, err, fs.ErrNotExist)
}

func TestTheLastRowCounts(t *testing.T) {
	mem := newDisk(t)
	table := mustOpenWhole(t, mem, Options{})
	must(t, table.Put([]Row{row(7, "a"), row(producerstate.GatewaySpace+7, "g"), row(5, "b"), row(7, "c")}))
	must(t, table.Put([]Row{named(5, "d")}))
	check := func() {
		t.Helper()
		wantRow(t, table, row(7, "c"))
		wantRow(t, table, row(5, "d"))
		wantRow(t, table, row(producerstate.GatewaySpace+7, "g"))
		wantNone(t, table, 6)
		if got, _, _ := table.Get(5); !got.Named {
			t.Fatalf("%+v is not named", got)
		}
	}
	check()
	must(t, table.Close())
	table = mustOpenWhole(t, mem, Options{})
	check()
	must(t, table.merge(plan{to: 2}))
	check()
	if s := table.Stats(); s.Rows != 3 || s.Named != 1 || s.Runs != 1 || s.Bytes == 0 || s.Memory == 0 {
		t.Errorf("%+v", s)
	}
	must(t, table.Close())
}

func TestRowsThatCannotBePut(t *testing.T) {
	table := mustOpenWhole(t, newDisk(t), Options{})
	wantErr(t, table.Put([]Row{row(1, "a"), row(0, "b")}), ErrRow)
	wantErr(t, table.Put([]Row{row(1, strings.Repeat("x", MaxValueBytes+1))}), ErrRow)
	wantNone(t, table, 1)
	most := row(1, strings.Repeat("x", MaxValueBytes))
	must(t, table.Put([]Row{most, row(2, "")}))
	wantRow(t, table, most)
	wantRow(t, table, row(2, ""))
	must(t, table.Close())
}

func TestAfterClose(t *testing.T) {
	table := mustOpenWhole(t, newDisk(t), Options{})
	must(t, table.Put([]Row{row(1, "a")}))
	must(t, table.Close())
	must(t, table.Close())
	wantErr(t, table.Put([]Row{row(1, "a")}), ErrClosed)
	_, err := table.Maintain()
	wantErr(t, err, ErrClosed)
	_, _, err = table.Get(1)
	wantErr(t, err, ErrClosed)
}

func TestTheOldestAreDropped(t *testing.T) {
	mem := newDisk(t)
	gone := map[pid]bool{}
	opts := Options{MaxRows: 80, Named: func(id pid) bool { return !gone[id] }}
	table := mustOpenWhole(t, mem, opts)
	gateway := producerstate.GatewaySpace
	for id := pid(1); id <= 20; id++ {
		must(t, table.Put([]Row{row(id, "a"), row(gateway+id+100, "b"), named(id+200, "c"), row(id+300, "d")}))
		upkeep(t, table)
	}
	if table.ForgottenUpTo() != 0 {
		t.Fatalf("forgotten up to %d", table.ForgottenUpTo())
	}
	must(t, table.Put([]Row{row(1, "again")}))
	for id := pid(21); id <= 27; id++ {
		must(t, table.Put([]Row{row(id, "a"), row(gateway+id+100, "b"), row(id+300, "d")}))
	}
	upkeep(t, table)
	// 82 rows are not named, one of them void: eleven more than seventy are too many.
	for id := pid(1); id <= 27; id++ {
		if id == 1 {
			wantRow(t, table, row(1, "again"))
		} else if id < 5 {
			wantNone(t, table, id)
			wantNone(t, table, gateway+id+100)
			wantNone(t, table, id+300)
		} else {
			wantRow(t, table, row(id, "a"))
			wantRow(t, table, row(gateway+id+100, "b"))
			wantRow(t, table, row(id+300, "d"))
		}
		if id <= 20 {
			wantRow(t, table, named(id+200, "c"))
		}
	}
	if f := table.ForgottenUpTo(); f != 304 || !table.MayHaveForgotten(2) || !table.MayHaveForgotten(gateway+304) || table.MayHaveForgotten(gateway+305) {
		t.Errorf("forgotten up to %d", f)
	}
	must(t, table.Close())
	table = mustOpenWhole(t, mem, opts)
	if table.ForgottenUpTo() != 304 {
		t.Errorf("after a restart forgotten up to %d", table.ForgottenUpTo())
	}
	// A name that is gone makes its row one like any other.
	gone[203] = true
	for id := pid(1001); id <= 1090; id++ {
		must(t, table.Put([]Row{row(id, "e")}))
	}
	wantNone(t, table, 203)
	wantRow(t, table, named(204, "c"))
	must(t, table.Close())
}

// TestVoidRowsGoFirst has a few producers come back again and again: none is ever forgotten.
func TestVoidRowsGoFirst(t *testing.T) {
	table := mustOpenWhole(t, newDisk(t), Options{MaxRows: 100})
	for i := range 600 {
		must(t, table.Put([]Row{row(pid(1+i%50), fmt.Sprint(i))}))
	}
	upkeep(t, table)
	for i := 550; i < 600; i++ {
		wantRow(t, table, row(pid(1+i%50), fmt.Sprint(i)))
	}
	if f := table.ForgottenUpTo(); f != 0 {
		t.Errorf("forgotten up to %d", f)
	}
	must(t, table.Close())
}

// TestPutsGoOnWhileMergesFail has a disk on which merges do not succeed.
func TestPutsGoOnWhileMergesFail(t *testing.T) {
	mem := newDisk(t)
	f := vfs.NewFaulty(mem)
	table := mustOpenWhole(t, f, Options{MaxRows: 1000})
	put := 0
	next := func() error {
		put++
		return table.Put([]Row{row(pid(put), "a")})
	}
	for range maxRuns {
		must(t, next())
	}
	// A merge opens the runs that it reads, a put only its own.
	reads := 0
	f.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpOpen && strings.HasSuffix(name, "000003.tab") {
			reads++
			f.Fail(vfs.OpOpen, 0, 1, errTest)
		}
	})
	for range hardRuns - maxRuns {
		must(t, next())
	}
	if reads == 0 || reads > hardRuns {
		t.Errorf("merging was tried %d times", reads)
	}
	wantErr(t, next(), errTest)
	f.Observe(nil)
	must(t, next())
	upkeep(t, table)
	for id := range pid(put + 1) {
		if id != 0 && id != pid(put-1) {
			wantRow(t, table, row(id, "a"))
		}
	}
	wantNone(t, table, pid(put-1))
	table.view.Load().check(t)
	must(t, table.Close())
}

// TestAgainstAMap does anything in any order and compares with a map.
func TestAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem := newDisk(t)
		m := newModel()
		table := mustOpenWhole(t, mem, m.options())
		ids := rapid.SliceOfN(rapid.OneOf(
			rapid.Map(rapid.IntRange(1, 60), func(i int) pid { return pid(i) }),
			rapid.Map(rapid.IntRange(0, 20), func(i int) pid { return producerstate.GatewaySpace + pid(i) }),
		), 1, 12)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				_, err := table.Maintain()
				must(t, err)
			case 1:
				must(t, table.Close())
				mem = mem.CrashClone()
				table = mustOpenWhole(t, mem, m.options())
			case 2:
				m.gone[rapid.SampledFrom([]pid{3, 6, 9, 30}).Draw(t, "name")] = true
			default:
				must(t, m.put(table, m.rowsOf(ids.Draw(t, "ids")...)))
			}
			m.check(t, table, false)
		}
		must(t, table.Close())
		if found := verify(t, mem); len(found) > 0 {
			t.Fatalf("findings: %v", found)
		}
	})
}

// TestLookUpsDuringMerges looks rows up while others are put and merged below the look-ups.
func TestLookUpsDuringMerges(t *testing.T) {
	table := mustOpenWhole(t, newDisk(t), Options{MaxRows: 400})
	const kept = 40
	for id := pid(1); id <= kept; id++ {
		must(t, table.Put([]Row{named(id, "stays")}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range cap(errs) {
		wg.Go(func() {
			for id := pid(1); ctx.Err() == nil; id = id%kept + 1 {
				got, ok, err := table.Get(id)
				if err != nil || !ok || string(got.Value) != "stays" {
					errs <- fmt.Errorf("Get(%d) = %+v, %v, %w", id, got, ok, errors.Join(err, errTest))
					return
				}
			}
		})
	}
	for i := range 400 {
		must(t, table.Put([]Row{row(pid(1000+i), "a"), row(pid(2000+i), "b")}))
		upkeep(t, table)
	}
	cancel()
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if table.ForgottenUpTo() == 0 {
		t.Error("nothing was dropped")
	}
	must(t, table.Close())
}

func TestWhatACrashLeftIsRemoved(t *testing.T) {
	mem := newDisk(t)
	table := mustOpenWhole(t, mem, Options{})
	must(t, table.Put([]Row{row(1, "a")}))
	must(t, table.Close())
	left := []string{"retired-000044.tab", "retired-000045.tab.tmp", "retired.head.tmp"}
	others := []string{"retired-45.tab", "retired-000000.tab", "retired-x.tab", "retired", "00000000.seg", "retired-000007.bad", "retired-0000045.tab"}
	for _, base := range append(slices.Clone(left), others...) {
		writeFile(t, mem, base, []byte("x"))
	}
	_, err := sorttable.Write(mem, testDir+"/"+left[0], meta{44, table.Generation(), 2, 2}.bytes(), func(func(sorttable.Key, []byte) bool) {})
	must(t, err)
	if found := verify(t, mem); len(found) != len(left)+1 {
		t.Fatalf("findings: %v", found)
	}
	table, report := mustOpen(t, mem, Options{})
	slices.Sort(report.Removed)
	if len(report.Damage) > 0 || !slices.Equal(report.Removed, left) {
		t.Errorf("%+v", report)
	}
	for _, base := range others {
		if !slices.Contains(list(t, mem), base) {
			t.Errorf("%s was removed", base)
		}
	}
	must(t, table.Put([]Row{row(2, "a")}))
	if g := table.Generation(); g <= 45 {
		t.Errorf("generation %d: a number may be used twice", g)
	}
	must(t, table.Close())
}
