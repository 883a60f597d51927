package partition

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// keptSnapshots is how many the partition keeps.
const keptSnapshots = 2

// A rotten is a disk with two snapshots, of which something is not what was written.
type rotten struct {
	*world
	files     map[string]string
	snapshots []string // names, oldest first
	looks     int
}

// rot writes until there are two snapshots, something behind them and rows of lanes that have
// left memory, and closes the
// partition or kills it. The last snapshot of one that was closed is about all of the log.
func rot(t *testing.T, seed uint64, clean bool) *rotten {
	t.Helper()
	x := &rotten{world: newWorld(t, seed), files: map[string]string{}}
	x.mustStart()
	for n := 0; n < 12 || len(x.snapshots) < keptSnapshots || x.p.retired.Stats().Rows == 0; n++ {
		x.burst()
		if n%5 == 4 {
			x.idle()
		}
		var err error
		x.snapshots, err = snapshots(x.mu.mem, dir)
		must(t, err)
	}
	if clean {
		must(t, x.stop())
	} else {
		x.kill(false)
	}
	mem := x.mu.mem
	names, err := mem.List(dir)
	must(t, err)
	for _, name := range names {
		x.files[name] = contentOf(t, mem, name)
	}
	x.snapshots, err = snapshots(mem, dir)
	must(t, err)
	if len(x.snapshots) != keptSnapshots {
		t.Fatalf("seed %d: snapshots %v", seed, x.snapshots)
	}
	return x
}

func contentOf(t *testing.T, mem *vfs.Mem, name string) string {
	t.Helper()
	size, err := mem.Stat(filepath.Join(dir, name))
	must(t, err)
	f, err := mem.Open(filepath.Join(dir, name))
	must(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		must(t, err)
	}
	must(t, f.Close())
	return string(b)
}

// disk is the disk with some files changed, or without those that are empty in change.
func (x *rotten) disk(change map[string]string) *vfs.Mem {
	mem := vfs.NewMem()
	must(x.t, vfs.MakeDir(mem, dir))
	put := func(name, content string) {
		f, err := mem.Create(filepath.Join(dir, name))
		must(x.t, err)
		_, err = f.WriteAt([]byte(content), 0)
		must(x.t, err)
		must(x.t, f.Sync())
		must(x.t, f.Close())
	}
	for name, content := range x.files {
		if changed, ok := change[name]; ok {
			content = changed
		}
		if content != "" {
			put(name, content)
		}
	}
	for name, content := range change {
		if _, ok := x.files[name]; !ok {
			put(name, content)
		}
	}
	must(x.t, mem.SyncDir(dir))
	return mem
}

// wantRight expects everything to be as if the snapshots were good, or not there. The state
// is compared each time; what follows from it, each retry, every eighth time.
func (x *rotten) wantRight(change map[string]string, what string) {
	x.t.Helper()
	s := state{mem: x.disk(change), fates: x.mu.fates, ended: x.mu.ended, what: what}
	if x.looks++; x.looks%8 == 0 {
		x.look(s)
		return
	}
	p, _ := x.lookAt(s)
	p.Abandon()
}

func eachRotten(t *testing.T, test func(t *testing.T, x *rotten, run *campaign.Run)) {
	run := campaign.Start(t, *seedFlag)
	for i, clean := range []bool{true, false} {
		t.Run(fmt.Sprint("clean ", clean), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := rot(t, *seedFlag+uint64(i), clean)
				defer x.end()
				test(t, x, run)
			})
		})
	}
}

// TestEveryBitOfASnapshotFlips: the older snapshot or the log gives the same state.
func TestEveryBitOfASnapshotFlips(t *testing.T) {
	step := 16
	switch {
	case everyFault():
		step = 1
	case testing.Short():
		step = 16 * 13
	}
	eachRotten(t, func(t *testing.T, x *rotten, run *campaign.Run) {
		for i, name := range x.snapshots {
			whole := x.files[name]
			for bit := i; bit < 8*len(whole); bit += step {
				b := []byte(whole)
				b[bit/8] ^= 1 << (bit % 8)
				x.wantRight(map[string]string{name: string(b)}, fmt.Sprintf("bit %d of %s, %d bytes", bit, name, len(whole)))
				run.Count("flips", 1)
			}
		}
	})
}

func TestSnapshotIsTorn(t *testing.T) {
	step := 4
	switch {
	case everyFault():
		step = 1
	case testing.Short():
		step = 4 * 31
	}
	noise := make([]byte, 1<<20)
	for i, r := 0, rand.New(rand.NewPCG(*seedFlag, 3)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	eachRotten(t, func(t *testing.T, x *rotten, run *campaign.Run) {
		for _, name := range x.snapshots {
			whole := x.files[name]
			for pos := 0; pos < len(whole); pos += step {
				for kind, tail := range map[string]string{
					"cut": "", "zeros": strings.Repeat("\x00", len(whole)-pos), "garbage": string(noise[pos:len(whole)]),
				} {
					x.wantRight(map[string]string{name: whole[:pos] + tail}, fmt.Sprintf("%s: %s from byte %d of %d", name, kind, pos, len(whole)))
					run.Count("tears", 1)
				}
			}
		}
	})
}

// checked gives bytes that should be a snapshot the size and the check that belong to them.
func checked(b []byte) string {
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(len(b)))
	at := len(b) - 8
	le.PutUint64(b[at:], xxhash.Sum64(b[:at]))
	return string(b)
}

