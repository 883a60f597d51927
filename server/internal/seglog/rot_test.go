package seglog

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

// A rotten is a disk on which chosen bytes are not what was written, and what is known of
// it: the batches in order and where they stand.
type rotten struct {
	t      testing.TB
	cfg    Config
	files  map[string]string
	all    []batchfmt.Batch
	at     []place
	proven Offset // up to where an index says that it was synced
	quick  bool   // look at most disks less thoroughly
	disks  int
}

// rot writes n small batches, about every third synced by itself, and closes the log or
// lets it crash.
func rot(t testing.TB, cfg Config, n int, clean bool, sizes func(*rand.Rand) int) *rotten {
	t.Helper()
	x := &rotten{t: t, cfg: cfg}
	r := rand.New(rand.NewPCG(uint64(n)+*seedFlag, 5))
	mem, m := vfs.NewMem(), newMaker()
	l, _, err := Open(mem, testDir, cfg)
	must(t, err)
	for i := range n {
		b := m.next9(t, r, i, sizes)
		must(t, l.Append([]batchfmt.Batch{b}))
		x.all = append(x.all, b)
		if r.IntN(3) == 0 || i == n-1 {
			m.durable = mustSync(t, l)
		}
	}
	if clean {
		must(t, l.Close())
		x.proven = m.next
	}
	mem = mem.CrashClone()
	found := places(t, mem)
	for _, b := range x.all {
		p, ok := found[string(b.Bytes())]
		if !ok {
			t.Fatalf("the batch at offset %d is nowhere", b.BaseOffset())
		}
		x.at = append(x.at, p)
	}
	x.files = files(t, mem)
	if !clean {
		bases := x.segments()
		x.proven, _ = parseName(bases[len(bases)-1], segSuffix)
	}
	return x
}

// next9 makes a batch with records of such sizes; each ninth is a control batch.
func (m *maker) next9(t testing.TB, r *rand.Rand, i int, sizes func(*rand.Rand) int) batchfmt.Batch {
	if i%9 == 8 {
		return m.control(t)
	}
	return m.batch(t, 1+r.IntN(2), sizes(r))
}

func smallSizes(r *rand.Rand) int { return 20 + r.IntN(120) }

// mixedSizes are small ones among large ones, so that 64 KiB are not so many batches.
func mixedSizes(r *rand.Rand) int { return 20 + r.IntN([]int{120, 1000, 8000}[r.IntN(3)]) }

func (x *rotten) segments() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(x.files)), func(name string) bool { return !strings.HasSuffix(name, segSuffix) })
}

// disk is the disk with one file changed.
func (x *rotten) disk(name, content string) *vfs.Mem {
	mem := vfs.NewMem()
	must(x.t, vfs.MakeDir(mem, testDir))
	for n, c := range x.files {
		if n == name {
			c = content
		}
		must(x.t, writeFile(mem, filepath.Join(testDir, n), []byte(c)))
	}
	must(x.t, mem.SyncDir(testDir))
	return mem
}

// hit says which batches are not what was written when a file holds something else.
func (x *rotten) hit(name, content string) []bool {
	hit := make([]bool, len(x.all))
	for i, p := range x.at {
		hit[i] = p.name == name && (p.end > int64(len(content)) || content[p.pos:p.end] != string(x.all[i].Bytes()))
	}
	return hit
}

// wantSane opens a disk on which some batches were hit: what was not is there, what was is
// said to be damaged or was cut, and cut is only what nothing says was synced. It is the
// same after a crash, scrubbing finds nothing more, and offsets are not used again.
func (x *rotten) wantSane(mem *vfs.Mem, hit []bool, what string) {
	x.t.Helper()
	x.disks++
	thorough := !x.quick || x.disks%5 == 0
	synced := x.proven
	for i, b := range x.all {
		if !hit[i] {
			synced = max(synced, b.Durable())
		}
	}
	var first []batchfmt.Batch
	for round := range 2 {
		l, info, err := Open(mem, testDir, x.cfg)
		if err != nil {
			x.t.Fatalf("%s: %v", what, err)
		}
		if round == 0 && thorough {
			x.wantConsumed(l, what)
		}
		got, damage := replayAll(x.t, l)
		x.wantAccounted(got, damage, hit, info.End, synced, what)
		if round > 0 && sameBatches(got, first) != nil {
			x.t.Fatalf("%s: recovered %d batches, then %d", what, len(first), len(got))
		}
		first = got
		if !thorough {
			return
		}
		must(x.t, l.Scrub(context.Background(), 1<<40, func(d DamagedRange) {
			x.t.Fatalf("%s: a scrub found what a replay did not: %+v", what, d)
		}))
		mem = mem.CrashClone()
	}
}

// wantAccounted goes through what was written and finds each batch or a reason.
func (x *rotten) wantAccounted(got []batchfmt.Batch, damage []DamagedRange, hit []bool, end, synced Offset, what string) {
	x.t.Helper()
	if end < synced {
		x.t.Fatalf("%s: the log ends at %d, and offsets below %d were synced", what, end, synced)
	}
	for _, d := range damage {
		if d.From >= synced {
			x.t.Fatalf("%s: nothing says that [%d,%d) was synced, and it is called damaged: %+v", what, d.From, d.Next, d)
		}
	}
	for i, b := range x.all {
		if len(got) > 0 && bytes.Equal(got[0].Bytes(), b.Bytes()) {
			if got = got[1:]; hit[i] {
				x.t.Fatalf("%s: batch %d was hit, and is there", what, i)
			}
			continue
		}
		said := slices.ContainsFunc(damage, func(d DamagedRange) bool { return d.From <= b.BaseOffset() && nextOf(b) <= d.Next })
		cut := nextOf(b) >= end && b.BaseOffset() >= synced
		if !said && !cut {
			x.t.Fatalf("%s: batch %d, offset %d, is gone; the end is %d, %d was synced, damage %+v", what, i, b.BaseOffset(), end, synced, damage)
		}
		if said && !hit[i] {
			x.t.Fatalf("%s: batch %d, offset %d, was not hit, and is said to be damaged: %+v", what, i, b.BaseOffset(), damage)
		}
	}
	if len(got) > 0 {
		x.t.Fatalf("%s: the batch at offset %d was never appended there", what, got[0].BaseOffset())
	}
}

