package catalog

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/quoin-io/quoin/batchfmt"
)

func TestProducersOutliveReopening(t *testing.T) {
	dir := t.TempDir()
	now := time.UnixMilli(1_700_000_000_123)
	c := open(t, dir, Options{Now: func() time.Time { return now }})
	anon := must(c.InitProducer(instance(1), ""))(t)
	named := must(c.InitProducer(instance(1), "billing"))(t)
	if anon.ID != 1 || anon.Epoch != 0 || anon.Name != "" || anon.Instance != instance(1) || !anon.Since.Equal(now) {
		t.Fatalf("anonymous: %+v", anon)
	}
	if named.ID != 2 || named.Epoch != 0 || named.Name != "billing" || named.Key == anon.Key {
		t.Fatalf("named: %+v", named)
	}
	for range 3 {
		for _, want := range []Producer{anon, named} {
			got := []Producer{
				must(c.InitProducer(instance(1), want.Name))(t),
				must(c.Holder(want.ID))(t),
				must(c.Authorize(want.ID, want.Key))(t),
			}
			if diff := cmp.Diff([]Producer{want, want, want}, got); diff != "" {
				t.Fatal(diff)
			}
		}
		c = reopen(t, c, dir)
	}
	if p := must(c.InitProducer(instance(2), ""))(t); p.ID <= named.ID {
		t.Fatalf("id %d was given before", p.ID)
	}
}

