package lane

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// A plainRig plays the caller of a plain lane: what it is asked to send leaves at once,
// unless it is stuck.
type plainRig struct {
	lane  *Plain
	now   time.Time
	log   []string
	stuck bool
	sent  func(*Batch)
	ended func(*Batch, Outcome)
}

func newPlainRig(again bool) *plainRig {
	r := &plainRig{lane: NewPlain(again), now: time.Unix(1_000_000, 0), sent: func(*Batch) {}, ended: func(*Batch, Outcome) {}}
	r.lane.jitter = func(d time.Duration) time.Duration { return d }
	return r
}

func (r *plainRig) drain() {
	for {
		actions := append([]Action(nil), r.lane.Actions()...)
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			switch a.Kind {
			case Open:
				r.log = append(r.log, "open")
				continue
			case Send:
				r.sent(a.Batch)
				if !r.stuck {
					r.lane.Written(r.now, a.Batch)
				}
			case Complete:
				r.ended(a.Batch, a.Outcome)
			}
			r.log = append(r.log, describe(a))
		}
	}
}

func (r *plainRig) ready() {
	r.lane.Connected(r.now)
	r.opened()
	r.log = nil
}

func (r *plainRig) opened() {
	r.lane.Opened(r.now, &wire.LaneOpened{LastSequence: -1, LastOffset: -1})
	r.drain()
}

func (r *plainRig) enqueue(batches int) {
	for range batches {
		r.lane.Enqueue(r.now, &Batch{Base: r.lane.Next(), Count: 1, Deadline: r.now.Add(testDelivery)})
		r.drain()
	}
}

func (r *plainRig) ok(base batchfmt.Seq) { r.answer(base, wire.CodeOK, batchfmt.Offset(base)+100) }

func (r *plainRig) err(base batchfmt.Seq, code wire.Code) { r.answer(base, code, -1) }

func (r *plainRig) answer(base batchfmt.Seq, code wire.Code, offset batchfmt.Offset) {
	r.lane.Result(r.now, &wire.ProduceResult{BaseSequence: base, Code: code, BaseOffset: offset, Expected: -1})
	r.drain()
}

func (r *plainRig) lost() { r.lane.Disconnected(r.now); r.drain() }

func (r *plainRig) back() { r.lane.Connected(r.now); r.drain() }

func (r *plainRig) tell(n int) { r.lane.Tell(r.now, r.lane.queue[n]); r.drain() }

func (r *plainRig) close(d time.Duration) {
	r.lane.Close(r.now, errClosed, r.now.Add(d))
	r.drain()
}

func (r *plainRig) wait(d time.Duration) {
	for end := r.now.Add(d); ; {
		next := r.lane.NextTick()
		last := next.IsZero() || next.After(end)
		if last {
			next = end
		}
		if next.After(r.now) {
			r.now = next
		}
		r.lane.Tick(r.now)
		r.drain()
		if again := r.lane.NextTick(); !again.IsZero() && !again.After(r.now) {
			panic(fmt.Sprintf("the lane wants a tick at a time that is over, after %q", r.log))
		}
		if last {
			return
		}
	}
}

