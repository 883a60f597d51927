//go:build linux

package proof

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

var fills = flag.Int("fills", 5, "how often TestDiskFillsUp and TestKilledOnAFullDisk fill the disk")

// What there can be none of on a full disk; also the commands that make it so.
const (
	fillBytes  = "bytes"
	fillInodes = "inodes"
)

const (
	// fillsPerEra bounds what one disk, one server and one set of producers live through.
	fillsPerEra = 20
	// onFullDisk is how many records a second each producer sends.
	onFullDisk     = 300
	fullPartitions = 3
	// manyPartitions need more room than the pages that happen to be half used.
	manyPartitions = 16
	// newProducers come in each round, on the full disk and when there is room again.
	newProducers = 20
	// createPatience is how long a client asks for a topic that there is no room for.
	createPatience = 300 * time.Millisecond
)

// TestDiskFillsUp fills the disk of a server and frees it, again and again, while producers
// send and a consumer reads. Sometimes the server is killed while the disk is full, and
// started when it is not.
func TestDiskFillsUp(t *testing.T) { eachEra(t, func(f *fullDisk) { f.fillAndFree() }) }

// TestKilledOnAFullDisk is that with a server that is killed while the disk is full, and
// has to start on the full disk.
func TestKilledOnAFullDisk(t *testing.T) { eachEra(t, func(f *fullDisk) { f.killAndFree() }) }

func eachEra(t *testing.T, round func(*fullDisk)) {
	t.Parallel() // most of it is waiting for syncs
	run := campaign.Start(t, *seed)
	for done := 0; done < *fills && !t.Failed(); {
		var refused error
		t.Run(fmt.Sprintf("from %d", done), func(t *testing.T) {
			var d *disk
			if d, refused = newDisk(t); refused == nil {
				f := newFullDisk(t, run, d, done)
				done = f.live(min(done+fillsPerEra, *fills), round)
			}
		})
		if refused != nil {
			t.Skipf("the system lets this process have no mount namespace with a disk of its own: %v", refused)
		}
	}
}

// A fullDisk is one era of the campaign.
type fullDisk struct {
	t       *testing.T
	run     *campaign.Run
	rng     *rand.Rand
	disk    *disk
	url     string
	client  *sdk.Client
	waits   *waits
	senders []*sender
	reader  *follower
	soFar   *ledger
	kind    string
	round   int
	enough  bool              // is free for a further round
	seen    map[[16]byte]bool // ids of topics
	pids    map[uint64]bool   // ids of producers
}

func newFullDisk(t *testing.T, run *campaign.Run, d *disk, first int) *fullDisk {
	f := &fullDisk{t: t, run: run, rng: rand.New(rand.NewPCG(*seed, uint64(first))), disk: d, round: first,
		waits: newWaits(t), soFar: newLedger("full"), seen: make(map[[16]byte]bool), pids: make(map[uint64]bool)}
	f.url = f.disk.start()
	f.client = dial(t, f.url, sdk.OnEvent(f.waits.note))
	createTopic(t, f.client, "full", fullPartitions)
	f.reader = follow(t, f.url, "full")
	t.Cleanup(f.reader.end)
	return f
}

// live goes through rounds until the last one was done or the disk is too full of data, and
// then checks everything. It returns which round is the next.
func (f *fullDisk) live(last int, round func(*fullDisk)) int {
	stop := f.startSenders()
	defer stop()
	for f.enough = true; f.enough && f.round < last && !f.t.Failed(); f.round++ {
		f.kind = [...]string{fillBytes, fillInodes}[f.round%2]
		round(f)
		f.run.Count("filled: "+f.kind, 1)
	}
	stop()
	total := 0
	for _, s := range f.senders {
		s.finish()
		total += s.sent
	}
	verify(f.t, f.url, "full", f.senders...)
	f.reader.awaitAll(total)
	f.run.Count("records", total)
	f.t.Logf("%d records; producers were made to wait: %s", total, f.waits)
	return f.round
}

// startSenders starts four producers; the function stops them, once.
func (f *fullDisk) startSenders() (stop func()) {
	sending, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	for i := range 4 {
		s := newSender(f.t, f.client, "full", fmt.Sprintf("p%d", i), batchSize(i))
		s.keyed = true
		f.senders = append(f.senders, s)
		running.Go(func() {
			s.keepSending(sending, onFullDisk, func(n int) string { return strings.Repeat("x", 50+n%200) })
		})
	}
	return func() { cancel(); running.Wait() }
}

