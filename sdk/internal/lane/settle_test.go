package lane

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// settleStories are those of batches that are settled: the application gives up, and what
// it gave up is never sent again.
var settleStories = []struct {
	name string
	play func(r *rig)
	want []string
}{
	{"out of time, and stored: the ack comes late, and no epoch is needed", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 2)
		r.disconnect()
		r.now = r.now.Add(testDelivery)
		r.core.queue[1].Deadline = r.now.Add(1)
		r.core.Tick(r.now)
		r.drain()
		r.connect()
		r.settled(wire.ResolveStored, 40, 1)
		r.opened(1)
	}, []string{"send 0-1", "send 2-3", "settle 0-1", "0-1 stored at 40", "open acked 1 sent 3", "send 2-3"}},

	{"out of time, and not stored: what stood behind it goes on under the next epoch, in its place", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 2)
		r.ok(0, 0)
		r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
		r.wait(time.Millisecond)
		r.never(1)
		r.raised()
		r.opened(1)
		r.ok(2, 2)
		r.enqueue(1)
	}, []string{"send 0-1", "send 2-3", "send 4-5", "0-1 stored at 0", "settle 2-3",
		"2-3 not stored: delivery timeout", "raise to 1", "reseal 2-3", "open acked 1 sent 1",
		"send 2-3", "2-3 stored at 2", "send 4-4"}},

	{"success that arrives while it is asked counts, and the answer is awaited all the same", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
		r.wait(time.Millisecond)
		r.ok(0, 9)
		r.log = append(r.log, "answer")
		r.settled(wire.ResolveStored, 9, 0)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "0-0 stored at 9", "answer", "open acked 0 sent 1"}},

	{"refusals that arrive while it is asked decide nothing", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
		r.wait(time.Millisecond)
		r.err(0, wire.CodeMessageTooLarge)
		r.err(1, wire.CodeOutOfOrder)
		r.refused(wire.CodeInvalidProducerEpoch)
		r.log = append(r.log, "answer")
		r.never(-1)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "answer", "0-0 not stored: delivery timeout", "raise to 1"}},

	{"told to be unknown: settled at the next contact, reported, and nothing goes out before", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.core.queue[1].Deadline = r.now.Add(time.Hour)
		r.disconnect()
		r.wait(testDelivery + testGrace)
		r.connect()
		if r.core.Room(r.now) {
			r.log = append(r.log, "there is room")
		}
		r.log = append(r.log, "contact")
		r.never(-1)
		r.raised()
		r.opened(-1)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "0-0 unknown: delivery timeout", "contact",
		"report 0-0 not stored", "raise to 1", "reseal 0-0", "open acked -1 sent -1", "send 0-0"}},

	{"several told to be unknown: each is settled, until a fence has passed them all", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.disconnect()
		r.wait(testDelivery + testGrace)
		r.settled(wire.ResolveStored, 5, 0)
		r.never(0)
		r.raised()
		r.connect()
	}, []string{"send 0-0", "send 1-1", "send 2-2", "settle 0-0", "0-0 unknown: delivery timeout",
		"1-1 unknown: delivery timeout", "2-2 unknown: delivery timeout", "report 0-0 stored", "settle 1-1",
		"report 1-1 not stored", "report 2-2 not stored", "raise to 1", "open acked 0 sent 0"}},

	{"given up while its answer is on its way: the answer decides", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.tell(0)
		r.ok(0, 3)
		r.ok(1, 4)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 3", "1-1 stored at 4"}},

	{"given up, and the answer is lost: settled and not sent again", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.tell(1)
		r.disconnect()
		r.connect()
		r.opened(1)
		r.duplicate(0, 0)
		r.never(0)
		r.raised()
		r.opened(0)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "open acked -1 sent 2", "send 0-0", "0-0 stored at 0",
		"settle 1-1", "1-1 not stored: the application had given up one of its records", "raise to 1", "reseal 1-1",
		"open acked 0 sent 0", "send 1-1"}},

	{"given up behind one that is sealed anew: it ends in its turn and is not sealed", func(r *rig) {
		r.ready()
		r.enqueueAll(4, 1)
		r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
		r.tell(2)
		r.wait(time.Millisecond)
		r.never(-1)
		r.raised()
		r.opened(-1)
		r.ok(0, 0)
		r.ok(1, 1)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "send 3-3", "settle 0-0", "0-0 not stored: delivery timeout", "raise to 1",
		"reseal 0-0", "reseal 1-1", "open acked -1 sent -1", "send 0-0", "0-0 stored at 0",
		"2-2 not stored: the application had given up one of its records", "send 1-1", "1-1 stored at 1"}},

	{"given up while the epoch is raised", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
		r.wait(time.Millisecond)
		r.never(-1)
		r.tell(0)
		r.raised()
		r.opened(-1)
		r.enqueue(1)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "0-0 not stored: delivery timeout", "raise to 1",
		"1-1 not stored: the application had given up one of its records", "open acked -1 sent -1", "send 0-0"}},

	{"out of time while the epoch is raised", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
		r.wait(time.Millisecond)
		r.never(-1)
		r.wait(testDelivery)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "0-0 not stored: delivery timeout", "raise to 1", "1-1 not stored: delivery timeout"}},

	{"a fence that somebody else set: proved, so it goes on under the next epoch", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.fencedOff(0)
		r.fencedOff(1)
		r.raised()
		r.opened(-1)
		r.ok(0, 0)
		r.ok(1, 1)
	}, []string{"send 0-0", "send 1-1", "raise to 1", "reseal 0-0", "reseal 1-1", "open acked -1 sent -1",
		"send 0-0", "0-0 stored at 0", "send 1-1", "1-1 stored at 1"}},

	{"the epoch cannot be raised: what waited for it is not stored", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
		r.wait(time.Millisecond)
		r.never(-1)
		r.core.RaiseRefused(r.now, wire.Errorf(wire.CodeInvalidProducerEpoch, ""))
		r.drain()
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "0-0 not stored: delivery timeout", "raise to 1",
		"1-1 not stored: INVALID_PRODUCER_EPOCH", "fail: INVALID_PRODUCER_EPOCH"}},

	{"another batch in its place: a clone", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.disconnect()
		r.wait(testDelivery)
		r.never(3)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "0-0 not stored: PRODUCER_CLONED", "1-1 unknown: PRODUCER_CLONED", "fail: PRODUCER_CLONED"}},

	{"nobody can say: the lane is over", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.disconnect()
		r.wait(testDelivery)
		r.settled(wire.ResolveUnknowable, -1, 7)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "0-0 unknown: UNKNOWN_OUTCOME", "1-1 unknown: UNKNOWN_OUTCOME", "fail: UNKNOWN_OUTCOME"}},

	{"the topic is gone", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.disconnect()
		r.wait(testDelivery + testGrace)
		r.settled(wire.ResolveTopicGone, -1, -1)
	}, []string{"send 0-0", "settle 0-0", "0-0 unknown: delivery timeout", "report 0-0 topic gone", "fail: UNKNOWN_TOPIC_ID"}},

	{"the server will not say", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.disconnect()
		r.wait(testDelivery)
		r.core.SettleRefused(r.now, r.asked, wire.Errorf(wire.CodeProducerKeyMismatch, ""))
		r.drain()
	}, []string{"send 0-0", "settle 0-0", "0-0 unknown: PRODUCER_KEY_MISMATCH", "fail: PRODUCER_KEY_MISMATCH"}},

	{"a fence in front of what was acknowledged: data is lost", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.ok(0, 0)
		r.disconnect()
		r.wait(testDelivery)
		r.never(-1)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 0", "settle 1-1", "1-1 unknown: DATA_LOSS", "fail: DATA_LOSS"}},

	{"closing: settled one by one until one is not stored, then none behind it is", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.close(time.Second)
		r.settled(wire.ResolveStored, 5, 0)
		r.never(0)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "settle 0-0", "0-0 stored at 5", "settle 1-1",
		"1-1 not stored: closed", "2-2 not stored: closed", "fail: closed"}},

	{"closing without an answer: unknown in time, and what is proved is not stored", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.err(0, wire.CodeDiskFull)
		r.close(time.Second)
		r.close(time.Minute)
		r.wait(time.Second)
		r.close(time.Second)
		r.disconnect()
		r.connect()
	}, []string{"send 0-0", "send 1-1", "send 2-2", "0-0 not stored: closed", "settle 1-1",
		"1-1 unknown: closed", "2-2 unknown: closed", "fail: closed"}},

	{"closing gets less time", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.close(time.Minute)
		r.close(0)
	}, []string{"send 0-0", "settle 0-0", "0-0 unknown: closed", "fail: closed"}},

	{"closing does not wait for what was told long ago", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.disconnect()
		r.wait(testDelivery + testGrace)
		r.close(time.Minute)
	}, []string{"send 0-0", "settle 0-0", "0-0 unknown: delivery timeout", "fail: closed"}},

	{"closing while the epoch is raised", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.fencedOff(0)
		r.close(time.Minute)
	}, []string{"send 0-0", "send 1-1", "raise to 1", "0-0 not stored: INVALID_PRODUCER_EPOCH",
		"1-1 not stored: closed", "fail: closed"}},

	{"a fresh lane goes on behind what the server has", func(r *rig) {
		r.core = NewFresh()
		r.connect()
		r.core.Opened(r.now, &wire.LaneOpened{LastSequence: 6, LastOffset: 60, LastDigest: 5})
		r.drain()
		r.enqueue(2)
		r.disconnect()
		r.connect()
	}, []string{"open fresh", "send 7-8", "open acked 6 sent 8"}},

	{"a fresh lane of which the server knows nothing but the end", func(r *rig) {
		r.core = NewFresh()
		r.connect()
		r.disconnect()
		r.connect()
		r.core.Opened(r.now, &wire.LaneOpened{LastSequence: 6, LastOffset: -1})
		r.drain()
		r.disconnect()
		r.connect()
	}, []string{"open fresh", "open fresh", "open acked -1 sent 6"}},
}

