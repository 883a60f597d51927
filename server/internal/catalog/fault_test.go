package catalog

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

func TestFullDiskLosesNothing(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{maxFileBytes: 1 << 17})
	var got []Producer
	var err error
	for i := range 10_000 {
		var p Producer
		if p, err = c.InitProducer(instance(uint16(i)), ""); err != nil {
			break
		}
		got = append(got, p)
	}
	if !errors.Is(err, ErrFull) || errors.Is(err, ErrBroken) {
		t.Fatalf("after %d producers: %v", len(got), err)
	}
	if again := must(c.InitProducer(instance(0), ""))(t); again != got[0] {
		t.Fatalf("answer changed: %+v, was %+v", again, got[0])
	}
	c.opts.maxFileBytes = 0
	c = reopen(t, c, dir)
	for i, p := range got {
		if again := must(c.InitProducer(instance(uint16(i)), ""))(t); again != p {
			t.Fatalf("answer changed: %+v, was %+v", again, p)
		}
	}
	next := must(c.InitProducer(instance(uint16(len(got))), ""))(t)
	if last := got[len(got)-1]; next.ID <= last.ID {
		t.Fatalf("id %d after %d", next.ID, last.ID)
	}
}

func TestFailedCommitStopsTheCatalog(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	topic := must(c.CreateTopic("orders", 1, TopicConfig{}))(t)
	before := must(c.InitProducer(instance(1), ""))(t)
	c.file.Close() // every write fails from here on

	if _, err := c.InitProducer(instance(2), ""); !errors.Is(err, ErrBroken) {
		t.Fatalf("failed commit: %v", err)
	}
	_, e1 := c.InitProducer(instance(1), "") // would need no write
	_, e2 := c.Authorize(before.ID, before.Key)
	_, e3 := c.NextTerm(topic.ID, 0, 0)
	for _, err := range []error{e1, e2, e3} {
		if !errors.Is(err, ErrBroken) {
			t.Errorf("afterwards: %v", err)
		}
	}
	if got := must(c.TopicByName("orders"))(t); got != topic {
		t.Errorf("topics in memory: %+v", got)
	}
	if c.Close() == nil {
		t.Error("closing a file that is closed succeeded")
	}

	c = open(t, dir, Options{})
	if got := must(c.InitProducer(instance(1), ""))(t); got != before {
		t.Errorf("after reopening: %+v, was %+v", got, before)
	}
	if next := must(c.InitProducer(instance(3), ""))(t); next.ID <= before.ID {
		t.Errorf("id %d after %d", next.ID, before.ID)
	}
}

// A bug or damage that makes the transaction fall over answers the caller and closes.
func TestPanicInATransactionStopsTheCatalog(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	if err := c.view(func(*txn) error { panic("page") }); !errors.Is(err, ErrDamaged) {
		t.Fatalf("reading: %v", err)
	}
	must(c.InitProducer(instance(1), ""))(t) // a reader's fault stops nobody
	if err := c.update(func(*txn) error { panic("page") }); !errors.Is(err, ErrDamaged) {
		t.Fatalf("writing: %v", err)
	}
	if _, err := c.InitProducer(instance(2), ""); !errors.Is(err, ErrBroken) {
		t.Fatalf("afterwards: %v", err)
	}
	reopen(t, c, dir)
}

// A refusal within a group leaves the others of the group alone.
func TestRefusalDoesNotSpoilItsGroup(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	refusal := errors.New("no")
	ok := &write{run: func(t *txn) error { t.put(bucketTerms, []byte("k"), numberBody(1)); return nil }}
	no := &write{run: func(*txn) error { return refusal }}
	done := &write{done: make(chan struct{}), run: func(*txn) error { return nil }}
	c.writes <- done // the writer is idle again when this one is answered
	<-done.done
	c.commit([]*write{no, ok, no})
	if ok.err != nil || no.err != refusal {
		t.Fatalf("ok: %v, refused: %v", ok.err, no.err)
	}
	if err := c.view(func(tx *txn) error {
		n, _, err := tx.number("k", bucketTerms, []byte("k"))
		if n != 1 {
			t.Errorf("value %d", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedRowsAreNamed(t *testing.T) {
	tests := []struct {
		reason string
		edit   func(tx *bolt.Tx) error
		text   string
	}{
		{"producer row flipped", func(tx *bolt.Tx) error {
			v := bytes.Clone(tx.Bucket(bucketProducers).Get(pidKey(2)))
			v[10] ^= 1
			return tx.Bucket(bucketProducers).Put(pidKey(2), v)
		}, "producer 2"},
		{"producer row of another producer", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketProducers).Put(pidKey(2), tx.Bucket(bucketProducers).Get(pidKey(1)))
		}, "producer 2"},
		{"producer row gone", func(tx *bolt.Tx) error { return tx.Bucket(bucketProducers).Delete(pidKey(2)) }, "missing"},
		{"name leads to somebody else", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketHolders).Put([]byte("n"), sealRow([]byte("n"), numberBody(1)))
		}, "producer 1"},
		{"name row cut", func(tx *bolt.Tx) error { return tx.Bucket(bucketHolders).Put([]byte("n"), []byte{1}) }, "producer name"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir, Options{})
			anon := must(c.InitProducer(instance(1), ""))(t)
			must(c.InitProducer(instance(2), "n"))(t)
			c.Close()
			edit(t, dir, tt.edit)
			c = open(t, dir, Options{})
			for _, who := range []InstanceID{instance(2), instance(3)} {
				_, err := c.InitProducer(who, "n")
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), c.path) {
					t.Fatalf("got %v", err)
				}
			}
			if got := must(c.InitProducer(instance(1), ""))(t); got != anon { // the others go on
				t.Fatalf("other producer: %+v", got)
			}
		})
	}
}

func TestDamagedTermIsNamed(t *testing.T) {
	for reason, v := range map[string][]byte{
		"cut":       {1, 2},
		"too large": sealRow(termKey(TopicID{}, 0), numberBody(1<<32)),
	} {
		t.Run(reason, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir, Options{})
			topic := must(c.CreateTopic("t", 1, TopicConfig{}))(t)
			c.Close()
			edit(t, dir, func(tx *bolt.Tx) error { return tx.Bucket(bucketTerms).Put(termKey(topic.ID, 0), v) })
			c = open(t, dir, Options{})
			if _, err := c.NextTerm(topic.ID, 0, 0); !errors.Is(err, ErrDamaged) {
				t.Fatalf("got %v", err)
			}
		})
	}
}
