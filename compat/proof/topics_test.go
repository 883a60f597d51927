package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/time/rate"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/sdk"
)

const (
	adminTopics = 4
	// adminPace is how many requests a second the topic admin makes.
	adminPace = 200
	// strangersKept is how many producers of topics that are gone go on sending, so that
	// some still do when a topic of the same name is there again.
	strangersKept = 6
)

// A topicAdmin creates, describes, lists and deletes topics all the time, and writes to
// them. It knows what must be there.
type topicAdmin struct {
	t      testing.TB
	client *sdk.Client
	run    *campaign.Run
	rng    *rand.Rand

	// mu is held during a request, so that the check finds nothing half done.
	mu        sync.Mutex
	topics    []*adminTopic
	given     map[[16]byte]string // every id, and the topic that it was seen with
	strangers []*sender           // producers of topics that are gone
	writers   int                 // that were ever made
}

// belief is what the admin knows of a topic.
type belief int

const (
	absent  belief = iota
	present        // with the id, the partitions and the writer
	making         // CreateTopic had no answer: it may be there, under an id that is new
	leaving        // DeleteTopic had no answer: it may be there, as it was
)

type adminTopic struct {
	name       string
	belief     belief
	id         [16]byte
	partitions int
	writer     *sender
	soFar      *ledger
}

// newTopicAdmin uses the client of the producers: a connection with much to send sees sooner
// than an idle one that its server is gone.
func newTopicAdmin(t testing.TB, run *campaign.Run, client *sdk.Client, seed uint64) *topicAdmin {
	a := &topicAdmin{t: t, client: client, run: run, rng: rand.New(rand.NewPCG(seed, 2)), given: make(map[[16]byte]string)}
	for i := range adminTopics {
		a.topics = append(a.topics, &adminTopic{name: fmt.Sprintf("admin-%d", i)})
	}
	return a
}

// work makes requests until ctx ends.
func (a *topicAdmin) work(ctx context.Context) {
	pace := rate.NewLimiter(adminPace, 1)
	for pace.Wait(ctx) == nil {
		a.step(ctx)
	}
}

func (a *topicAdmin) step(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	topic := a.topics[a.rng.IntN(len(a.topics))]
	for _, s := range a.strangers {
		a.write(s)
	}
	switch chance := a.rng.IntN(10); {
	case topic.belief == absent:
		a.create(ctx, topic)
	case topic.belief != present: // nothing may be done about it before the next restart
		_, err := a.client.DescribeTopic(ctx, topic.name)
		a.expect(ctx, "describe", topic, err, sdk.ErrUnknownTopic)
	case chance < 2:
		a.remove(ctx, topic)
	case chance < 4:
		a.describe(ctx, topic)
	default:
		a.write(topic.writer)
	}
}

// expect takes what may happen to any request here: that its answer is lost, that the time
// is over, and what is named.
func (a *topicAdmin) expect(ctx context.Context, op string, topic *adminTopic, err error, also ...error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, sdk.ErrConnectionLost) {
		return
	}
	for _, other := range also {
		if errors.Is(err, other) {
			return
		}
	}
	a.t.Errorf("%s %s, which was thought to be %v: %v", op, topic.name, topic.belief, err)
}

func (a *topicAdmin) create(ctx context.Context, topic *adminTopic) {
	topic.partitions = 1 + a.rng.IntN(3)
	made, err := a.client.CreateTopic(ctx, topic.name, sdk.TopicOptions{Partitions: topic.partitions})
	a.run.Count("topics created", 1)
	if err != nil {
		a.expect(ctx, "create", topic, err)
		a.run.Count("creates without an answer", 1)
		topic.belief = making
		return
	}
	a.isThere(topic, made)
	a.newWriter(ctx, topic)
}

// isThere notes that a topic is there with an id that no topic had before.
func (a *topicAdmin) isThere(topic *adminTopic, found sdk.Topic) {
	if earlier, taken := a.given[found.ID]; taken {
		a.t.Errorf("topic %s has the id %x, which an earlier %s had", topic.name, found.ID, earlier)
	}
	a.given[found.ID] = topic.name
	topic.belief, topic.id = present, found.ID
}

// newWriter gives the topic a producer of its own. Without an answer it has none, and the
// check after the next restart gives it one.
func (a *topicAdmin) newWriter(ctx context.Context, topic *adminTopic) {
	a.writers++
	p, err := a.client.Producer(topic.name).Idempotent().DeliveryTimeout(*patience).Build(ctx)
	if err != nil {
		a.expect(ctx, "build a producer of", topic, err)
		return
	}
	topic.writer = &sender{tb: a.t, name: fmt.Sprintf("%s/%d", topic.name, a.writers), producer: p, keyed: true, outcomes: make(map[int]outcome)}
	topic.soFar = newLedger(topic.name)
}

func (a *topicAdmin) write(s *sender) {
	if s != nil {
		s.send("a line")
		a.run.Count("topic records", 1)
	}
}

func (a *topicAdmin) remove(ctx context.Context, topic *adminTopic) {
	err := a.client.DeleteTopic(ctx, topic.name)
	a.run.Count("topics deleted", 1)
	if err != nil {
		a.expect(ctx, "delete", topic, err)
		a.run.Count("deletes without an answer", 1)
		topic.belief = leaving
		return
	}
	a.isGone(topic)
}

