package partition

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// Streams that end while their openings wait for room: the lanes are opened all the same, for
// nobody, and hold their room for ever.
func TestOpeningOfAStreamThatEndedKeepsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk, few)
		defer b.close()
		for pid := batchfmt.ProducerID(1); pid <= 4; pid++ {
			b.visit(pid)
		}
		for round := range batchfmt.ProducerID(4) {
			gate := make(chan struct{})
			disk.Observe(func(op vfs.Op, name string) {
				if op == vfs.OpSync && strings.Contains(name, "retired") {
					<-gate
				}
			})
			o := b.p.OpenLane(OpenRequest{Grant: NewGrant(10+round, 0), Reply: func(*wire.LaneOpened, *wire.Error) {}})
			synctest.Wait() // rows are on their way
			b.p.CloseLane(o, func() {})
			synctest.Wait()
			close(gate)
			synctest.Wait()
		}
		disk.Observe(nil)
		open := 0
		b.together(func() {
			for _, l := range b.p.owner.state.All() {
				if l.Open() {
					open++
				}
			}
		})
		if open != 0 {
			t.Errorf("%d lanes are open, and no stream is there", open)
		}
		if _, _, e := b.enter(20, -1); e != nil {
			t.Errorf("a newcomer, with nobody connected: %v", e)
		}
	})
}

// The same opening, late, takes the lane from the stream that came after it.
func TestLateOpeningTakesTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewFaulty(vfs.NewMem())
		b := openPartition(t, disk, few)
		defer b.close()
		var held []*Opening
		for pid := batchfmt.ProducerID(1); pid <= 3; pid++ {
			o, _, _ := b.enter(pid, -1)
			held = append(held, o) // not written: these leave with their streams
		}
		b.visit(4)
		gate := make(chan struct{})
		disk.Observe(func(op vfs.Op, name string) {
			if op == vfs.OpSync && strings.Contains(name, "retired") {
				<-gate
			}
		})
		g := NewGrant(10, 0)
		old := b.p.OpenLane(OpenRequest{Grant: g, Reply: func(*wire.LaneOpened, *wire.Error) {}})
		synctest.Wait()
		b.p.CloseLane(old, func() {}) // the connection is lost
		b.leave(held[0])              // room without waiting
		var e *wire.Error
		fresh := b.p.OpenLane(OpenRequest{Grant: g, Reply: func(_ *wire.LaneOpened, failure *wire.Error) { e = failure }})
		synctest.Wait()
		if e != nil {
			t.Fatal(e)
		}
		close(gate)
		synctest.Wait()
		if r := b.send(fresh, 0, -1); r.Code != wire.CodeOK {
			t.Errorf("the newest stream is told %v: %s", r.Code, r.Detail)
		}
	})
}
