package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// For each seed TestCrash looks at three times crashesPerSeed disks.
const crashesPerSeed = 5

func crashSeeds() uint64 {
	if testing.Short() {
		return 4
	}
	return 20
}

// TestCrash appends, syncs, rolls and reopens at random and looks at disks as a power cut
// would leave them: everything that Sync reported durable must be there, and what is there
// above it must be what was appended, in order.
func TestCrash(t *testing.T) {
	for seed := range crashSeeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newCrasher(t, seed)
			for range crashesPerSeed {
				for range 5 + c.r.IntN(30) {
					c.step(t)
				}
				c.look(t, c.mem.CrashClone())
				c.look(t, c.mem.CrashCloneRandom(c.r))
			}
			// Go on from a disk after a crash, as a restarted server does.
			for range crashesPerSeed {
				c.crash(t)
				for range 5 + c.r.IntN(10) {
					c.step(t)
				}
			}
		})
	}
}

// crasher is a log with the model of what it should hold.
type crasher struct {
	r       *rand.Rand
	cfg     Config
	mem     *vfs.Mem
	l       *Log
	m       *maker
	all     []batchfmt.Batch // appended
	durable int              // of all, that Sync reported
}

func newCrasher(t *testing.T, seed uint64) *crasher {
	c := &crasher{r: rand.New(rand.NewPCG(seed, 7)), mem: vfs.NewMem(), m: newMaker(), cfg: small()}
	c.cfg.SegmentBytes = []int64{600, 2000, 20_000}[c.r.IntN(3)]
	if c.cfg.SegmentBytes == 20_000 {
		c.cfg.FillBytes = 3000
	}
	c.l, _ = mustOpen(t, c.mem, c.cfg)
	return c
}

func (c *crasher) step(t *testing.T) {
	t.Helper()
	switch n := c.r.IntN(100); {
	case n < 60:
		var group []batchfmt.Batch
		for range 1 + c.r.IntN(4) {
			if c.r.IntN(6) == 0 {
				group = append(group, c.m.control(t))
			} else {
				group = append(group, c.m.batch(t, 1+c.r.IntN(3), c.r.IntN(300)))
			}
		}
		must(t, c.l.Append(group))
		c.all = append(c.all, group...)
	case n < 95:
		end := mustSync(t, c.l)
		if end != c.m.next {
			t.Fatalf("durable end is %d, want %d", end, c.m.next)
		}
		c.durable, c.m.durable = len(c.all), end
	default:
		must(t, c.l.Close())
		c.durable, c.m.durable = len(c.all), c.m.next
		c.open(t)
	}
}

func (c *crasher) open(t *testing.T) {
	t.Helper()
	l, info, err := Open(c.mem, testDir, c.cfg)
	must(t, err)
	if info.End != c.m.next || info.Cut != nil {
		t.Fatalf("a clean reopening found %+v", info)
	}
	c.l = l
	c.m.term++
}

// look opens a disk after a crash and checks it, twice.
func (c *crasher) look(t *testing.T, mem *vfs.Mem) int {
	t.Helper()
	kept := 0
	for i := range 2 {
		l, info, err := Open(mem, testDir, c.cfg)
		must(t, err)
		got := scanAll(t, l)
		if i > 0 && (len(got) != kept || info.Cut != nil) {
			t.Fatalf("recovering twice kept %d, then %d; cut %+v", kept, len(got), info.Cut)
		}
		kept = len(got)
		if kept < c.durable || kept > len(c.all) {
			t.Fatalf("%d batches are there, %d were durable, %d appended", kept, c.durable, len(c.all))
		}
		wantBatches(t, got, c.all[:kept])
		wantBatches(t, readAll(t, l, 500), withoutControl(got))
		mem = mem.CrashClone() // what readers see is durable
	}
	return kept
}

// crash goes on from a random disk.
func (c *crasher) crash(t *testing.T) {
	t.Helper()
	mem := c.mem.CrashCloneRandom(c.r)
	kept := c.look(t, mem)
	c.mem = mem
	c.all = c.all[:kept]
	c.durable = kept
	c.m.next = 0
	if kept > 0 {
		c.m.next = c.all[kept-1].NextOffset()
	}
	c.m.durable = c.m.next
	l, info, err := Open(mem, testDir, c.cfg)
	must(t, err)
	if info.End != c.m.next {
		t.Fatalf("reopened at %d, want %d", info.End, c.m.next)
	}
	c.l = l
	c.m.term++
}

// TestCrashWithFaults is the same with a disk that now and then refuses: a group that
// was refused never comes back, and after a failed sync nothing is acknowledged.
func TestCrashWithFaults(t *testing.T) {
	for seed := range crashSeeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newCrasher(t, seed)
			must(t, c.l.Close())
			f := vfs.NewFaulty(c.mem)
			l, _, err := Open(f, testDir, c.cfg)
			must(t, err)
			broken := false
			for range 40 {
				switch c.r.IntN(8) {
				case 0:
					f.ShortWrite(1+c.r.IntN(3), c.r.IntN(500), errTest)
				case 1:
					f.LimitSpace(int64(c.r.IntN(2000)))
				case 2:
					f.Heal()
				case 3:
					if c.r.IntN(4) == 0 {
						f.Fail([]vfs.Op{vfs.OpSync, vfs.OpTruncate, vfs.OpSyncDir, vfs.OpCreate, vfs.OpRename}[c.r.IntN(5)], c.r.IntN(3), 1, errTest)
					}
				}
				before := c.m.next
				group := []batchfmt.Batch{c.m.batch(t, 1, c.r.IntN(300)), c.m.batch(t, 1, c.r.IntN(300))}
				err := l.Append(group)
				switch {
				case err != nil:
					c.m.next = before
				case broken:
					t.Fatal("a broken log took a group")
				default:
					c.all = append(c.all, group...)
				}
				broken = broken || errors.Is(err, ErrBroken)
				end, err := l.Sync()
				if err == nil && broken {
					t.Fatal("a broken log was synced")
				}
				if err == nil {
					if end != c.m.next {
						t.Fatalf("durable end is %d, want %d", end, c.m.next)
					}
					c.durable, c.m.durable = len(c.all), end
				}
				broken = broken || err != nil
				wantBatches(t, scanAll(t, l), c.all)
				if !broken && c.r.IntN(6) == 0 { // what a broken log leaves of its last group is not known
					c.look(t, c.mem.CrashCloneRandom(c.r))
				}
			}
			c.durableKept(t, c.mem.CrashCloneRandom(c.r))
			f.Heal()
			must(t, l.Close())
		})
	}
}

// durableKept checks only that what was durable is there.
func (c *crasher) durableKept(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	l, _, err := Open(mem, testDir, c.cfg)
	must(t, err)
	got := scanAll(t, l)
	if len(got) < c.durable {
		t.Fatalf("%d batches are there, %d were durable", len(got), c.durable)
	}
	wantBatches(t, got[:c.durable], c.all[:c.durable])
	for i, b := range got[c.durable:] {
		if i+c.durable < len(c.all) && !bytes.Equal(b.Bytes(), c.all[i+c.durable].Bytes()) {
			t.Fatalf("batch %d was never appended there", i+c.durable)
		}
	}
}
