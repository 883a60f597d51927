package sdk_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// What becomes of batches on their way into one partition.
var laneScenarios = []scenario{
	{17, "renumbered", "a batch is settled as not stored, those behind it are numbered anew: under a new epoch, so that no late copy lands",
		[]string{"epoch-kept", "fence-off"}, renumbered},
	{18, "one-of-five-refused", "one of five in flight is refused for good: those before it are stored, those behind it are not; its sequence is not spent",
		[]string{"refusal-retried", "sequence-spent"}, oneOfFiveRefused},
	{52, "idle-for-a-day", "idle for a day, nothing uncertain, forgotten by the server's memory: the next batch is stored as if nothing had been",
		[]string{"memory-off"}, idleForADay},
	{64, "down-for-three-days", "the server is down for three days: what was uncertain is completed, or settled, when it is back",
		[]string{"memory-off", "resend-unknown"}, downForThreeDays},
	{73, "too-large", "a batch that the topic does not take: refused for good and never split, the next one has its sequence",
		[]string{"refusal-retried", "sequence-spent"}, tooLargeForTheTopic},
	{74, "partition-unavailable", "an uncertain record without a key, and its partition makes it wait: it stays there, others go elsewhere",
		[]string{"reroute"}, partitionUnavailable},
	{78, "lost-answer-between-answers", "the answer of n is lost, that of n+1 is there, whether it says that n is synced or nothing of n: n has its outcome, with its offset, by an answer of its own",
		[]string{"ack-completes-earlier"}, lostAnswerBetweenAnswers},
	{79, "late-gap", "OUT_OF_ORDER comes when the batch before is acknowledged: sent again at once, and nothing else changes",
		[]string{"gap-fails"}, lateGap},
	{85, "buffers-under-pressure", "batches expire while they are in flight, their memory is used again: what arrives is always the batch that it says",
		[]string{"buffer-reused"}, buffersUnderPressure},
}

func parsed(t *testing.T, batch []byte) batchfmt.Batch {
	t.Helper()
	b, err := batchfmt.Parse(batch)
	if err == nil {
		err = b.Verify()
	}
	if err != nil {
		t.Errorf("a batch arrived damaged: %v", err)
	}
	return b
}

// wantShutOut sends a late copy, which must meet the fence.
func wantShutOut(t *testing.T, p *sdk.Producer, late []byte) {
	t.Helper()
	r, err := sdk.SendLate(testContext(t), p, 0, late)
	if err != nil || r.Code != wire.CodeInvalidProducerEpoch || !r.NotStored {
		t.Errorf("the late copy is answered with %v (%s), %v", r.Code, r.Detail, err)
	}
}

func renumbered(t *testing.T) {
	t.Run("a copy of a later batch", func(t *testing.T) {
		s := startStage(t, 1)
		p := build(t, s.client.Producer("t").BatchBytes(1))
		var arrived copies
		token, acks := stranded(t, s.server, p, inTime, func(token sdk.Token) {
			await(t, s.sent, 3)
			s.server.HookFrames(arrived.hook(nil))
			r, err := dial(t, s.server).Resolve(testContext(t), token, sdk.Settle())
			if err != nil || r.Outcome != sdk.ResolveNotStored {
				t.Errorf("%+v, %v", r, err)
			}
		})
		s.settled.want(t, token, sdk.ResolveNotStored, -1)
		acks() // of 1 and 2, with the sequences 0 and 1 by now
		wantShutOut(t, p, arrived.of(t, 2, 0))
		goesOn(t, p, 3, 2, 1)
		wantLog(t, s.client, "1", "2", "3")
	})
	t.Run("a copy of the batch itself", func(t *testing.T) {
		s := startStage(t, 1)
		p := build(t, s.client.Producer("t"))
		var arrived copies
		var once sync.Once
		unknown := make(chan error, 1)
		sending := make(chan struct{})
		var giveUp context.CancelFunc
		var gaveUp <-chan error
		s.server.HookFrames(arrived.hook(func(m *wire.Produce) (cut bool) {
			once.Do(func() {
				<-sending
				giveUp()
				unknown <- <-gaveUp
				m.Batch[len(m.Batch)-1] ^= 1 // this one is damaged on the way, and another copy will be late
				cut = true
			})
			return cut
		}))
		giveUp, gaveUp = given(t, p, 0)
		close(sending)
		token := wantUnknown(t, await(t, unknown, 1)[0]).Token()
		s.settled.want(t, token, sdk.ResolveNotStored, -1)
		wantShutOut(t, p, arrived.of(t, 0, 0))
		goesOn(t, p, 1, 0, 1)
		wantLog(t, s.client, "1")
	})
}