func TestSettleStories(t *testing.T) {
	for _, story := range settleStories {
		t.Run(story.name, func(t *testing.T) {
			r := newRig()
			story.play(r)
			if diff := cmp.Diff(story.want, r.log); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			for b, n := range r.done {
				if n != 1 {
					t.Errorf("batch %d has %d outcomes", b.Base, n)
				}
			}
		})
	}
}

func TestDecideSettled(t *testing.T) {
	tests := []struct {
		name string
		m    wire.Resolved
		want settled
	}{
		{"stored", wire.Resolved{Outcome: wire.ResolveStored, LastSequence: 20}, settledStored},
		{"the lane ends in front of it", wire.Resolved{Outcome: wire.ResolveNever, LastSequence: 9}, settledFenced},
		{"the lane holds nothing", wire.Resolved{Outcome: wire.ResolveNever, LastSequence: -1}, settledFenced},
		{"another batch is there", wire.Resolved{Outcome: wire.ResolveNever, LastSequence: 10}, settledTaken},
		{"an answer that does not settle", wire.Resolved{Outcome: wire.ResolveNotYet, LastSequence: 9}, settledOver},
		{"in flight is no answer either", wire.Resolved{Outcome: wire.ResolveInFlight, LastSequence: 9}, settledOver},
		{"topic gone", wire.Resolved{Outcome: wire.ResolveTopicGone}, settledOver},
		{"unknowable", wire.Resolved{Outcome: wire.ResolveUnknowable}, settledOver},
		{"of a newer server", wire.Resolved{Outcome: 99}, settledOver},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideSettled(10, &tt.m); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// What was sealed anew and never handed over is not stored: its old identity is proved to be
// stored nowhere, and the new one has never left.
func TestSealedAnewAndNeverSentIsNotUnknown(t *testing.T) {
	stories := []struct {
		name string
		play func(r *rig)
		want []string
	}{
		{"the opening is refused", func(r *rig) { r.refused(wire.CodeDataLoss) },
			[]string{"open acked -1 sent -1", "0-0 not stored: DATA_LOSS", "fail: DATA_LOSS"}},
		{"closed without an answer", func(r *rig) { r.disconnect(); r.close(0) },
			[]string{"open acked -1 sent -1", "0-0 not stored: closed", "fail: closed"}},
	}
	for _, s := range stories {
		r := newRig()
		r.ready()
		r.enqueueAll(1, 1)
		r.fencedOff(0)
		r.log = nil
		r.raised()
		s.play(r)
		want := append([]string{"reseal 0-0"}, s.want...)
		if diff := cmp.Diff(want, r.log); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
	}
}

// What was sealed anew and never handed over ends as not stored while it is being settled. The
// answer says no more than that and is not reported.
func TestSealedAnewAndSettledTooLateIsNotReported(t *testing.T) {
	r := newRig()
	r.ready()
	r.enqueueAll(1, 1)
	r.fencedOff(0)
	r.raised()
	r.disconnect()
	r.log = nil
	r.wait(testDelivery + testGrace)
	r.never(-1)
	want := []string{"settle 0-0", "0-0 not stored: delivery timeout", "raise to 2"}
	if diff := cmp.Diff(want, r.log); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// A batch that ends as not stored behind one that ends as unknown, and is stored after all,
// leaves no hole in the sequences: the next batch goes where the server waits.
func TestNoHoleBehindWhatWasUnknown(t *testing.T) {
	r := newRig()
	r.ready()
	r.enqueueAll(2, 1)
	r.core.queue[0].Deadline = r.now.Add(time.Millisecond)
	r.core.queue[1].Deadline = r.now.Add(time.Millisecond)
	r.wait(time.Millisecond) // settle 0
	r.fencedOff(1)           // somebody has settled 1; the answer for 0 is still on its way
	r.wait(testGrace)        // 0 unknown, 1 not stored
	r.settled(wire.ResolveStored, 7, 0)
	if r.asked.Base == 1 && r.core.asked != nil { // what the fix makes of it
		r.never(0)
		r.raised()
	}
	r.opened(0)
	if next := r.core.Next(); next != 1 || !r.core.Room(r.now) {
		t.Errorf("the next batch gets sequence %d, the server waits for 1; %q", next, r.log)
	}
}

// A lane of a process that is gone: what must not be sent again is settled before anything is
// sent, the rest is sent unchanged, and what comes new is behind it.
func TestResumed(t *testing.T) {
	batch := func(base batchfmt.Seq) *Batch {
		return &Batch{Base: base, Count: 1, Epoch: 3, Digest: batchfmt.Digest(base + 7), Deadline: time.Unix(1_000_000, 0).Add(testDelivery)}
	}
	stories := []struct {
		name string
		told batchfmt.Seq
		play func(r *rig)
		want []string
	}{
		{"nothing was told", -1, func(r *rig) {
			r.connect()
			r.opened(5)
			r.duplicate(5, 50)
			r.ok(6, 60)
			r.enqueue(1)
			r.ok(7, 70)
		},
			[]string{"open acked 4 sent 6", "send 5-5", "5-5 stored at 50", "send 6-6", "6-6 stored at 60", "send 7-7", "7-7 stored at 70"}},
		{"one is stored that was told to be unknown", 5, func(r *rig) { r.connect(); r.settled(wire.ResolveStored, 50, 5); r.opened(5); r.ok(6, 60) },
			[]string{"settle 5-5", "5-5 stored at 50", "open acked 5 sent 6", "send 6-6", "6-6 stored at 60"}},
		{"one is not stored that was told to be unknown", 5, func(r *rig) { r.connect(); r.never(4); r.raised(); r.opened(4); r.ok(5, 50) },
			[]string{"settle 5-5", "5-5 not stored: " + ErrGivenUp.Error(), "raise to 4", "reseal 5-5", "open acked 4 sent 4", "send 5-5", "5-5 stored at 50"}},
		{"somebody else wrote under the name", -1, func(r *rig) { r.connect(); r.opened(9) },
			[]string{"open acked 4 sent 6", "5-5 unknown: PRODUCER_CLONED", "6-6 unknown: PRODUCER_CLONED", "fail: PRODUCER_CLONED"}},
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			r := newRig()
			r.epoch = 3
			r.core = NewResumed(Resume{Next: 7, Acked: &wire.LanePoint{Sequence: 4, Offset: 40, Digest: 11}, Epoch: 3,
				Batches: []*Batch{batch(5), batch(6)}, Told: func(b *Batch) bool { return b.Base == s.told }})
			r.core.jitter = func(d time.Duration) time.Duration { return d }
			r.core.SetGrace(testGrace)
			s.play(r)
			if diff := cmp.Diff(s.want, r.log); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