func TestTakingOverAName(t *testing.T) {
	dir := t.TempDir()
	now := time.UnixMilli(1_700_000_000_000)
	c := open(t, dir, Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	first := must(c.InitProducer(instance(1), "billing"))(t)
	second := must(c.InitProducer(instance(2), "billing"))(t)
	third := must(c.InitProducer(instance(3), "billing"))(t)
	if second.ID != first.ID || third.ID != first.ID || second.Epoch != 1 || third.Epoch != 2 {
		t.Fatalf("%+v, %+v, %+v", first, second, third)
	}
	if first.Key == second.Key || second.Key == third.Key || first.Key == third.Key {
		t.Fatal("a key was given twice")
	}
	for range 2 {
		for i, old := range []Producer{first, second} {
			_, e1 := c.InitProducer(old.Instance, "billing")
			_, e2 := c.Authorize(old.ID, old.Key)
			_, e3 := c.BumpEpoch(old.ID, old.Key, request(1))
			for _, err := range []error{e1, e2, e3} {
				var fe *FencedError
				if !errors.As(err, &fe) || !errors.Is(err, ErrFenced) || fe.PID != third.ID || fe.Epoch != 2 || !fe.Since.Equal(third.Since) {
					t.Fatalf("holder %d: %v", i, err)
				}
			}
		}
		if got := must(c.Authorize(third.ID, third.Key))(t); got != third {
			t.Fatalf("holder: %+v", got)
		}
		c = reopen(t, c, dir)
	}
}

// A holder is told that it is fenced however many came after it; of instances that ask
// for the name again only the last maxEarlier are known.
func TestFencedLongAgo(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	first := must(c.InitProducer(instance(0), "n"))(t)
	for i := range 3 * maxEarlier {
		must(c.InitProducer(instance(uint16(i+1)), "n"))(t)
	}
	if _, err := c.Authorize(first.ID, first.Key); !errors.Is(err, ErrFenced) {
		t.Fatalf("first key: %v", err)
	}
	if _, err := c.InitProducer(instance(2*maxEarlier), "n"); !errors.Is(err, ErrFenced) {
		t.Fatalf("oldest instance that is known: %v", err)
	}
	if p := must(c.InitProducer(instance(0), "n"))(t); p.Epoch != 3*maxEarlier+1 {
		t.Fatalf("an instance that is forgotten is a new claim: %+v", p)
	}
}

func TestDecideClaim(t *testing.T) {
	row := func(epoch batchfmt.Epoch) *producerRow {
		return &producerRow{epoch: epoch, instance: instance(5), earlier: []InstanceID{instance(3), instance(4)}}
	}
	tests := []struct {
		reason string
		row    *producerRow
		who    InstanceID
		want   claim
	}{
		{"nobody ever had the name", nil, instance(5), claimNew},
		{"the instance holds it", row(1), instance(5), claimAgain},
		{"the instance holds it with the last epoch", row(MaxEpoch), instance(5), claimAgain},
		{"the instance held it before", row(1), instance(4), claimFenced},
		{"the instance held it long before", row(1), instance(3), claimFenced},
		{"an earlier instance finds the last epoch", row(MaxEpoch), instance(4), claimFenced},
		{"a new instance finds the last epoch", row(MaxEpoch), instance(6), claimMoved},
		{"a new instance finds the last but one", row(MaxEpoch - 1), instance(6), claimNext},
		{"a new instance", row(0), instance(6), claimNext},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if got := decideClaim(tt.row, tt.who); got != tt.want {
				t.Fatalf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestDecideRight(t *testing.T) {
	mine, other := Key{1}, Key{2}
	held := &producerRow{kind: kindNamed, key: mine}
	past := &producerRow{kind: kindSuperseded, key: mine}
	tests := []struct {
		reason  string
		row     *producerRow
		key     Key
		genuine bool
		want    error
	}{
		{"the id was closed", nil, mine, true, ErrProducerClosed},
		{"nobody has the id", nil, mine, false, ErrUnknownProducer},
		{"the holder", held, mine, true, nil},
		{"an earlier holder", held, other, true, ErrFenced},
		{"a stranger", held, other, false, ErrWrongKey},
		{"the last holder of a superseded id", past, mine, true, ErrFenced},
		{"a stranger to a superseded id", past, other, false, ErrWrongKey},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if err := decideRight(9, tt.row, tt.key, tt.genuine); !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestKeysOfOthers(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	a := must(c.InitProducer(instance(1), ""))(t)
	b := must(c.InitProducer(instance(2), "b"))(t)
	flipped := a.Key
	flipped[15] ^= 1
	tests := []struct {
		reason string
		pid    batchfmt.ProducerID
		key    Key
		want   error
	}{
		{"another producer's key", a.ID, b.Key, ErrWrongKey},
		{"one bit off", a.ID, flipped, ErrWrongKey},
		{"zeros", a.ID, Key{}, ErrWrongKey},
		{"id zero", 0, a.Key, ErrUnknownProducer},
		{"id never given", 500, a.Key, ErrUnknownProducer},
		{"a Kafka client's id", 1 << 63, a.Key, ErrUnknownProducer},
		{"highest id", math.MaxUint64, a.Key, ErrUnknownProducer},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, e1 := c.Authorize(tt.pid, tt.key)
			_, e2 := c.BumpEpoch(tt.pid, tt.key, request(1))
			e3 := c.CloseProducer(tt.pid, tt.key)
			for _, err := range []error{e1, e2, e3} {
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			}
		})
	}
	if _, err := c.Holder(500); !errors.Is(err, ErrUnknownProducer) {
		t.Errorf("holder of an id never given: %v", err)
	}
}

func TestBumpEpoch(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	p := must(c.InitProducer(instance(1), ""))(t)
	for i := byte(1); i <= 3; i++ {
		for range 2 { // the same request, the same answer
			if got := must(c.BumpEpoch(p.ID, p.Key, request(i)))(t); got != batchfmt.Epoch(i) {
				t.Fatalf("request %d: epoch %d", i, got)
			}
			c = reopen(t, c, dir)
		}
	}
	p.Epoch = 3
	if got := must(c.InitProducer(instance(1), ""))(t); got != p {
		t.Fatalf("asking again: %+v, want %+v", got, p)
	}
	if _, err := c.BumpEpoch(p.ID, p.Key, RequestID{}); !errors.Is(err, ErrZeroID) {
		t.Fatalf("request of zeros: %v", err)
	}
	// A new holder's request is its own, even with the id of the one before.
	first := must(c.InitProducer(instance(1), "n"))(t)
	must(c.BumpEpoch(first.ID, first.Key, request(9)))(t)
	second := must(c.InitProducer(instance(2), "n"))(t)
	if got := must(c.BumpEpoch(second.ID, second.Key, request(9)))(t); second.Epoch != 2 || got != 3 {
		t.Fatalf("second holder: epoch %d, then %d", second.Epoch, got)
	}
}

// setEpoch stands in for four billion requests.
func setEpoch(t *testing.T, c *Catalog, pid batchfmt.ProducerID, epoch batchfmt.Epoch) {
	t.Helper()
	err := c.update(func(tx *txn) error {
		row, err := tx.mustProducer(pid)
		if err == nil {
			row.epoch = epoch
			tx.putProducer(pid, row)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEpochsNeverWrap(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	first := must(c.InitProducer(instance(1), "n"))(t)
	setEpoch(t, c, first.ID, MaxEpoch-1)
	last := must(c.InitProducer(instance(2), "n"))(t)
	if last.ID != first.ID || last.Epoch != MaxEpoch {
		t.Fatalf("last of the id: %+v", last)
	}
	if _, err := c.BumpEpoch(last.ID, last.Key, request(1)); !errors.Is(err, ErrExhausted) {
		t.Fatalf("bump: %v", err)
	}
	moved := must(c.InitProducer(instance(3), "n"))(t)
	if moved.ID == first.ID || moved.Epoch != 0 || moved.Name != "n" {
		t.Fatalf("moved: %+v", moved)
	}
	for range 2 {
		if got := must(c.InitProducer(instance(3), "n"))(t); got != moved {
			t.Fatalf("asking again: %+v", got)
		}
		for _, old := range []Producer{first, last} {
			_, e1 := c.Authorize(old.ID, old.Key)
			_, e2 := c.InitProducer(old.Instance, "n")
			_, e3 := c.Holder(old.ID)
			for _, err := range []error{e1, e2, e3} {
				if !errors.Is(err, ErrFenced) {
					t.Fatalf("earlier holder: %v", err)
				}
			}
		}
		c = reopen(t, c, dir)
	}
	anon := must(c.InitProducer(instance(9), ""))(t)
	setEpoch(t, c, anon.ID, MaxEpoch)
	if _, err := c.BumpEpoch(anon.ID, anon.Key, request(1)); !errors.Is(err, ErrExhausted) {
		t.Fatalf("bump without a name: %v", err)
	}
}

func TestCloseProducer(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{MaxProducers: 2})
	anon := must(c.InitProducer(instance(1), ""))(t)
	named := must(c.InitProducer(instance(2), "n"))(t)
	if _, err := c.InitProducer(instance(3), ""); !errors.Is(err, ErrProducerLimit) {
		t.Fatalf("third producer: %v", err)
	}
	if _, err := c.InitProducer(instance(3), "m"); !errors.Is(err, ErrProducerLimit) {
		t.Fatalf("third producer with a name: %v", err)
	}
	for range 2 {
		if err := errors.Join(c.CloseProducer(anon.ID, anon.Key), c.CloseProducer(named.ID, named.Key)); err != nil {
			t.Fatal(err)
		}
		c = reopen(t, c, dir)
		if _, err := c.Authorize(anon.ID, anon.Key); !errors.Is(err, ErrProducerClosed) {
			t.Fatalf("closed: %v", err)
		}
		if got := must(c.Authorize(named.ID, named.Key))(t); got != named {
			t.Fatalf("a name outlives closing: %+v", got)
		}
	}
	again := must(c.InitProducer(instance(1), ""))(t)
	if again.ID <= named.ID {
		t.Fatalf("id %d was given before", again.ID)
	}
	if _, err := c.InitProducer(instance(3), ""); !errors.Is(err, ErrProducerLimit) {
		t.Fatalf("the limit is reached again: %v", err)
	}
}

func TestInitProducerRefuses(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	for reason, name := range map[string]string{
		"256 bytes":         strings.Repeat("x", 256),
		"4096 bytes":        strings.Repeat("x", 4096),
		"invalid UTF-8":     "a\xff",
		"zero byte":         "a\x00b",
		"newline":           "a\n",
		"delete":            "a\x7f",
		"C1 control":        "a\u0085",
		"255 and a half":    strings.Repeat("x", 254) + "ä",
		"cut in a sequence": "\xc3",
	} {
		t.Run(reason, func(t *testing.T) {
			var ne *NameError
			if _, err := c.InitProducer(instance(1), name); !errors.As(err, &ne) || !errors.Is(err, ErrName) || len(ne.Name) > 70 {
				t.Fatalf("got %v", err)
			}
		})
	}
	if _, err := c.InitProducer(InstanceID{}, ""); !errors.Is(err, ErrZeroID) {
		t.Fatalf("instance of zeros: %v", err)
	}
	for _, name := range []string{"x", strings.Repeat("x", 255), "Kasse 3 / Zürich", "日本"} {
		must(c.InitProducer(instance(1), name))(t)
	}
}

func TestInitProducerConcurrently(t *testing.T) {
	c := open(t, t.TempDir(), Options{IDBlock: 10})
	const instances, askers = 60, 4
	var mu sync.Mutex
	byInstance, byID := map[InstanceID]Producer{}, map[batchfmt.ProducerID]InstanceID{}
	var wg sync.WaitGroup
	for i := range instances {
		for range askers {
			wg.Go(func() {
				p, err := c.InitProducer(instance(uint16(i)), "")
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := c.Authorize(p.ID, p.Key); err != nil || got != p {
					t.Errorf("%+v, %v", got, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if before, ok := byInstance[p.Instance]; ok && before != p {
					t.Errorf("one instance, two answers: %+v and %+v", before, p)
				}
				if before, ok := byID[p.ID]; ok && before != p.Instance {
					t.Errorf("id %d given twice", p.ID)
				}
				byInstance[p.Instance], byID[p.ID] = p, p.Instance
			})
		}
		wg.Go(func() {
			pid, err := c.ReserveProducerID()
			mu.Lock()
			defer mu.Unlock()
			if _, ok := byID[pid]; ok || err != nil {
				t.Errorf("id %d given twice: %v", pid, err)
			}
			byID[pid] = InstanceID{}
		})
	}
	wg.Wait()
	if len(byInstance) != instances || len(byID) != 2*instances {
		t.Fatalf("%d answers, %d ids", len(byInstance), len(byID))
	}
}

// Whoever claims one name at once: each gets an epoch of its own or learns that it is
// fenced, and one holds it in the end.
func TestOneNameConcurrently(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	var wg sync.WaitGroup
	got := make([]Producer, 40)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = c.InitProducer(instance(uint16(i)), "n"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	epochs := map[batchfmt.Epoch]bool{}
	holders := 0
	for _, p := range got {
		epochs[p.Epoch] = true
		switch _, err := c.Authorize(p.ID, p.Key); {
		case err == nil:
			holders++
		case !errors.Is(err, ErrFenced):
			t.Error(err)
		}
	}
	if holders != 1 || len(epochs) != len(got) {
		t.Fatalf("%d holders, %d epochs", holders, len(epochs))
	}
}

func TestReserveProducerID(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{IDBlock: 3})
	var last batchfmt.ProducerID
	for range 3 {
		for range 7 {
			pid := must(c.ReserveProducerID())(t)
			if pid <= last {
				t.Fatalf("id %d after %d", pid, last)
			}
			last = pid
		}
		c = reopen(t, c, dir)
	}
	setNext(t, c, uint64(MaxProducerID)-1)
	c = reopen(t, c, dir)
	for _, want := range []batchfmt.ProducerID{MaxProducerID - 1, MaxProducerID} {
		if pid := must(c.ReserveProducerID())(t); pid != want {
			t.Fatalf("id %d, want %d", pid, want)
		}
	}
	for range 2 {
		_, e1 := c.ReserveProducerID()
		_, e2 := c.InitProducer(instance(1), "")
		if !errors.Is(e1, ErrExhausted) || !errors.Is(e2, ErrExhausted) {
			t.Fatalf("behind the last id: %v, %v", e1, e2)
		}
		c = reopen(t, c, dir)
	}
}

func setNext(t *testing.T, c *Catalog, next uint64) {
	t.Helper()
	err := c.update(func(tx *txn) error {
		tx.put(bucketMeta, keyNextPID, numberBody(next))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNextBlock(t *testing.T) {
	const last = uint64(MaxProducerID)
	tests := []struct {
		reason     string
		next, size uint64
		want       idBlock
		ok         bool
	}{
		{"from the first id", 1, 1000, idBlock{1, 1001}, true},
		{"cut at the last id", last - 1, 1000, idBlock{last - 1, last + 1}, true},
		{"the last id", last, 1, idBlock{last, last + 1}, true},
		{"behind the last id", last + 1, 1, idBlock{}, false},
		{"far behind the last id", math.MaxUint64, 1000, idBlock{}, false},
		{"zero is nobody's id", 0, 1, idBlock{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if got, ok := nextBlock(tt.next, tt.size); got != tt.want || ok != tt.ok {
				t.Fatalf("got %v %v", got, ok)
			}
		})
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	p := Producer{Key: Key{0: 0xab, 1: 0xcd}, Instance: InstanceID{0: 0xab, 1: 0xcd}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		s := strings.ToLower(fmt.Sprintf(format, p))
		if strings.Contains(s, "abcd") || strings.Contains(s, "171") || strings.Contains(s, "0xab") {
			t.Errorf("%s prints %s", format, s)
		}
	}
}
