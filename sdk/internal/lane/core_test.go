package lane

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/wire"
)

// Every story is a list of events and the actions that they must lead to.
var stories = []struct {
	name string
	play func(r *rig)
	want []string
}{
	{"a lane is opened before anything is sent", func(r *rig) {
		r.connect()
		r.opened(-1)
		r.enqueue(10)
		r.ok(0, 100)
	}, []string{"open acked -1 sent -1", "send 0-9", "0-9 stored at 100"}},

	{"five batches are in flight and complete in order", func(r *rig) {
		r.ready()
		r.enqueueAll(5, 2)
		r.ok(0, 0)
		r.ok(2, 2)
		r.ok(4, 4)
		r.ok(6, 6)
		r.ok(8, 8)
	}, []string{"send 0-1", "send 2-3", "send 4-5", "send 6-7", "send 8-9",
		"0-1 stored at 0", "2-3 stored at 2", "4-5 stored at 4", "6-7 stored at 6", "8-9 stored at 8"}},

	{"an answer that overtakes is kept back until its turn", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.ok(1, 1)
		r.ok(0, 0)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 0", "1-1 stored at 1"}},

	{"a later answer that stays alone makes the lane ask again soon", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.ok(1, 1)
		r.wait(gapPatience)
		r.opened(1)
		r.duplicate(0, 0)
	}, []string{"send 0-0", "send 1-1", "open acked -1 sent 1", "send 0-0", "0-0 stored at 0", "1-1 stored at 1"}},

	{"after a lost connection all is sent again: the first alone, then the rest", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.ok(0, 50)
		r.disconnect()
		r.connect()
		r.opened(2)
		r.duplicate(1, 51)
		r.duplicate(2, 52)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "0-0 stored at 50",
		"open acked 0 sent 2", "send 1-1", "1-1 stored at 51", "send 2-2", "2-2 stored at 52"}},

	{"an idle lane reopens without sending", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.ok(0, 7)
		r.disconnect()
		r.connect()
		r.opened(0)
		r.enqueue(1)
	}, []string{"send 0-0", "0-0 stored at 7", "open acked 0 sent 0", "send 1-1"}},

	{"a throttled head waits, then goes alone, then the others follow", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.err(0, wire.CodeThrottled)
		r.err(1, wire.CodeOutOfOrder)
		r.err(2, wire.CodeOutOfOrder)
		r.wait(firstBackoff)
		r.ok(0, 0)
		r.ok(1, 1)
		r.ok(2, 2)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "send 0-0", "0-0 stored at 0",
		"send 1-1", "send 2-2", "1-1 stored at 1", "2-2 stored at 2"}},

	{"the head waits for stale answers of those behind it", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeThrottled)
		r.wait(firstBackoff)
		r.err(1, wire.CodeOutOfOrder)
		r.ok(0, 0)
		r.ok(1, 1)
	}, []string{"send 0-0", "send 1-1", "send 0-0", "0-0 stored at 0", "send 1-1", "1-1 stored at 1"}},

	{"a head that was out of order behind another is simply sent again", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(1, wire.CodeOutOfOrder)
		r.ok(0, 0)
		r.ok(1, 1)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 0", "send 1-1", "1-1 stored at 1"}},

	{"a head that is out of order by itself asks where the lane stands", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.err(0, wire.CodeOutOfOrder)
		r.wait(firstBackoff)
		r.refused(wire.CodeDataLoss)
	}, []string{"send 0-0", "open acked -1 sent 0", "0-0 not stored: DATA_LOSS", "fail: DATA_LOSS"}},

	{"answers for unknown batches and second answers are ignored", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.ok(77, 1)
		r.ok(0, 0)
		r.ok(0, 0)
		r.err(0, wire.CodeSequenceConflict)
	}, []string{"send 0-0", "0-0 stored at 0"}},

	{"a refused first attempt is not stored and its sequence is free again", func(r *rig) {
		r.ready()
		r.enqueue(3)
		r.err(0, wire.CodeMessageTooLarge)
		r.enqueue(1)
		r.ok(0, 0)
	}, []string{"send 0-2", "0-2 not stored: MESSAGE_TOO_LARGE", "send 0-0", "0-0 stored at 0"}},

	{"a refusal in mid-pipeline ends those behind it, and the lane goes on from there", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.err(1, wire.CodeMessageTooLarge)
		r.err(2, wire.CodeOutOfOrder)
		r.ok(0, 0)
		r.err(1, wire.CodeMessageTooLarge)
		r.enqueue(1)
		r.ok(1, 1)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "0-0 stored at 0", "send 1-1",
		"1-1 not stored: MESSAGE_TOO_LARGE", "2-2 not stored: MESSAGE_TOO_LARGE", "send 1-1", "1-1 stored at 1"}},

	{"a refusal does not free sequences while an answer is missing: a new opening stands for it", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeCorruptBatch)
		r.wait(minPatience - 1)
		if r.core.Room(r.now) {
			r.log = append(r.log, "there is room before the answer")
		}
		r.wait(1)
		r.opened(-1)
		r.enqueue(1)
		r.ok(0, 0)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: CORRUPT_BATCH", "open acked -1 sent 1",
		"1-1 not stored: CORRUPT_BATCH", "send 0-0", "0-0 stored at 0"}},

	{"slow answers behind a refusal are waited for", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeMessageTooLarge)
		r.wait(minPatience - time.Millisecond)
		r.err(1, wire.CodeOutOfOrder)
		r.enqueue(1)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: MESSAGE_TOO_LARGE", "1-1 not stored: MESSAGE_TOO_LARGE", "send 0-0"}},

	{"a connection lost behind a refusal: the next opening proves what is not stored", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 2)
		r.ok(0, 10)
		r.err(2, wire.CodeMessageTooLarge)
		r.disconnect()
		r.wait(time.Second)
		r.connect()
		r.refused(wire.CodeThrottled)
		r.wait(firstBackoff)
		r.opened(1)
		r.enqueue(1)
	}, []string{"send 0-1", "send 2-3", "send 4-5", "0-1 stored at 10", "2-3 not stored: MESSAGE_TOO_LARGE",
		"open acked 1 sent 5", "open acked 1 sent 5", "4-5 not stored: MESSAGE_TOO_LARGE", "send 2-2"}},

	{"an answer behind a refusal that leaves its batch open is settled by a new opening", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeMessageTooLarge)
		r.err(1, wire.CodeDurabilityUnknown)
		r.opened(-1)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: MESSAGE_TOO_LARGE", "open acked -1 sent 1", "1-1 not stored: MESSAGE_TOO_LARGE"}},

	{"a server that holds the sequences of what it refused has seen a clone", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeMessageTooLarge)
		r.disconnect()
		r.connect()
		r.opened(0)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: MESSAGE_TOO_LARGE", "open acked -1 sent 1",
		"1-1 unknown: PRODUCER_CLONED", "fail: PRODUCER_CLONED"}},

	{"a success behind what was refused ends the lane", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeMessageTooLarge)
		r.ok(1, 0)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: MESSAGE_TOO_LARGE", "1-1 stored at 0", "fail: MESSAGE_TOO_LARGE"}},

	{"fenced while what stands behind a refusal is open", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeMessageTooLarge)
		r.disconnect()
		r.connect()
		r.refused(wire.CodeInvalidProducerEpoch)
		r.never(-1)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: MESSAGE_TOO_LARGE", "open acked -1 sent 1",
		"settle 1-1", "1-1 not stored: INVALID_PRODUCER_EPOCH", "fail: INVALID_PRODUCER_EPOCH"}},

	{"fenced, and what is open is asked for: it is stored, or the next holder has its place", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.disconnect()
		r.connect()
		r.refused(wire.CodeInvalidProducerEpoch)
		r.settled(wire.ResolveStored, 7, 0)
		r.never(5)
	}, []string{"send 0-0", "send 1-1", "open acked -1 sent 1", "settle 0-0", "0-0 stored at 7",
		"settle 1-1", "1-1 not stored: INVALID_PRODUCER_EPOCH", "fail: INVALID_PRODUCER_EPOCH"}},

	{"fenced, and nobody says what is stored", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.disconnect()
		r.connect()
		r.refused(wire.CodeInvalidProducerEpoch)
		r.wait(testDelivery + testGrace)
	}, []string{"send 0-0", "open acked -1 sent 0", "settle 0-0", "0-0 unknown: INVALID_PRODUCER_EPOCH", "fail: INVALID_PRODUCER_EPOCH"}},

	{"the delivery timeout holds behind a refusal too", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeMessageTooLarge)
		r.disconnect()
		r.wait(testDelivery)
		r.never(-1)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: MESSAGE_TOO_LARGE", "settle 1-1", "1-1 not stored: delivery timeout", "raise to 1"}},

	{"answers that do not come when the lane fails are not waited for beyond the delivery timeout", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.wait(minPatience - 1)
		r.now = r.now.Add(testDelivery - minPatience)
		r.err(0, wire.CodeMessageTooLarge)
		r.wait(1)
		r.wait(testGrace)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "0-0 not stored: MESSAGE_TOO_LARGE",
		"settle 1-1", "1-1 unknown: delivery timeout", "2-2 unknown: delivery timeout"}},

	{"an opening that another one of ours overtook is opened again", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeSuperseded)
		r.err(1, wire.CodeSuperseded)
		r.wait(firstBackoff)
		r.opened(0)
		r.duplicate(0, 0)
		r.ok(1, 1)
	}, []string{"send 0-0", "send 1-1", "open acked -1 sent 1", "send 0-0", "0-0 stored at 0", "send 1-1", "1-1 stored at 1"}},

	{"superseded, with the place where the batch is stored", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 2)
		r.errAt(0, wire.CodeSuperseded, 40)
		r.wait(firstBackoff)
		r.opened(1)
		r.ok(2, 42)
	}, []string{"send 0-1", "send 2-3", "0-1 stored at 40", "open acked 1 sent 3", "send 2-3", "2-3 stored at 42"}},

	{"fenced, with the place where the batch is stored", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.errAt(0, wire.CodeInvalidProducerEpoch, 7)
		r.errAt(1, wire.CodeInvalidProducerEpoch, 8)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 7", "1-1 stored at 8", "fail: INVALID_PRODUCER_EPOCH"}},

	{"fenced, and an earlier attempt that was left open is settled: it is not stored and never will be", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.disconnect()
		r.connect()
		r.opened(-1)
		r.fencedOff(0)
		r.core.RaiseRefused(r.now, wire.Errorf(wire.CodeInvalidProducerEpoch, ""))
		r.drain()
	}, []string{"send 0-0", "open acked -1 sent 0", "send 0-0", "raise to 1",
		"0-0 not stored: INVALID_PRODUCER_EPOCH", "fail: INVALID_PRODUCER_EPOCH"}},

	{"stored and unreadable by now: success, but its place is no point to agree on", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.ok(0, 5)
		r.errAt(1, wire.CodeBatchUnreadable, 6)
		r.disconnect()
		r.connect()
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 5", "1-1 stored at 6", "open acked 0 sent 1"}},

	{"the log could not be searched: asked again, and the outcome stays open", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.err(0, wire.CodeLookUpFailed)
		r.wait(firstBackoff)
		r.err(0, wire.CodeMessageTooLarge)
	}, []string{"send 0-0", "send 0-0", "0-0 unknown: MESSAGE_TOO_LARGE", "fail: MESSAGE_TOO_LARGE"}},

	{"a refusal of a batch whose earlier attempt is uncertain is unknown", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.disconnect()
		r.connect()
		r.opened(-1)
		r.err(0, wire.CodeMessageTooLarge)
	}, []string{"send 0-0", "open acked -1 sent 0", "send 0-0", "0-0 unknown: MESSAGE_TOO_LARGE", "fail: MESSAGE_TOO_LARGE"}},

	{"an unknown outcome sticks through a later definite error", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.err(0, wire.CodeDurabilityUnknown)
		r.wait(firstBackoff)
		r.err(0, wire.CodeCorruptBatch)
	}, []string{"send 0-0", "send 0-0", "0-0 unknown: CORRUPT_BATCH", "fail: CORRUPT_BATCH"}},

	{"a conflict on the only attempt proves that the batch is not stored", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.err(0, wire.CodeSequenceConflict)
		r.err(1, wire.CodeOutOfOrder)
	}, []string{"send 0-0", "send 1-1", "0-0 not stored: SEQUENCE_CONFLICT", "1-1 not stored: SEQUENCE_CONFLICT", "fail: SEQUENCE_CONFLICT"}},

	{"a fence is unknown for the head, and answers decide for those behind", func(r *rig) {
		r.ready()
		r.enqueueAll(3, 1)
		r.err(0, wire.CodeInvalidProducerEpoch)
		r.err(1, wire.CodeOutOfOrder)
		r.disconnect()
		r.settled(wire.ResolveStored, 3, 0)
		r.never(0)
	}, []string{"send 0-0", "send 1-1", "send 2-2", "settle 0-0", "0-0 stored at 3",
		"1-1 not stored: INVALID_PRODUCER_EPOCH", "settle 2-2", "2-2 not stored: INVALID_PRODUCER_EPOCH", "fail: INVALID_PRODUCER_EPOCH"}},

	{"a success that arrives while the lane fails counts", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.ok(1, 1)
		r.err(0, wire.CodeUnknownOutcome)
	}, []string{"send 0-0", "send 1-1", "0-0 unknown: UNKNOWN_OUTCOME", "1-1 stored at 1", "fail: UNKNOWN_OUTCOME"}},

	{"a code of a newer server leaves the outcome open", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.err(0, wire.Code(9999))
	}, []string{"send 0-0", "0-0 unknown: ERROR_9999", "fail: ERROR_9999"}},

	{"a deleted topic: the batch without an answer is unknown", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.disconnect()
		r.connect()
		r.refused(wire.CodeUnknownTopicID)
	}, []string{"send 0-0", "open acked -1 sent 0", "0-0 unknown: UNKNOWN_TOPIC_ID", "fail: UNKNOWN_TOPIC_ID"}},

	{"a lane that is refused for the moment is opened again after a pause", func(r *rig) {
		r.connect()
		r.refused(wire.CodeProducerLimitReached)
		r.wait(firstBackoff)
		r.refused(wire.CodeThrottled)
		r.wait(2 * firstBackoff)
		r.opened(-1)
		r.enqueue(1)
	}, []string{"open acked -1 sent -1", "open acked -1 sent -1", "open acked -1 sent -1", "send 0-0"}},

	{"a lane that was taken over is opened again and resends", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.refused(wire.CodeInvalidLane)
		r.wait(firstBackoff)
		r.opened(0)
		r.duplicate(0, 3)
	}, []string{"send 0-0", "open acked -1 sent 0", "send 0-0", "0-0 stored at 3"}},

	{"a server that holds more than was ever sent has seen a clone", func(r *rig) {
		r.connect()
		r.opened(4)
	}, []string{"open acked -1 sent -1", "fail: PRODUCER_CLONED"}},

	{"a server that lacks what it acknowledged lost data", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.ok(0, 0)
		r.disconnect()
		r.connect()
		r.opened(-1)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 0", "open acked 0 sent 1", "1-1 unknown: DATA_LOSS", "fail: DATA_LOSS"}},

	{"an answer that never comes is asked for again, ever more patiently", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.wait(minPatience)
		r.opened(0)
		r.wait(2 * minPatience)
		r.opened(0)
		r.duplicate(0, 0)
	}, []string{"send 0-0", "open acked -1 sent 0", "send 0-0", "open acked -1 sent 0", "send 0-0", "0-0 stored at 0"}},

	{"an opening that is never answered is repeated", func(r *rig) {
		r.connect()
		r.wait(minPatience)
		r.opened(-1)
		r.enqueue(1)
	}, []string{"open acked -1 sent -1", "open acked -1 sent -1", "send 0-0"}},

	{"without contact what was sent is unknown when the grace behind the delivery timeout ends", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.disconnect()
		r.wait(testDelivery + testGrace - 1)
		r.log = append(r.log, "the grace ends")
		r.wait(1)
	}, []string{"send 0-0", "send 1-1", "settle 0-0", "the grace ends", "0-0 unknown: delivery timeout", "1-1 unknown: delivery timeout"}},

	{"the delivery timeout is settled even if every answer was a refusal", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.now = r.now.Add(testDelivery - time.Millisecond)
		r.err(0, wire.CodeDiskFull)
		r.wait(time.Millisecond)
		r.wait(testGrace)
	}, []string{"send 0-0", "settle 0-0", "0-0 unknown: delivery timeout"}},

	{"a duplicate whose offset nobody knows any more is success, and proves nothing new", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.ok(0, 9)
		r.duplicate(1, -1)
		r.disconnect()
		r.connect()
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 9", "1-1 stored at -1", "open acked 0 sent 1"}},

	{"success without an offset is no success", func(r *rig) {
		r.ready()
		r.enqueue(1)
		r.ok(0, -1)
	}, []string{"send 0-0", "0-0 unknown: PROTOCOL_ERROR", "fail: PROTOCOL_ERROR"}},

	{"a draining connection gets nothing new and may answer what is out", func(r *rig) {
		r.ready()
		r.enqueueAll(2, 1)
		r.core.Hold()
		r.ok(0, 0)
		r.err(1, wire.CodeThrottled)
		r.wait(time.Second)
		if r.core.Room(r.now) || r.core.Unanswered() {
			r.log = append(r.log, "a held lane has room or waits")
		}
		r.disconnect()
		r.connect()
		r.opened(0)
	}, []string{"send 0-0", "send 1-1", "0-0 stored at 0", "open acked 0 sent 1", "send 1-1"}},
}