func TestSnapshotsThatCannotBeUsed(t *testing.T) {
	edit := func(at int, value byte) func(whole string) string {
		return func(whole string) string {
			b := []byte(whole)
			b[at] = value
			return checked(b)
		}
	}
	rows := []struct {
		name string
		make func(whole string) string
	}{
		{"gone", func(string) string { return "" }},
		{"of a version that is not known", edit(3, 77)},
		{"with flags that are not known", edit(16, 1)},
		{"with more lanes than it has", edit(20, 99)},
		{"with fewer lanes than it has", edit(20, 1)},
		{"with a lane that has no producer", edit(32, 0)},
		{"with an end below its records", edit(8, 1)},
		{"longer than it says", func(whole string) string { return whole + "\x00" }},
		{"something else", func(string) string { return "no snapshot at all, but long enough to be one" }},
	}
	eachRotten(t, func(t *testing.T, x *rotten, run *campaign.Run) {
		older, newest := x.snapshots[0], x.snapshots[1]
		for _, row := range rows {
			x.wantRight(map[string]string{newest: row.make(x.files[newest])}, "the newest is "+row.name)
			x.wantRight(map[string]string{older: row.make(x.files[older])}, "the older is "+row.name)
			both := map[string]string{newest: row.make(x.files[newest]), older: row.make(x.files[older])}
			x.wantRight(both, "both are "+row.name)
			run.Count("disks", 3)
		}
		// Where the log ends is said by the snapshot, not by its name.
		x.wantRight(map[string]string{snapshotName(0): x.files[newest]}, "the newest has an older name")
		x.wantRight(map[string]string{newest: x.files[older]}, "the older has the newer name")
	})
}

// TestLogEndsBeforeItsSnapshot takes more and more off the end of a log whose snapshot says
// that it was durable: what is gone was acknowledged, so it is neither said to be there nor
// stored anew, and its offsets go to nobody else.
func TestLogEndsBeforeItsSnapshot(t *testing.T) {
	step := 37
	switch {
	case everyFault():
		step = 1
	case testing.Short():
		step = 37 * 13
	}
	run := campaign.Start(t, *seedFlag)
	synctest.Test(t, func(t *testing.T) {
		x := rot(t, *seedFlag+2, true)
		defer x.end()
		change := map[string]string{}
		last := ""
		for name := range x.files {
			switch filepath.Ext(name) {
			case ".idx": // it tells as well how far the log went
				change[name] = ""
			case ".seg":
				last = max(last, name)
			}
		}
		whole := x.files[last]
		for size := segmentHeader; size < len(whole); size += step {
			change[last] = whole[:size]
			x.wantNothingTwice(x.disk(change), fmt.Sprintf("%s has %d bytes of %d", last, size, len(whole)))
			run.Count("disks", 1)
		}
	})
}

// wantNothingTwice opens a disk that has lost some of its last batches, and sends all again.
func (x *rotten) wantNothingTwice(mem *vfs.Mem, what string) {
	x.t.Helper()
	for range 2 {
		p, err := Open(x.config(mem))
		if err != nil {
			x.t.Fatalf("%s: %v", what, err)
		}
		defer p.Abandon()
		synctest.Wait()
		end := p.HighWatermark()
		if told := x.told(); end < told {
			x.t.Fatalf("%s: the log ends at %d, told was %d", what, end, told)
		}
		there := map[batchfmt.Offset]bool{}
		must(x.t, p.log.Replay(0, func(b batchfmt.Batch) error {
			if !b.IsControl() {
				there[b.BaseOffset()] = true
			}
			return nil
		}, func(seglog.DamagedRange) error { return nil }))
		for _, pr := range x.producers {
			some := slices.ContainsFunc(pr.line[:pr.next], func(i int) bool { return there[x.mu.fates[i].offset] })
			unknown := false
			lane := p.OpenLane(OpenRequest{Grant: pr.grant, Epoch: pr.grant.Current(), Fresh: true, Reply: func(_ *wire.LaneOpened, e *wire.Error) {
				unknown = e != nil && e.Code == wire.CodeUnknownProducerID && (!some || x.mayHaveForgotten(p, pr.id))
				if e != nil && !unknown {
					x.t.Errorf("%s: lane %d: %v", what, pr.id, e)
				}
			}})
			synctest.Wait() // it may have to wait for room
			if unknown {    // it was forgotten, or had left memory and all that it wrote since is lost
				p.CloseLane(lane, func() {})
				synctest.Wait()
				continue
			}
			for _, i := range pr.line[:pr.next] {
				f := &x.mu.fates[i]
				a := x.retry(p, lane, f)
				synctest.Wait()
				switch r := a.result; {
				case a.count != 1:
					x.t.Fatalf("%s: %d answers", what, a.count)
				case there[f.offset] && r.Code == wire.CodeOK && r.Duplicate && r.BaseOffset == f.offset:
				case !there[f.offset] && (r.Code == wire.CodeBatchUnreadable || r.Code == wire.CodeUnknownOutcome):
				default:
					x.t.Fatalf("%s: %+v was stored at %d, is there %v, and its retry is told %+v", what, f.id, f.offset, there[f.offset], r)
				}
			}
			p.CloseLane(lane, func() {})
			synctest.Wait()
		}
		if p.HighWatermark() != end {
			x.t.Fatalf("%s: retries have moved the end from %d to %d", what, end, p.HighWatermark())
		}
		mem = mem.CrashClone()
	}
}
