package sorttable

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// replaced is a disk with one table, and another one to take its place.
func replaced(t *testing.T) (*vfs.Mem, *vfs.Faulty, []Row, []Row) {
	t.Helper()
	older, newer := someRows(300, 40), someRows(400, 30)
	mem, _ := newTable(t, older)
	return mem, vfs.NewFaulty(mem), older, newer
}

// eitherTable fails unless the disk has the older table or the newer one, whole, and reports
// which.
func eitherTable(t *testing.T, fsys vfs.FS, older, newer []Row) (isNewer bool) {
	t.Helper()
	table, err := Open(fsys, testName)
	must(t, err)
	must(t, table.Verify())
	got, err := collect(table.All())
	must(t, err)
	switch {
	case sameRows(got, older):
		return false
	case sameRows(got, newer):
		return true
	}
	t.Fatalf("a table of %d rows that was never written", len(got))
	return false
}

// TestCrashAtEveryCall looks at disks as a power cut at each call of Write, and of the sync
// of the directory, may leave them. The name leads to one table or to the other.
func TestCrashAtEveryCall(t *testing.T) {
	const seed, disks = 5, 12
	run := campaign.Start(t, seed)
	mem, faulty, older, newer := replaced(t)
	r := rand.New(rand.NewPCG(seed, 1))
	look := func() {
		for i := range disks {
			disk := mem.CrashClone()
			if i > 0 {
				disk = mem.CrashCloneRandom(r)
			}
			eitherTable(t, disk, older, newer)
			run.Count("states", 1)
		}
	}
	faulty.Observe(func(vfs.Op, string) { look() })
	_, err := Write(faulty, testName, nil, pairs(newer))
	must(t, err)
	must(t, faulty.SyncDir("/"))
	look()
	if !eitherTable(t, mem.CrashClone(), older, newer) {
		t.Fatal("the table is not durable")
	}
	if names, err := mem.CrashClone().List("/"); err != nil || len(names) != 1 {
		t.Fatalf("left behind: %q, %v", names, err)
	}
}

// TestEveryCallFails makes each call fail once: the table that was there stays, and a second
// attempt succeeds.
func TestEveryCallFails(t *testing.T) {
	for i := 0; ; i++ {
		mem, faulty, older, newer := replaced(t)
		faulty.FailCall(i, 1, errTest)
		_, err := Write(faulty, testName, nil, pairs(newer))
		if i > 0 && err == nil { // 0 is the removal of what is not there
			if faulty.Calls() > i {
				t.Fatalf("call %d failed, and Write did not", i)
			}
			break
		}
		wantErr(t, err, errTest)
		if eitherTable(t, mem, older, newer) {
			t.Fatalf("call %d failed, and the table is there", i)
		}
		_, err = Write(faulty, testName, nil, pairs(newer))
		must(t, err)
		must(t, mem.SyncDir("/"))
		if !eitherTable(t, mem.CrashClone(), older, newer) {
			t.Fatalf("after call %d failed the second table is not there", i)
		}
	}
}

func TestFailingReads(t *testing.T) {
	mem, _ := newTable(t, someRows(110, 30))
	faulty := vfs.NewFaulty(mem)
	for i := range 8 {
		faulty.FailCall(i, 1, errTest)
		table, err := Open(faulty, testName)
		if err == nil {
			_, _, err = table.Find(Key{0, 7})
		}
		if i < 6 || err != nil { // one open, a size, three reads, a close; then three of Find
			wantErr(t, err, errTest)
		}
		if _, ok := errors.AsType[*FormatError](err); ok {
			t.Fatalf("a failing disk is taken for damage: %v", err)
		}
		faulty.Heal()
	}
}

func TestStaleTemp(t *testing.T) {
	mem := vfs.NewMem()
	f, err := mem.Create(testName + TempSuffix)
	must(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("stale", 10_000)), 0)
	must(t, err)
	must(t, f.Close())
	_, err = Write(mem, testName, nil, pairs(goldenRows()))
	must(t, err)
	table, err := Open(mem, testName)
	must(t, err)
	must(t, table.Verify())
	must(t, RemoveTemp(mem, testName))
	_, err = mem.Stat(testName + TempSuffix)
	wantErr(t, err, fs.ErrNotExist)
}
