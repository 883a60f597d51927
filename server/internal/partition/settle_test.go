package partition

import (
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/producerstate"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// A settle that waits for room must not go by the row that it read before: meanwhile the
// lane may have come back, gone on, and left again.
func TestSettleThatWaitsForRoomReadsTheRowAgain(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := openPartition(t, disk, few)
	for pid := batchfmt.ProducerID(1); pid <= 5; pid++ {
		b.visit(pid) // 1 has left memory: its row says that its last sequence is 0
	}
	pass, came := make(chan struct{}), make(chan struct{}, 100)
	disk.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpCreate && strings.Contains(name, "retired.head") { // once in each round of rows
			came <- struct{}{}
			<-pass
		}
	})
	open := func(pid batchfmt.ProducerID) (*Opening, chan *wire.Error) {
		sent := batchfmt.Seq(0)
		done := make(chan *wire.Error, 1)
		o := b.p.OpenLane(OpenRequest{Grant: NewGrant(pid, 0), Sent: &sent, Reply: func(_ *wire.LaneOpened, e *wire.Error) { done <- e }})
		return o, done
	}
	opened := func(done chan *wire.Error) {
		t.Helper()
		if e := <-done; e != nil {
			t.Fatal(e)
		}
	}
	one, oneDone := open(1)
	<-came // producer 2 is leaving for it
	var guests []*Opening
	var guestsDone []chan *wire.Error
	for pid := batchfmt.ProducerID(11); pid <= 14; pid++ {
		o, done := open(pid)
		guests, guestsDone = append(guests, o), append(guestsDone, done)
	}
	type fate struct {
		m *wire.Resolved
		e *wire.Error
	}
	settled := make(chan fate, 1)
	b.p.Resolve(ResolveRequest{
		Batch: producerstate.IdentityOf(sealed(t, 1, 1, "v")), Settle: true,
		Reply: func(m *wire.Resolved, e *wire.Error) { settled <- fate{m, e} },
	})
	for n := make(chan int); ; { // until it has read the row and waits for room
		b.p.do(func() { go func(waiting int) { n <- waiting }(len(b.p.owner.wantRoom)) })
		if <-n == 6 {
			break
		}
	}
	pass <- struct{}{}
	opened(oneDone)
	if r := b.send(one, 1, -1); r.Code != wire.CodeOK || r.Duplicate {
		t.Fatalf("%v %s", r.Code, r.Detail)
	}
	b.leave(one)
	for i := range 3 { // 3, 4 and 5 leave
		<-came
		pass <- struct{}{}
		opened(guestsDone[i])
	}
	<-came // 1 is leaving again, and its row says 1 by now
	b.leave(guests[0])
	pass <- struct{}{}
	opened(guestsDone[3])
	disk.Observe(nil)
	close(pass)
	f := <-settled
	if f.e != nil || f.m.Outcome != wire.ResolveStored {
		t.Errorf("the batch is stored at offset 5; by the answer it is: %+v, %v", f.m, f.e)
	}
	for _, o := range guests[1:] {
		b.leave(o)
	}
	o, m, e := b.enter(1, 1)
	if e != nil || m.LastSequence != 1 {
		t.Fatalf("the lane stands at %+v, %v; its last sequence is 1", m, e)
	}
	b.leave(o)
	b.close()
}
