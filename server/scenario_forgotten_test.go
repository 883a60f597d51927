package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// The stories of producers that are in no memory and in no table any more: what is told of them
// is what the log has.

// forget lets producers come and go until the partition knows nothing of pid any more.
func (f *fixture) forget(t *testing.T, pid batchfmt.ProducerID) {
	t.Helper()
	until(t, "the producer is forgotten", func() bool {
		f.visit(t, f.c.NewProducer(), 1)
		return len(f.lanes(t, pid).Lanes) == 0
	})
}

func forgottenProducer(t *testing.T) {
	f := setUp(t, limits(4, 8), servertest.InMemory())
	f.lane.Leave()
	kept := f.visit(t, mustName(t, f.c, "checkout", 1), 6)
	gone := f.visit(t, f.c.NewProducer(), 6)
	f.forget(t, gone.p.ProducerID)
	f.restarts(t, func() {
		_, end := f.c.Subscribe(f.topic, 0)
		kept.comesBack(t, f)
		f.wantForgotten(t, gone)
		f.visit(t, f.c.NewProducer(), 1).comesBack(t, f) // who has its id since is new as ever
		if _, next := f.c.Subscribe(f.topic, 0); next != end+6 {
			t.Fatalf("the log ends at %d, want %d", next, end+6)
		}
	})
}

// wantForgotten checks that of a producer that may have been here nothing is claimed but what
// the log has.
func (f *fixture) wantForgotten(t *testing.T, v *visitor) {
	t.Helper()
	for _, as := range []func(*wire.OpenLane){
		func(*wire.OpenLane) {},
		func(m *wire.OpenLane) { m.Sent, m.Acked = nil, &wire.LanePoint{Sequence: 11, Offset: v.at[5] + 1} },
		func(m *wire.OpenLane) { m.Sent, m.Fresh = nil, true },
	} {
		m := v.opening(f)
		as(m)
		_, reply := f.c.OpenLane(m)
		e := wantError(t, reply, wire.CodeUnknownProducerID)
		if e.Code.Info().Outcome != wire.OutcomeUnknown || e.Code.Info().Retry {
			t.Fatalf("the refusal says more than anybody knows: %+v", e)
		}
	}
	// Nor does it help to say that nothing was sent.
	l, _ := f.blank(t, v)
	l.Produce(v.batches[0])
	wantStored(t, l.Result(), v.at[0], true)
	next := rawclient.Batch(t, v.p, v.sent()+1, "next")
	l.Produce(next)
	wantCode(t, l.Result(), wire.CodeUnknownProducerID)
	l.Leave()
	f.wantFates(t, v, v.batches[0], wire.ResolveStored, v.at[0])
	f.wantFates(t, v, next, wire.ResolveUnknowable, -1)
}

// blank opens the lane of a visitor that says it has sent nothing.
func (f *fixture) blank(t *testing.T, v *visitor) (l *rawclient.Lane, logStart batchfmt.Offset) {
	t.Helper()
	m := v.opening(f)
	m.Sent = nil
	l, reply := f.c.OpenLane(m)
	opened, ok := reply.(*wire.LaneOpened)
	if !ok || opened.LastSequence != -1 {
		t.Fatalf("the lane: %+v", reply)
	}
	return l, opened.LogStart
}

// wantFates asks what became of a batch, to know it and to have it final.
func (f *fixture) wantFates(t *testing.T, v *visitor, b []byte, outcome wire.ResolveOutcome, offset batchfmt.Offset) {
	t.Helper()
	for _, settle := range []bool{false, true} {
		ask := f.asking(t, b)
		ask.Key, ask.Settle = v.p.Key, settle
		wantFate(t, f.c.Request(ask), outcome, offset)
	}
}