// fill waits until the disk was seen to be full in every partition.
func (f *fullDisk) fill() {
	f.t.Helper()
	f.progress("before the disk is full")
	f.waits.reset()
	f.disk.tell(f.kind)
	f.waits.await(fullPartitions)
}

// progress waits until a record of each producer is stored that is sent from now on.
func (f *fullDisk) progress(when string) {
	f.t.Helper()
	late := time.After(*patience)
	for _, s := range f.senders {
		select {
		case <-s.nextStored():
		case <-late:
			f.t.Fatalf("round %d, %s, %s: nothing more of %s is stored; producers were made to wait: %s", f.round, f.kind, when, s.name, f.waits)
		}
	}
}

func (f *fullDisk) fillAndFree() {
	f.fill()
	f.soFar.checkSoFar(f.t, f.url, f.senders...)
	f.createFails()
	f.newcomers(createPatience)
	f.soFar.checkSoFar(f.t, f.url, f.senders...)
	restart := f.rng.IntN(3) == 0
	if restart {
		f.disk.kill()
		f.run.Count("kills", 1)
	}
	f.enough = f.disk.free()
	if restart {
		f.disk.start() // there is room again, and what the full disk has left is to be cleared up
	}
	f.resumed()
}

// resumed wants everything to go on by itself.
func (f *fullDisk) resumed() {
	f.t.Helper()
	f.progress("when there is room again")
	f.soFar.checkSoFar(f.t, f.url, f.senders...)
	f.createWorks()
	if came := f.newcomers(*patience); came != newProducers {
		f.t.Errorf("round %d, after %s: only %d producers of %d got an id", f.round, f.kind, came, newProducers)
	}
}

func (f *fullDisk) killAndFree() {
	f.fill()
	f.soFar.checkSoFar(f.t, f.url, f.senders...)
	f.newcomers(createPatience) // so that the catalog has used what it had
	f.disk.kill()
	f.run.Count("kills", 1)
	f.disk.start() // has to come up without any room
	f.servesReads()
	if f.rng.IntN(2) == 0 {
		f.disk.kill() // and again, with whatever the first start has left
		f.run.Count("kills", 1)
		f.disk.start()
		f.servesReads()
	}
	f.createFails()
	f.newcomers(createPatience)
	f.enough = f.disk.free()
	f.resumed()
}

// servesReads wants a server that has no room to show what it is sure of. That may be less
// than was acknowledged, but not nothing, and nothing of it is wrong.
func (f *fullDisk) servesReads() {
	f.t.Helper()
	l := newLedger("full")
	l.checkSoFar(f.t, f.url)
	for name, places := range l.found {
		for n, at := range places {
			if len(at) > 1 {
				f.t.Errorf("record %d of %s is there %d times: %v", n, name, len(at), at)
			}
		}
	}
	if len(l.found) == 0 {
		f.t.Errorf("round %d, %s: a server that was started on a full disk shows nothing", f.round, f.kind)
	}
}

// newcomers asks for the ids of new producers, which the catalog has to store: each is a new
// one, or there is no room. It returns how many there were before that.
func (f *fullDisk) newcomers(within time.Duration) (came int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), within)
	defer cancel()
	for ; came < newProducers; came++ {
		p, err := f.client.Producer("full").Idempotent().Build(ctx)
		if err != nil {
			var refused *sdk.ServerError
			if errors.As(err, &refused) && refused.Code != wire.CodeDiskFull || refused == nil && ctx.Err() == nil {
				f.t.Errorf("round %d, %s: a producer asks for an id: %v", f.round, f.kind, err)
			}
			f.run.Count("producers refused", 1)
			return came
		}
		if f.pids[p.ID()] {
			f.t.Errorf("round %d, %s: producer id %d a second time", f.round, f.kind, p.ID())
		}
		f.pids[p.ID()] = true
		f.run.Count("producers", 1)
		if _, err := p.Close(ctx); err != nil {
			f.t.Errorf("close a producer that sent nothing: %v", err)
		}
	}
	return came
}

func (f *fullDisk) topicName() string { return fmt.Sprintf("made-%d", f.round) }

// createFails wants a topic that there is no room for to be refused with that reason, and
// nothing of it to be left.
func (f *fullDisk) createFails() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), *patience)
	defer cancel()
	name := f.topicName()
	for range 2 { // the second would meet what the first has left
		if refused := f.refusedCreate(name); refused.Code != wire.CodeDiskFull {
			f.t.Errorf("round %d, %s: a topic is made on a full disk: %v", f.round, f.kind, refused)
		}
		f.run.Count("topics refused", 1)
	}
	if _, err := f.client.DescribeTopic(ctx, name); !errors.Is(err, sdk.ErrUnknownTopic) {
		f.t.Errorf("round %d, %s: a topic that was refused is described: %v", f.round, f.kind, err)
	}
	f.onlyListed(ctx, "full")
}