// isGone notes that a topic is gone. Its producer goes on, and must not get anywhere.
func (a *topicAdmin) isGone(topic *adminTopic) {
	if s := topic.writer; s != nil {
		s.over = s.sent
		a.strangers = append(a.strangers, s)
	}
	if len(a.strangers) > strangersKept {
		a.dismiss(a.strangers[0])
		a.strangers = a.strangers[1:]
	}
	topic.belief, topic.writer, topic.soFar = absent, nil, nil
}

// dismiss closes a producer whose topic is gone. No record that it was given since then may
// have been stored.
func (a *topicAdmin) dismiss(s *sender) {
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	s.producer.Close(ctx) // what it says of records that cannot be stored is in their outcomes
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outcomes) != s.sent {
		a.t.Errorf("%s sent %d records and has %d outcomes", s.name, s.sent, len(s.outcomes))
	}
	for n := s.over; n < s.sent; n++ {
		if o := s.outcomes[n]; o.err == nil {
			a.t.Errorf("record %d of %s was acknowledged at %d/%d; the topic was deleted before it was sent", n, s.name, o.ack.Partition, o.ack.Offset)
		}
	}
}

func (a *topicAdmin) describe(ctx context.Context, topic *adminTopic) {
	found, err := a.client.DescribeTopic(ctx, topic.name)
	if err != nil {
		a.expect(ctx, "describe", topic, err)
		return
	}
	a.same(topic, found)
}

// same wants a topic as it was made, with all its partitions at work.
func (a *topicAdmin) same(topic *adminTopic, found sdk.Topic) {
	if found.Name != topic.name || found.ID != topic.id || len(found.Partitions) != topic.partitions {
		a.t.Errorf("topic %s is %+v, it was made with id %x and %d partitions", topic.name, found, topic.id, topic.partitions)
	}
	for n, p := range found.Partitions {
		if p.Err != nil {
			a.t.Errorf("topic %s partition %d: %v", topic.name, n, p.Err)
		}
	}
}

// check is called after a restart, and waits until no request is under way: each topic is
// there as a whole or gone as a whole, and what had an answer is as the answer said.
func (a *topicAdmin) check(t testing.TB, url, data string, others ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), *patience)
	defer cancel()
	listed, err := a.client.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names, ids []string
	at := make(map[string]sdk.Topic)
	for _, found := range listed {
		names, ids = append(names, found.Name), append(ids, fmt.Sprintf("%x", found.ID))
		at[found.Name] = found
	}
	want := slices.Clone(others)
	for _, topic := range a.topics {
		found, there := at[topic.name]
		a.settle(topic, found, there)
		if topic.belief == present {
			want = append(want, topic.name)
		}
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Fatalf("the topics are %q, want %q", names, want)
	}
	// What was interrupted was ended or taken back by the start, files and all.
	slices.Sort(ids)
	if dirs, err := topicDirs(data); err != nil || !slices.Equal(dirs, ids) {
		t.Fatalf("there are directories of the topics %q, and topics with the ids %q: %v", dirs, ids, err)
	}
	for _, topic := range a.topics {
		a.checkTopic(ctx, t, url, topic)
	}
	a.run.Count("topics checked", len(a.topics))
}

// settle makes up its mind about what had no answer: either is right.
func (a *topicAdmin) settle(topic *adminTopic, found sdk.Topic, there bool) {
	switch {
	case topic.belief == making && there:
		a.run.Count("creates found done", 1)
		a.isThere(topic, found)
	case topic.belief == making:
		topic.belief = absent
	case topic.belief == leaving && there:
		topic.belief = present
	case topic.belief == leaving:
		a.run.Count("deletes found done", 1)
		a.isGone(topic)
	}
}

func (a *topicAdmin) checkTopic(ctx context.Context, t testing.TB, url string, topic *adminTopic) {
	t.Helper()
	found, err := a.client.DescribeTopic(ctx, topic.name)
	if topic.belief == absent {
		if !errors.Is(err, sdk.ErrUnknownTopic) {
			t.Fatalf("topic %s is not listed, and described as %+v, %v", topic.name, found, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	a.same(topic, found)
	if topic.writer == nil {
		if a.newWriter(ctx, topic); topic.writer == nil {
			t.Fatalf("topic %s has no producer", topic.name)
		}
	}
	stored := topic.writer.nextStored()
	a.write(topic.writer)
	select {
	case <-stored:
	case <-ctx.Done():
		t.Fatalf("nothing can be written to topic %s: %+v", topic.name, topic.writer.lastOutcome())
	}
	topic.soFar.checkSoFar(t, url, topic.writer)
	for name := range topic.soFar.found {
		if !strings.HasPrefix(name, topic.name+"/") || name != topic.writer.name {
			t.Fatalf("topic %s, written to by %s, holds records of %s", topic.name, topic.writer.name, name)
		}
	}
}

// finish holds everything against everything once more.
func (a *topicAdmin) finish(t testing.TB, url, data string, others ...string) {
	t.Helper()
	a.check(t, url, data, others...)
	for _, s := range a.strangers {
		a.dismiss(s)
	}
	for _, topic := range a.topics {
		if topic.belief == present {
			topic.writer.finish()
			verify(t, url, topic.name, topic.writer)
		}
	}
}

// lastOutcome is the outcome of the last record that has one.
func (s *sender) lastOutcome() outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := s.sent - 1; n >= 0; n-- {
		if o, decided := s.outcomes[n]; decided {
			return o
		}
	}
	return outcome{}
}