func TestStories(t *testing.T) {
	for _, story := range stories {
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

func TestDecideHead(t *testing.T) {
	tests := []struct {
		name              string
		code              wire.Code
		asHead, uncertain bool
		want              verdict
	}{
		{"out of order behind others that are done now", wire.CodeOutOfOrder, false, false, resendNow},
		{"out of order in front", wire.CodeOutOfOrder, true, false, reopen},
		{"the server forgot the lane number", wire.CodeInvalidLane, true, false, reopen},
		{"throttled", wire.CodeThrottled, true, false, resend},
		{"sync failed", wire.CodeDurabilityUnknown, true, true, resend},
		{"partition stopped", wire.CodePartitionStopped, true, true, resend},
		{"too large, first attempt", wire.CodeMessageTooLarge, true, false, refuse},
		{"corrupt, first attempt", wire.CodeCorruptBatch, true, false, refuse},
		{"too large, but an attempt may have been stored", wire.CodeMessageTooLarge, true, true, stop},
		{"conflict", wire.CodeSequenceConflict, true, false, stop},
		{"overtaken by an opening of our own", wire.CodeSuperseded, true, true, reopen},
		{"fenced", wire.CodeInvalidProducerEpoch, true, false, stop},
		{"stored, and unreadable by now", wire.CodeBatchUnreadable, true, true, stop},
		{"the log could not be searched", wire.CodeLookUpFailed, true, true, resend},
		{"data loss", wire.CodeDataLoss, true, false, stop},
		{"cloned", wire.CodeProducerCloned, true, false, stop},
		{"topic gone", wire.CodeUnknownTopicID, true, false, stop},
		{"server's own failure", wire.CodeInternal, true, false, stop},
		{"a code from the future", wire.Code(60000), true, false, stop},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideHead(tt.code, tt.asHead, tt.uncertain); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestEveryCodeHasAVerdict guards the table: no code may make the lane spin or forget.
func TestEveryCodeHasAVerdict(t *testing.T) {
	for _, row := range wire.Codes() {
		if row.Code == wire.CodeOK {
			continue
		}
		r := newRig()
		r.ready()
		r.enqueue(1)
		r.err(0, row.Code)
		r.wait(testDelivery + testGrace)
		if len(r.done) != 1 {
			t.Errorf("%v: %d outcomes after the delivery timeout: %q", row.Code, len(r.done), r.log)
		}
	}
}

// TestReopeningBacksOff: an opening that succeeds proves nothing, so openings whose
// batches then fail come ever more slowly.
func TestReopeningBacksOff(t *testing.T) {
	failures := map[string]func(r *rig){
		"the stream is lost":             func(r *rig) { r.refused(wire.CodeThrottled) },
		"the head is out of order":       func(r *rig) { r.err(0, wire.CodeOutOfOrder) },
		"another opening has taken over": func(r *rig) { r.err(0, wire.CodeSuperseded) },
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.ready()
			r.enqueue(1)
			openings := 0
			for ; len(r.done) == 0; openings++ {
				fail(r)
				r.wait(max(r.core.NextTick().Sub(r.now), 0))
				r.opened(-1)
			}
			if openings > 50 {
				t.Errorf("%d openings in %v", openings, testDelivery)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	r := newRig()
	if r.core.Room(r.now) {
		t.Error("a lane without a connection has room")
	}
	r.connect()
	if r.core.Room(r.now) {
		t.Error("a lane that is not open has room")
	}
	r.opened(-1)
	r.core.SetWindow(2)
	r.enqueueAll(2, 1)
	if r.core.Room(r.now) {
		t.Error("a full window has room")
	}
	r.ok(0, 0)
	if !r.core.Room(r.now) {
		t.Error("an answer made no room")
	}
	r.core.SetWindow(0)
	r.core.SetWindow(99)
	if r.core.window != MaxInFlight {
		t.Errorf("window is %d", r.core.window)
	}
}