func forgottenAndInTheLog(t *testing.T) {
	small := servertest.Configure(func(c *server.Config) { c.SegmentBytes = 1024 })
	t.Run("fenced", func(t *testing.T) {
		f := setUp(t, limits(4, 8), small, servertest.InMemory())
		f.lane.Leave()
		gone := f.visit(t, f.c.NewProducer(), 6)
		settle := f.asking(t, rawclient.Batch(t, gone.p, gone.sent()+1, "late"))
		settle.Key, settle.Settle = gone.p.Key, true
		wantFate(t, f.c.Request(settle), wire.ResolveNever, -1)
		f.forget(t, gone.p.ProducerID)
		f.restarts(t, func() { f.wantProven(t, gone, 0, 6) })
	})
	t.Run("removed", func(t *testing.T) {
		f := setUp(t, limits(4, 8), small)
		f.lane.Leave()
		gone := f.visit(t, f.c.NewProducer(), 12) // over some segments
		f.forget(t, gone.p.ProducerID)
		f.wantProven(t, gone, 0, 12)
		f.stopped(t, func() { f.removeFirstSegment(t) })
		l, start := f.blank(t, gone)
		removed := 0
		for removed < 12 && gone.at[removed] < start {
			l.Produce(gone.batches[removed])
			wantCode(t, l.Result(), wire.CodeUnknownProducerID)
			f.wantFates(t, gone, gone.batches[removed], wire.ResolveUnknowable, -1)
			removed++
		}
		l.Leave()
		if removed == 0 || removed == 12 {
			t.Fatalf("%d batches of 12 are removed", removed)
		}
		f.wantProven(t, gone, removed, 12)
	})
	t.Run("damaged", func(t *testing.T) {
		f := setUp(t, limits(4, 8), small)
		f.lane.Leave()
		gone := f.visit(t, f.c.NewProducer(), 6)
		f.forget(t, gone.p.ProducerID)
		f.stopped(t, func() { f.damage(t, gone.batches[2]) })
		l, _ := f.blank(t, gone)
		for range 2 { // the second time it is known
			l.Produce(gone.batches[2])
			if r := l.Result(); r.Code != wire.CodeBatchUnreadable || r.BaseOffset != gone.at[2] {
				t.Fatalf("the damaged batch: %v at %d, want offset %d", r.Code, r.BaseOffset, gone.at[2])
			}
			l.Produce(rawclient.Batch(t, gone.p, 4, "other", "values"))
			wantCode(t, l.Result(), wire.CodeUnknownProducerID)
			l.Produce(gone.batches[3])
			wantStored(t, l.Result(), gone.at[3], true)
		}
		l.Leave()
		f.wantFates(t, gone, gone.batches[2], wire.ResolveStored, gone.at[2])
	})
}

// stopped stops the server in good order, changes its files, and starts it again.
func (f *fixture) stopped(t *testing.T, change func()) {
	t.Helper()
	f.c.Conn.CloseWithError(0, "")
	f.RestartWith(change)
	f.c = rawclient.Dial(t, f.URL())
}

// removeFirstSegment takes the files of the oldest segment away, as retention does.
func (f *fixture) removeFirstSegment(t *testing.T) {
	t.Helper()
	first := filepath.Join(f.partitionDir(), fmt.Sprintf("%020d", 0))
	if err := errors.Join(os.Remove(first+".seg"), os.Remove(first+".idx")); err != nil {
		t.Fatal(err)
	}
}

// damage changes a byte in the records of a stored batch.
func (f *fixture) damage(t *testing.T, sealed []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(f.partitionDir(), "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	body := sealed[batchfmt.FrontSize:] // the front is stamped by the server
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(b, body); at >= 0 {
			b[at+len(body)-1] ^= 1
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the batch is in no segment")
}

// wantProven checks that the batches of a visitor from one up to another are told to be
// stored, others in their place to be in conflict, and that nothing is appended.
func (f *fixture) wantProven(t *testing.T, v *visitor, from, to int) {
	t.Helper()
	_, end := f.c.Subscribe(f.topic, 0)
	l, _ := f.blank(t, v)
	for i := from; i < to; i++ {
		base := batchfmt.Seq(2 * i)
		l.Produce(v.batches[i])
		wantStored(t, l.Result(), v.at[i], true)
		other := rawclient.Batch(t, v.p, base, "other", "values")
		l.Produce(other)
		wantCode(t, l.Result(), wire.CodeSequenceConflict)
		f.wantFates(t, v, v.batches[i], wire.ResolveStored, v.at[i])
		f.wantFates(t, v, other, wire.ResolveNever, -1)
	}
	late := rawclient.Batch(t, v.p, v.sent()+1, "late")
	l.Produce(late)
	wantCode(t, l.Result(), wire.CodeUnknownProducerID)
	f.wantFates(t, v, late, wire.ResolveUnknowable, -1)
	l.Leave()
	if _, now := f.c.Subscribe(f.topic, 0); now != end {
		t.Fatalf("the log ends at %d, it did at %d", now, end)
	}
}