// pipelined has the server read no batch before n are sent, when the function that it returns
// is called.
func (s *stage) pipelined(n int) (goOn func()) {
	open := unread(s.t, s.server)
	return func() {
		s.t.Helper()
		await(s.t, s.sent, n)
		open()
	}
}

// wantRefusal wants a record to be not stored because of code.
func wantRefusal(t *testing.T, record int, err error, code wire.Code) {
	t.Helper()
	var notStored *sdk.NotStored
	var refusal *sdk.ServerError
	if !errors.As(err, &notStored) || !errors.As(err, &refusal) || refusal.Code != code {
		t.Errorf("record %d: %v, want not stored because of %v", record, err, code)
	}
}

func oneOfFiveRefused(t *testing.T) {
	s := startStage(t, 1)
	p := build(t, s.client.Producer("t").BatchBytes(1))
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	var arrived copies
	s.server.HookFrames(arrived.hook(func(m *wire.Produce) (cut bool) {
		<-gate
		if m.Number() == 1 {
			m.Batch[len(m.Batch)-1] ^= 1
		}
		return false
	}))
	told := async(t, p, 0, 5)
	await(t, s.sent, 5)
	open()
	wantStored(t, told, 0, 0, false)
	for i, one := range await(t, told, 4) {
		wantRefusal(t, i+1, one.err, wire.CodeCorruptBatch)
	}
	s.server.HookFrames(servertest.FrameHooks{})
	goesOn(t, p, 5, 1, 0)
	wantLog(t, s.client, "0", "5")
}

func tooLargeForTheTopic(t *testing.T) {
	const limit = 2000
	s := startStage(t, 1)
	p := build(t, s.client.Producer("t"))
	goesOn(t, p, 0, 0, 0)
	open := unread(t, s.server)
	records := make([]sdk.Record, 4)
	for i := range records {
		records[i].Value = make([]byte, limit/3)
	}
	told := make(chan error, 1)
	go func() {
		_, err := p.SendBatch(testContext(t), records)
		told <- err
	}()
	await(t, s.sent, 2)
	if _, err := dial(t, s.server).AlterTopic(testContext(t), "t", sdk.SetMaxBatchBytes(limit)); err != nil {
		t.Fatal(err)
	}
	open()
	failed, ok := errors.AsType[*sdk.BatchError](await(t, told, 1)[0])
	if !ok {
		t.Fatal("they are stored")
	}
	for i, err := range failed.Errs {
		wantRefusal(t, i, err, wire.CodeMessageTooLarge)
	}
	goesOn(t, p, 1, 1, 0)
	wantLog(t, s.client, "0", "1")
}

// untilLane asks the server for the lane of p until it is as it has to be.
func (s *stage) untilLane(p *sdk.Producer, is func(sdk.ProducerLane) bool) {
	s.t.Helper()
	for ctx := testContext(s.t); ; {
		switch lane, err := s.client.DescribeProducer(ctx, "t", 0, p.ID()); {
		case err != nil:
			s.t.Fatal(err)
		case is(lane):
			return
		}
	}
}

func idleForADay(t *testing.T) {
	s := startStage(t, 1, servertest.Busy(0, 10*time.Millisecond))
	p := build(t, s.client.Producer("t"))
	goesOn(t, p, 0, 0, 0)
	s.server.CutConnection()
	s.untilLane(p, func(lane sdk.ProducerLane) bool { return !lane.Open })
	s.server.AdvanceUptime(25 * time.Hour)
	s.server.AdvanceClock(25 * time.Hour)
	s.untilLane(p, func(lane sdk.ProducerLane) bool { return lane.Retired })
	ack, err := p.Send(testContext(t), value(1))
	if err != nil || ack.Sequence != 1 || ack.Duplicate {
		t.Errorf("after a day: %+v, %v", ack, err)
	}
	if len(s.throttled)+len(s.fenced)+len(s.settled) > 0 {
		t.Error("the application notices something")
	}
	wantLog(t, s.client, "0", "1")
}