// wantConsumed reads as a consumer does: nothing wrong passes, and it comes to the end.
func (x *rotten) wantConsumed(l *Log, what string) {
	x.t.Helper()
	known := map[string]bool{}
	for _, b := range x.all {
		known[string(b.Bytes())] = true
	}
	for from := l.Start(); from < l.End(); {
		raw, next, err := l.Read(nil, from, l.End(), 900)
		if err != nil {
			next = wantCorrupt(x.t, err).Next
		}
		if next <= from {
			x.t.Fatalf("%s: a read from %d came to %d", what, from, next)
		}
		for len(raw) > 0 {
			b := parse(x.t, raw)
			if raw = raw[b.Size():]; !known[string(b.Bytes())] {
				x.t.Fatalf("%s: a read gave a batch that was never appended, offset %d", what, b.BaseOffset())
			}
			if covering(l.view(l.find(from)).holes, b.BaseOffset()) != nil {
				x.t.Fatalf("%s: a read gave offset %d, which is known to be damaged", what, b.BaseOffset())
			}
		}
		from = next
	}
}

// TestEndIsTorn replaces what follows a position in the last 64 KiB by one of four things:
// at every fourth byte by one of them in turn, or, in full, at every byte by each.
func TestEndIsTorn(t *testing.T) {
	const window, parts = 64 << 10, 8
	step := 4
	switch {
	case *fullFlag:
		step = 1
	case testing.Short():
		step = 4 * 13
	}
	run := campaign.Start(t, *seedFlag)
	garbage := rand.New(rand.NewPCG(3+*seedFlag, 3))
	noise := make([]byte, window)
	for i := range noise {
		noise[i] = byte(garbage.Uint32())
	}
	for _, clean := range []bool{false, true} {
		x := new(rotten)
		name, whole, older := "", "", ""
		for n := 40; len(whole) < window || len(older) < len(whole); n++ { // as the seed makes them
			x = rot(t, Config{SegmentBytes: 80 << 10, FillBytes: -1, IndexEvery: 4 << 10}, n, clean, mixedSizes)
			names := x.segments()
			name = names[len(names)-1]
			whole, older = x.files[name], x.files[names[0]]
		}
		for part := range parts {
			t.Run(fmt.Sprintf("clean %v, part %d", clean, part), func(t *testing.T) {
				t.Parallel()
				x := x.of(t)
				x.quick = !*fullFlag
				from := len(whole) - window + part*window/parts
				for pos := from; pos < from+window/parts; pos += step {
					sector := min((pos/512+1)*512, len(whole))
					tails := []struct{ kind, bytes string }{
						{"cut", ""},
						{"zeros", strings.Repeat("\x00", len(whole)-pos)},
						{"garbage", string(noise[:len(whole)-pos])},
						{"a stale sector", older[pos:sector] + whole[sector:]},
					}
					if !*fullFlag {
						turn := pos / step % len(tails)
						tails = tails[turn : turn+1]
					}
					for _, tail := range tails {
						run.Count("disks", 1)
						file := whole[:pos] + tail.bytes
						x.wantSane(x.disk(name, file), x.hit(name, file), fmt.Sprintf("clean %v, %s from byte %d of %d", clean, tail.kind, pos, len(whole)))
					}
				}
			})
		}
	}
}

// of is the same for another test.
func (x *rotten) of(t testing.TB) *rotten {
	y := *x
	y.t = t
	return &y
}

// TestEveryBitFlips flips bits of segments and indexes, of a log that was closed and of one
// that crashed.
func TestEveryBitFlips(t *testing.T) {
	step := 16
	switch {
	case *fullFlag:
		step = 1
	case testing.Short():
		step = 16 * 31
	}
	cfg := small()
	cfg.SegmentBytes = 1500
	flips := 0
	run := campaign.Start(t, *seedFlag)
	defer func() { run.Count("flips", flips) }()
	for _, clean := range []bool{false, true} {
		for filled := range 2 {
			cfg := cfg
			cfg.FillBytes = int64(300 * filled)
			x := rot(t, cfg, 24, clean, smallSizes)
			for _, name := range slices.Sorted(maps.Keys(x.files)) {
				whole := x.files[name]
				for bit := flips % step; bit < 8*len(whole); bit += step {
					b := []byte(whole)
					b[bit/8] ^= 1 << (bit % 8)
					what := fmt.Sprintf("clean %v, bit %d of %s, %d bytes", clean, bit, name, len(whole))
					mem := x.disk(name, string(b))
					x.wantFound(mem, what)
					x.wantSane(mem, x.hit(name, string(b)), what)
					flips++
				}
			}
		}
	}
	t.Logf("%d flips", flips)
}

// wantFound expects Verify to find something, and to change nothing.
func (x *rotten) wantFound(mem *vfs.Mem, what string) {
	x.t.Helper()
	before := files(x.t, mem)
	found := 0
	report, err := Verify(mem, testDir, func(Finding) { found++ })
	must(x.t, err)
	if found == 0 || found != report.Findings {
		x.t.Fatalf("%s: Verify found %d: %+v", what, found, report)
	}
	if !maps.Equal(before, files(x.t, mem)) {
		x.t.Fatalf("%s: Verify changed something", what)
	}
}
