package catalog

import (
	"errors"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

func TestGenuine(t *testing.T) {
	dir := t.TempDir()
	now := time.UnixMilli(1_700_000_000_000)
	c := open(t, dir, Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	anon := must(c.InitProducer(instance(1), ""))(t)
	closed := must(c.InitProducer(instance(2), ""))(t)
	if err := c.CloseProducer(closed.ID, closed.Key); err != nil {
		t.Fatal(err)
	}
	first := must(c.InitProducer(instance(3), "billing"))(t)
	for i := range uint16(3 * maxEarlier) {
		must(c.InitProducer(instance(i+10), "billing"))(t)
	}
	holder := must(c.InitProducer(instance(4), "billing"))(t)
	past := must(c.InitProducer(instance(5), "moved"))(t)
	setEpoch(t, c, past.ID, MaxEpoch)
	must(c.InitProducer(instance(6), "moved"))(t)
	reserved := must(c.ReserveProducerID())(t)

	without := func(p Producer) Producer { p.Key, p.Instance = Key{}, InstanceID{}; return p }
	lastOfPast := without(past)
	lastOfPast.Epoch = MaxEpoch
	flipped := closed.Key
	flipped[0] ^= 1
	tests := []struct {
		reason string
		pid    batchfmt.ProducerID
		key    Key
		want   Producer
		holds  bool
		err    error
	}{
		{"the holder", anon.ID, anon.Key, anon, true, nil},
		{"the holder of a name", holder.ID, holder.Key, holder, true, nil},
		{"an earlier holder, long forgotten", first.ID, first.Key, without(holder), false, nil},
		{"closed", closed.ID, closed.Key, Producer{ID: closed.ID}, false, nil},
		{"the last holder of an id that the name left", past.ID, past.Key, lastOfPast, false, nil},
		{"another producer's key", anon.ID, holder.Key, Producer{}, false, ErrWrongKey},
		{"zeros", anon.ID, Key{}, Producer{}, false, ErrWrongKey},
		{"another producer's key for a closed one", closed.ID, anon.Key, Producer{}, false, ErrUnknownProducer},
		{"one bit off, of a closed one", closed.ID, flipped, Producer{}, false, ErrUnknownProducer},
		{"an id without a holder", reserved, anon.Key, Producer{}, false, ErrUnknownProducer},
		{"id zero", 0, anon.Key, Producer{}, false, ErrUnknownProducer},
		{"a Kafka client's id", MaxProducerID + 1, anon.Key, Producer{}, false, ErrUnknownProducer},
	}
	for range 2 {
		for _, tt := range tests {
			t.Run(tt.reason, func(t *testing.T) {
				p, holds, err := c.Genuine(tt.pid, tt.key)
				if p != tt.want || holds != tt.holds || !errors.Is(err, tt.err) {
					t.Fatalf("got %+v, %v, %v", p, holds, err)
				}
			})
		}
		c = reopen(t, c, dir)
	}
	c.Close()
	if p, holds, err := c.Genuine(anon.ID, anon.Key); p != (Producer{}) || holds || !errors.Is(err, ErrClosed) {
		t.Fatalf("when the catalog is closed: %+v, %v, %v", p, holds, err)
	}
}

func TestNameOf(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	anon := must(c.InitProducer(instance(1), ""))(t)
	named := must(c.InitProducer(instance(2), "billing"))(t)
	if err := c.CloseProducer(named.ID, named.Key); err != nil {
		t.Fatal(err)
	}
	past := must(c.InitProducer(instance(5), "moved"))(t)
	setEpoch(t, c, past.ID, MaxEpoch)
	moved := must(c.InitProducer(instance(6), "moved"))(t)
	tests := []struct {
		reason  string
		pid     batchfmt.ProducerID
		name    string
		current bool
	}{
		{"no name", anon.ID, "", false},
		{"a name outlives closing", named.ID, "billing", true},
		{"the name went on with another id", past.ID, "moved", false},
		{"that other id", moved.ID, "moved", true},
		{"never given out", 500, "", false},
		{"id zero", 0, "", false},
		{"a Kafka client's id", MaxProducerID + 1, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if name, current := c.NameOf(tt.pid); name != tt.name || current != tt.current {
				t.Fatalf("got %q, %v", name, current)
			}
		})
	}
	c.Close()
	if name, current := c.NameOf(anon.ID); name != "" || !current {
		t.Fatalf("when nothing can be read: %q, %v", name, current)
	}
}