// Record 0 is stored, and its answer is lost; record 1 is given up, and never arrives.
func downForThreeDays(t *testing.T) {
	s := startStage(t, 1)
	p := build(t, s.client.Producer("t").BatchBytes(1))
	began, release := s.server.HoldSync()
	told := async(t, p, 0, 1)
	await(t, began, 1)
	arrived, gate := make(chan struct{}, 10), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(goOn)
	s.server.HookFrames(servertest.FrameHooks{Start: func(in bool, k wire.Kind, _ int) int {
		if !in || k != wire.KindProduce {
			return -1
		}
		arrived <- struct{}{}
		<-gate
		return 0
	}})
	giveUp, gaveUp := given(t, p, 1)
	await(t, arrived, 1)
	giveUp()
	token := wantUnknown(t, await(t, gaveUp, 1)[0]).Token()
	s.net.cutOff(true)
	goOn()
	release()
	s.server.HookFrames(servertest.FrameHooks{})
	s.server.RestartWith(func() { s.server.AdvanceClock(72 * time.Hour) })
	s.net.cutOff(false)
	wantStored(t, told, 0, 0, true)
	s.settled.want(t, token, sdk.ResolveNotStored, -1)
	goesOn(t, p, 2, 1, 1)
	// The token is worth as much to somebody else.
	kept, err := sdk.ParseToken(token.String())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := dial(t, s.server).Resolve(testContext(t), kept); err != nil || r.Outcome != sdk.ResolveNotStored {
		t.Errorf("%+v, %v", r, err)
	}
	wantLog(t, s.client, "0", "2")
}

func partitionUnavailable(t *testing.T) {
	s := startStage(t, 2)
	p := build(t, s.client.Producer("t"))
	s.server.FailSync() // nobody knows what is on disk, and the partition takes nothing more
	told := async(t, p, 0, 1)
	at := await(t, s.throttled, 1)[0].Partition
	ack, err := p.Send(testContext(t), value(1))
	if err != nil || ack.Partition == at {
		t.Errorf("while partition %d is not available: %+v, %v", at, ack, err)
	}
	s.server.Restart()
	if one := await(t, told, 1)[0]; one.err != nil || one.ack.Partition != at {
		t.Errorf("the record of partition %d: %+v, %v", at, one.ack, one.err)
	}
	all := readAll(t, s.client, "t")
	if diff := cmp.Diff([][]string{{"0"}, {"1"}}, [][]string{values(all[at]), values(all[1-at])}); diff != "" {
		t.Errorf("partition %d and the other (-sent +read):\n%s", at, diff)
	}
}

// What an answer says of the sequences before it proves that they are stored, but not where. So
// the lane asks for the answer that it lacks, which costs a moment and is complete.
func lostAnswerBetweenAnswers(t *testing.T) {
	for name, says := range map[string]bool{"nothing is said of it": false, "it is said to be synced": true} {
		t.Run(name, func(t *testing.T) { lostAnswer(t, says) })
	}
}

func lostAnswer(t *testing.T, saysSynced bool) {
	s := startStage(t, 1)
	p := build(t, s.client.Producer("t").BatchBytes(1))
	var lost atomic.Bool
	s.net.editAnswers(func(m *wire.ProduceResults) {
		left := m.Results[:0]
		for _, r := range m.Results {
			if r.BaseSequence == 0 && lost.CompareAndSwap(false, true) {
				continue
			}
			if !saysSynced {
				r.PersistedThrough = -1
			} else if r.PersistedThrough < 0 {
				t.Error("the server does not say that it is synced")
			}
			left = append(left, r)
		}
		m.Results = left
	})
	goOn := s.pipelined(2)
	told := async(t, p, 0, 2)
	goOn()
	for i, duplicate := range []bool{true, false} {
		one := await(t, told, 1)[0]
		if one.record != i || one.err != nil || one.ack.Offset != int64(i) || one.ack.Duplicate != duplicate {
			t.Errorf("told of record %d: %+v, %v", one.record, one.ack, one.err)
		}
	}
	wantLog(t, s.client, "0", "1")
}

func lateGap(t *testing.T) {
	s := startStage(t, 1)
	p := build(t, s.client.Producer("t").BatchBytes(1))
	var openings atomic.Int64
	var late atomic.Bool
	s.net.loseReplies(func(k wire.Kind) bool {
		if k == wire.KindLaneOpened {
			openings.Add(1)
		}
		return false
	})
	s.net.editAnswers(func(m *wire.ProduceResults) {
		for i := range m.Results {
			if r := &m.Results[i]; r.BaseSequence == 1 && late.CompareAndSwap(false, true) {
				*r = wire.ProduceResult{Lane: r.Lane, BaseSequence: 1, Code: wire.CodeOutOfOrder, BaseOffset: -1, Expected: 0, PersistedThrough: -1}
			}
		}
	})
	goOn := s.pipelined(2)
	told := async(t, p, 0, 2)
	goOn()
	wantStored(t, told, 0, 0, false)
	wantStored(t, told, 1, 1, true) // what was late is of a time before it was stored
	if n := openings.Load(); n != 1 {
		t.Errorf("the lane was opened %d times", n)
	}
	goesOn(t, p, 2, 2, 0)
	wantLog(t, s.client, numbers(0, 3)...)
}
