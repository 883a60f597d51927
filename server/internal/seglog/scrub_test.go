package seglog

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestScrub(t *testing.T) {
	s := store(t, small(), 25)
	l, _ := mustOpen(t, s.mem, s.cfg)
	spoil := func(base Offset, batch int, off int64) {
		edit(t, s.mem, segName(base), func(b []byte) []byte {
			b[segHeaderSize+int64(batch*s.all[0].Size())+off] ^= 1
			return b
		})
	}
	spoil(12, 1, 200) // the body of [14,16)
	spoil(24, 3, 5)   // the front of [30,32)
	before := files(t, s.mem)
	scrub := func() (found []DamagedRange) {
		t.Helper()
		must(t, l.Scrub(t.Context(), 1<<30, func(d DamagedRange) { found = append(found, d) }))
		return found
	}
	found := scrub()
	if len(found) != 2 || found[0].From != 14 || found[0].Next != 16 || found[1].From != 30 || found[1].Next != 32 {
		t.Fatalf("found %+v", found)
	}
	if again := scrub(); len(again) != 0 {
		t.Fatalf("found again: %+v", again)
	}
	if !maps.Equal(before, files(t, s.mem)) {
		t.Fatal("a scrub changed files")
	}
	_, _, err := l.Read(nil, 15, l.End(), 1)
	if c := wantCorrupt(t, err); c.Offset != 15 || c.Next != 16 {
		t.Fatalf("read: %+v", c)
	}
	got, damage := replayAll(t, l)
	if len(got) != 23 || len(damage) != 2 {
		t.Fatalf("%d batches, damage %+v", len(got), damage)
	}
	must(t, l.Close())
	wantErr(t, l.Scrub(t.Context(), 1<<30, nil), ErrClosed)
}

func TestScrubStaysBelowTheDurableEnd(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := mustOpen(t, mem, Config{FillBytes: -1})
	m := newMaker()
	a, b := m.batch(t, 1, 100), m.batch(t, 1, 100)
	must(t, l.Append([]batchfmt.Batch{a}))
	mustSync(t, l)
	must(t, l.Append([]batchfmt.Batch{b}))
	edit(t, mem, segName(0), func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
	must(t, l.Scrub(t.Context(), 1<<30, func(d DamagedRange) { t.Fatalf("found %+v", d) }))
	mustSync(t, l)
	found := 0
	must(t, l.Scrub(t.Context(), 1<<30, func(DamagedRange) { found++ }))
	if found != 1 {
		t.Fatalf("found %d", found)
	}
}

func TestScrubKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, err := Open(vfs.NewMem(), testDir, Config{SegmentBytes: 300 << 10})
		must(t, err)
		m := newMaker()
		for range 100 {
			must(t, l.Append([]batchfmt.Batch{m.batch(t, 1, 10<<10)}))
		}
		mustSync(t, l)
		start := time.Now()
		must(t, l.Scrub(t.Context(), 100<<10, nil))
		if took := time.Since(start); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("1,000 KiB at 100 KiB/s took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start = time.Now()
		wantErr(t, l.Scrub(ctx, 100<<10, nil), context.DeadlineExceeded)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it went on for %v", took)
		}
		must(t, l.Close())
	})
}