func TestPlain(t *testing.T) {
	const lostAnswer = "it was handed to the network, and what it went over was lost before the answer"
	stories := []struct {
		name  string
		again bool
		play  func(r *plainRig)
		want  []string
	}{
		{"answers come in another order", false, func(r *plainRig) { r.enqueue(3); r.ok(1); r.ok(0); r.ok(2) },
			[]string{"send 0-0", "send 1-1", "send 2-2", "0-0 stored at 100", "1-1 stored at 101", "2-2 stored at 102"}},
		{"what has no answer is not sent again", false, func(r *plainRig) {
			r.enqueue(2)
			r.lost()
			r.back()
			r.opened()
			r.enqueue(1)
			r.ok(2)
		},
			[]string{"send 0-0", "send 1-1", "0-0 unknown: " + lostAnswer, "1-1 unknown: " + lostAnswer, "open", "send 2-2", "2-2 stored at 102"}},
		{"what has no answer is sent again if it may be", true, func(r *plainRig) {
			r.enqueue(2)
			r.lost()
			r.back()
			r.opened()
			r.ok(0)
			r.ok(1)
		},
			[]string{"send 0-0", "send 1-1", "open", "send 0-0", "send 1-1", "0-0 stored at 100", "1-1 stored at 101"}},
		{"what did not leave is sent when it can", false, func(r *plainRig) {
			r.enqueue(1)
			r.stuck = true
			r.enqueue(2)
			r.stuck = false
			r.lost()
			r.back()
			r.opened()
		},
			[]string{"send 0-0", "send 1-1", "0-0 unknown: " + lostAnswer, "1-1 unknown: " + lostAnswer, "open", "send 2-2"}},
		{"refused without harm, it is sent again", false, func(r *plainRig) { r.enqueue(2); r.err(0, wire.CodeThrottled); r.ok(1); r.wait(firstBackoff); r.ok(0) },
			[]string{"send 0-0", "send 1-1", "send 0-0", "0-0 stored at 100", "1-1 stored at 101"}},
		{"refused for good, the next ones go on", false, func(r *plainRig) { r.enqueue(2); r.err(0, wire.CodeMessageTooLarge); r.ok(1) },
			[]string{"send 0-0", "send 1-1", "0-0 not stored: MESSAGE_TOO_LARGE", "1-1 stored at 101"}},
		{"refused for good after a lost answer, nobody knows", true, func(r *plainRig) { r.enqueue(1); r.lost(); r.back(); r.opened(); r.err(0, wire.CodeMessageTooLarge) },
			[]string{"send 0-0", "open", "send 0-0", "0-0 unknown: MESSAGE_TOO_LARGE"}},
		{"an answer that leaves it open", false, func(r *plainRig) { r.enqueue(1); r.err(0, wire.CodeDurabilityUnknown) },
			[]string{"send 0-0", "0-0 unknown: DURABILITY_UNKNOWN"}},
		{"an answer that leaves it open, and it may be sent again", true, func(r *plainRig) { r.enqueue(1); r.err(0, wire.CodeDurabilityUnknown); r.wait(firstBackoff); r.ok(0) },
			[]string{"send 0-0", "send 0-0", "0-0 stored at 100"}},
		{"the topic is gone", false, func(r *plainRig) {
			r.enqueue(3)
			r.err(0, wire.CodeUnknownTopicID)
			r.err(1, wire.CodeUnknownTopicID)
			r.wait(minPatience)
		},
			[]string{"send 0-0", "send 1-1", "send 2-2", "0-0 not stored: UNKNOWN_TOPIC_ID", "1-1 not stored: UNKNOWN_TOPIC_ID",
				"2-2 unknown: UNKNOWN_TOPIC_ID", "fail: UNKNOWN_TOPIC_ID"}},
		{"the opening is refused for good", false, func(r *plainRig) {
			r.enqueue(1)
			r.lost()
			r.back()
			r.lane.Refused(r.now, wire.Errorf(wire.CodeUnknownTopicID, ""))
			r.drain()
		}, []string{"send 0-0", "0-0 unknown: " + lostAnswer, "open", "fail: UNKNOWN_TOPIC_ID"}},
		{"the opening is no good", false, func(r *plainRig) {
			r.enqueue(2)
			r.err(0, wire.CodeInvalidLane)
			r.err(1, wire.CodeInvalidLane)
			r.wait(firstBackoff)
			r.opened()
		}, []string{"send 0-0", "send 1-1", "open", "send 0-0", "send 1-1"}},
		{"no answer in time", false, func(r *plainRig) { r.enqueue(2); r.wait(testDelivery); r.ok(0) },
			[]string{"send 0-0", "send 1-1", "0-0 unknown: delivery timeout", "1-1 unknown: delivery timeout"}},
		{"refused until the time is over", false, func(r *plainRig) { r.enqueue(1); r.err(0, wire.CodeDiskFull); r.lost(); r.wait(testDelivery) },
			[]string{"send 0-0", "0-0 not stored: delivery timeout"}},
		{"given up by the application, and lost", true, func(r *plainRig) { r.enqueue(1); r.tell(0); r.lost(); r.back() },
			[]string{"send 0-0", "0-0 unknown: " + lostAnswer, "open"}},
		{"given up by the application, and answered", false, func(r *plainRig) { r.enqueue(1); r.tell(0); r.ok(0) },
			[]string{"send 0-0", "0-0 stored at 100"}},
		{"given up by the application, and refused", false, func(r *plainRig) { r.enqueue(1); r.tell(0); r.err(0, wire.CodeThrottled) },
			[]string{"send 0-0", "0-0 not stored: " + ErrGivenUp.Error()}},
		{"given up by the application while it waits", false, func(r *plainRig) { r.enqueue(1); r.err(0, wire.CodeThrottled); r.tell(0) },
			[]string{"send 0-0", "0-0 not stored: " + ErrGivenUp.Error()}},
		{"closed, with an answer in time", false, func(r *plainRig) { r.enqueue(1); r.close(time.Second); r.ok(0) },
			[]string{"send 0-0", "0-0 stored at 100", "fail: closed"}},
		{"closed, without an answer", false, func(r *plainRig) { r.enqueue(1); r.close(time.Second); r.wait(time.Second) },
			[]string{"send 0-0", "0-0 unknown: closed", "fail: closed"}},
		{"closed with nothing under way", false, func(r *plainRig) { r.close(time.Second) }, []string{"fail: closed"}},
		{"success without an offset", false, func(r *plainRig) { r.enqueue(1); r.answer(0, wire.CodeOK, -1) },
			[]string{"send 0-0", "0-0 unknown: PROTOCOL_ERROR", "fail: PROTOCOL_ERROR"}},
		{"no answer to the opening", false, func(r *plainRig) { r.lost(); r.back(); r.wait(minPatience) }, []string{"open", "open"}},
		{"the connection drains", false, func(r *plainRig) {
			r.enqueue(1)
			r.lane.Hold()
			r.ok(0)
			if r.lane.Room(r.now) || r.lane.Unanswered() {
				r.log = append(r.log, "room")
			}
		}, []string{"send 0-0", "0-0 stored at 100"}},
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			r := newPlainRig(s.again)
			r.ready()
			s.play(r)
			if diff := cmp.Diff(s.want, r.log); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPlainAtRandom: whatever happens, each batch has one outcome, in order; what may have
// been stored is not sent again, and never ends as not stored.
func TestPlainAtRandom(t *testing.T) {
	codes := []wire.Code{wire.CodeThrottled, wire.CodeDiskFull, wire.CodeDurabilityUnknown, wire.CodeMessageTooLarge, wire.CodeInvalidLane}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newPlainRig(seed%2 == 0)
		flying, open, last := map[*Batch]bool{}, map[*Batch]bool{}, batchfmt.Seq(-1)
		r.sent = func(b *Batch) {
			if flying[b] || open[b] && !r.lane.again {
				t.Fatalf("seed %d: %d is sent again; %q", seed, b.Base, r.log)
			}
			flying[b] = true
		}
		r.ended = func(b *Batch, o Outcome) {
			if b.Base != last+1 {
				t.Fatalf("seed %d: the outcome of %d comes after that of %d", seed, b.Base, last)
			}
			if o.Fate == NotStored && (flying[b] || open[b]) {
				t.Fatalf("seed %d: %d may be stored; %q", seed, b.Base, r.log)
			}
			last = b.Base
			delete(flying, b)
		}
		lose := func() {
			for b := range flying {
				open[b] = true
			}
			clear(flying)
		}
		for range 60 {
			switch rng.IntN(9) {
			case 0:
				lose()
				r.lost()
			case 1, 2:
				r.back()
				r.opened()
			case 3, 4:
				if r.lane.Room(r.now) {
					r.enqueue(1)
				}
			case 5:
				r.wait(time.Duration(rng.IntN(2000)) * time.Millisecond)
			case 6:
				if n := len(r.lane.queue); n > 0 {
					r.tell(rng.IntN(n))
				}
			default:
				for b := range flying { // any of them
					delete(flying, b)
					code := wire.CodeOK
					if rng.IntN(2) == 0 {
						code = codes[rng.IntN(len(codes))]
					}
					if code.Info().Outcome != wire.NothingHappened {
						open[b] = true
					}
					r.answer(b.Base, code, map[bool]batchfmt.Offset{true: 1, false: -1}[code == wire.CodeOK])
					break
				}
			}
		}
		r.close(time.Second)
		r.wait(time.Second)
		if r.lane.Stopped() == nil || last != r.lane.Next()-1 {
			t.Fatalf("seed %d: %d batches, the last outcome is that of %d; %q", seed, r.lane.Next(), last, r.log)
		}
	}
}