// refusedCreate is what the server says to a topic that it has no room for. The client asks
// again as long as it may, so it is given little time; it is asked again if that was over
// in the middle of an attempt.
func (f *fullDisk) refusedCreate(name string) *sdk.ServerError {
	f.t.Helper()
	var err error
	for begin := time.Now(); time.Since(begin) < *patience; {
		ctx, cancel := context.WithTimeout(f.t.Context(), createPatience)
		_, err = f.client.CreateTopic(ctx, name, sdk.TopicOptions{Partitions: manyPartitions})
		over := ctx.Err() != nil
		cancel()
		var refused *sdk.ServerError
		if errors.As(err, &refused) {
			return refused
		}
		if !over && !errors.Is(err, sdk.ErrConnectionLost) {
			break // a server that was killed a moment ago is no reason
		}
	}
	f.t.Fatalf("round %d, %s: a topic is made on a full disk: %v", f.round, f.kind, err)
	return nil
}

// createWorks makes the topic that was refused, and deletes it.
func (f *fullDisk) createWorks() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), *patience)
	defer cancel()
	made, err := f.client.CreateTopic(ctx, f.topicName(), sdk.TopicOptions{Partitions: manyPartitions})
	if err != nil {
		f.t.Fatalf("round %d, after %s: %v", f.round, f.kind, err)
	}
	if f.seen[made.ID] {
		f.t.Errorf("topic %s has an id that was given before", made.Name)
	}
	f.seen[made.ID] = true
	f.onlyListed(ctx, "full", made.Name)
	if err := f.client.DeleteTopic(ctx, made.Name); err != nil {
		f.t.Errorf("round %d, after %s: %v", f.round, f.kind, err)
	}
	f.onlyListed(ctx, "full")
}

// onlyListed wants these topics, and no directory of another one.
func (f *fullDisk) onlyListed(ctx context.Context, want ...string) {
	f.t.Helper()
	topics, err := f.client.ListTopics(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	var names, ids []string
	for _, topic := range topics {
		names, ids = append(names, topic.Name), append(ids, fmt.Sprintf("%x", topic.ID))
	}
	slices.Sort(ids)
	if dirs := f.disk.topicDirs(); !slices.Equal(names, want) || !slices.Equal(ids, dirs) {
		f.t.Errorf("round %d, %s: the topics are %q, want %q, with ids %q and directories %q", f.round, f.kind, names, want, ids, dirs)
	}
}

// waits are the reasons for which the server made producers wait.
type waits struct {
	tb testing.TB
	mu struct {
		sync.Mutex
		codes map[sdk.Code]int
		full  map[int]bool  // partitions that had no room since reset
		moved chan struct{} // closed when full grows
	}
}

func newWaits(tb testing.TB) *waits {
	w := &waits{tb: tb}
	w.mu.codes = make(map[sdk.Code]int)
	w.reset()
	return w
}

func (w *waits) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.full, w.mu.moved = make(map[int]bool), make(chan struct{})
}

// note takes the events of a client. A producer may be told to wait, and nothing else.
func (w *waits) note(e sdk.Event) {
	if e.Kind != sdk.EventThrottled {
		return
	}
	var refused *sdk.ServerError
	if !errors.As(e.Err, &refused) || !refused.Retriable() {
		w.tb.Errorf("a producer was told: %v", e.Err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.codes[refused.Code]++
	if refused.Code == wire.CodeDiskFull && !w.mu.full[e.Partition] {
		w.mu.full[e.Partition] = true
		close(w.mu.moved)
		w.mu.moved = make(chan struct{})
	}
}

// await waits until so many partitions had no room.
func (w *waits) await(partitions int) {
	w.tb.Helper()
	late := time.After(*patience)
	for {
		w.mu.Lock()
		full, moved := len(w.mu.full), w.mu.moved
		w.mu.Unlock()
		if full >= partitions {
			return
		}
		select {
		case <-moved:
		case <-late:
			w.tb.Fatalf("only %d partitions of %d have no room; producers were made to wait: %s", full, partitions, w)
		}
	}
}

func (w *waits) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.mu.codes)
}
