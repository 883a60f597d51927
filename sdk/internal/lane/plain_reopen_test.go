package lane

import (
	"testing"
	"time"

	"github.com/quoin-io/quoin/wire"
)

// A plain lane that has to be opened anew and waits for answers which never come is opened anew
// when their batches are out of time, and not left as it is for ever.
func TestPlainIsOpenedAnewWhenAnswersNeverCome(t *testing.T) {
	now := time.Now()
	p := NewPlain(false)
	p.Connected(now)
	p.Opened(now, &wire.LaneOpened{})
	first := &Batch{Base: 0, Count: 1, Deadline: now.Add(time.Second)}
	second := &Batch{Base: 1, Count: 1, Deadline: now.Add(time.Minute)}
	for _, b := range []*Batch{first, second} {
		p.Enqueue(now, b)
		p.Written(now, b)
	}
	p.Result(now, &wire.ProduceResult{BaseSequence: 1, BaseOffset: -1, Code: wire.CodeInvalidLane})
	p.Actions()
	opened := false
	for range 10 {
		if now = p.NextTick(); now.IsZero() || now.After(second.Deadline) {
			break
		}
		p.Tick(now)
		for _, a := range p.Actions() {
			if opened = a.Kind == Open; opened {
				p.Opened(now, &wire.LaneOpened{})
				break
			}
		}
		if opened {
			break
		}
	}
	if !opened || !p.Room(now) {
		t.Errorf("opened anew: %v, room: %v", opened, p.Room(now))
	}
}
