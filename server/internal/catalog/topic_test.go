package catalog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/quoin-io/quoin/batchfmt"
)

func TestTopicsOutliveReopening(t *testing.T) {
	dir := t.TempDir()
	now := time.UnixMilli(1_700_000_000_123)
	c := open(t, dir, Options{Now: func() time.Time { return now }})
	b := must(c.CreateTopic("b", 2, TopicConfig{MaxBatchBytes: 4096, Strict: true}))(t)
	a := must(c.CreateTopic("a", MaxPartitions, TopicConfig{}))(t)
	if a.Config.MaxBatchBytes != batchfmt.DefaultTopicBatchBytes || a.Created != now.UnixMilli() || a.ID == b.ID {
		t.Fatalf("created %+v", a)
	}
	check := func() {
		t.Helper()
		if diff := cmp.Diff([]Topic{a, b}, c.Topics()); diff != "" {
			t.Fatal(diff)
		}
		for _, want := range []Topic{a, b} {
			if got := must(c.TopicByName(want.Name))(t); got != want {
				t.Errorf("by name: %+v", got)
			}
			if got := must(c.TopicByID(want.ID))(t); got != want {
				t.Errorf("by id: %+v", got)
			}
		}
	}
	check()
	c = reopen(t, c, dir)
	check()
	if _, err := c.CreateTopic("a", 1, TopicConfig{}); !errors.Is(err, ErrTopicExists) {
		t.Fatalf("second a: %v", err)
	}

	b = must(c.AlterTopic(b.ID, TopicConfig{MaxBatchBytes: 8192}, b.Partitions))(t)
	b = must(c.AlterTopic(b.ID, b.Config, 5))(t)
	if b.Partitions != 5 || b.Config != (TopicConfig{MaxBatchBytes: 8192}) {
		t.Fatalf("altered %+v", b)
	}
	check()
	c = reopen(t, c, dir)
	check()
	if _, err := c.AlterTopic(b.ID, b.Config, 4); !errors.Is(err, ErrPartitions) {
		t.Fatalf("fewer partitions: %v", err)
	}
	if _, err := c.AlterTopic(b.ID, b.Config, MaxPartitions+1); !errors.Is(err, ErrPartitions) {
		t.Fatalf("too many partitions: %v", err)
	}
	if _, err := c.AlterTopic(b.ID, TopicConfig{MaxBatchBytes: -1}, b.Partitions); !errors.Is(err, ErrConfig) {
		t.Fatalf("bad config: %v", err)
	}
	check()

	before := b
	b = must(c.AlterTopic(b.ID, TopicConfig{Strict: true}, 7))(t)
	if err := c.UndoAlter(before); err != nil {
		t.Fatal(err)
	}
	b = before
	check()
	c = reopen(t, c, dir)
	check()
	if err := c.UndoAlter(Topic{ID: TopicID{9}}); !errors.Is(err, ErrUnknownTopic) {
		t.Fatalf("undo for nothing: %v", err)
	}
}

func TestDeletedTopicIsPendingUntilFinished(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	old := must(c.CreateTopic("orders", 2, TopicConfig{}))(t)
	must(c.NextTerm(old.ID, 1, 0))(t)
	if err := c.DeleteTopic(old.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic(old.ID); !errors.Is(err, ErrUnknownTopic) {
		t.Fatalf("second delete: %v", err)
	}
	again := must(c.CreateTopic("orders", 2, TopicConfig{}))(t)
	if again.ID == old.ID {
		t.Fatal("the new topic has the old id")
	}
	must(c.NextTerm(again.ID, 1, 6))(t)
	for _, pending := range [][]Topic{{old}, nil} {
		c = reopen(t, c, dir)
		if diff := cmp.Diff(pending, must(c.PendingDeletes())(t)); diff != "" {
			t.Fatal(diff)
		}
		if got := must(c.TopicByName("orders"))(t); got != again {
			t.Fatalf("by name: %+v", got)
		}
		_, e1 := c.TopicByID(old.ID)
		_, e2 := c.NextTerm(old.ID, 1, 0)
		_, e3 := c.AlterTopic(old.ID, TopicConfig{}, 1)
		for _, err := range []error{e1, e2, e3} {
			if !errors.Is(err, ErrUnknownTopic) {
				t.Fatalf("old topic: %v", err)
			}
		}
		if err := errors.Join(c.FinishDelete(old.ID), c.FinishDelete(old.ID)); err != nil {
			t.Fatal(err)
		}
	}
	err := c.view(func(tx *txn) error {
		if v := tx.tx.Bucket(bucketTerms).Get(termKey(old.ID, 1)); v != nil {
			t.Error("the deleted topic's term is still there")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if term := must(c.NextTerm(again.ID, 1, 0))(t); term != 8 {
		t.Fatalf("the new topic's term is %d, want 8", term)
	}
}

func TestCreateTopicRefuses(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	tests := []struct {
		reason     string
		name       string
		partitions int32
		cfg        TopicConfig
		want       error
	}{
		{"no name", "", 1, TopicConfig{}, ErrName},
		{"dot", ".", 1, TopicConfig{}, ErrName},
		{"two dots", "..", 1, TopicConfig{}, ErrName},
		{"slash", "a/b", 1, TopicConfig{}, ErrName},
		{"space", "a b", 1, TopicConfig{}, ErrName},
		{"not ascii", "ä", 1, TopicConfig{}, ErrName},
		{"zero byte", "a\x00", 1, TopicConfig{}, ErrName},
		{"too long", strings.Repeat("x", MaxTopicName+1), 1, TopicConfig{}, ErrName},
		{"no partitions", "ok", 0, TopicConfig{}, ErrPartitions},
		{"negative partitions", "ok", -1, TopicConfig{}, ErrPartitions},
		{"too many partitions", "ok", MaxPartitions + 1, TopicConfig{}, ErrPartitions},
		{"batch too small", "ok", 1, TopicConfig{MaxBatchBytes: MinBatchBytes - 1}, ErrConfig},
		{"batch too large", "ok", 1, TopicConfig{MaxBatchBytes: batchfmt.MaxBatchBytes + 1}, ErrConfig},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if _, err := c.CreateTopic(tt.name, tt.partitions, tt.cfg); !errors.Is(err, tt.want) {
				t.Fatalf("got %v", err)
			}
		})
	}
	for _, name := range []string{"a", "...", "A-z_0.9", strings.Repeat("x", MaxTopicName)} {
		must(c.CreateTopic(name, 1, TopicConfig{}))(t)
	}
	var ne *NameError
	if _, err := c.CreateTopic("a b", 1, TopicConfig{}); !errors.As(err, &ne) || ne.Kind != "topic" || ne.Name != "a b" {
		t.Fatalf("got %#v", ne)
	}
}

func TestTopicLimit(t *testing.T) {
	c := open(t, t.TempDir(), Options{MaxTopics: 2})
	a := must(c.CreateTopic("a", 1, TopicConfig{}))(t)
	must(c.CreateTopic("b", 1, TopicConfig{}))(t)
	if _, err := c.CreateTopic("c", 1, TopicConfig{}); !errors.Is(err, ErrTopicLimit) {
		t.Fatalf("got %v", err)
	}
	if err := c.DeleteTopic(a.ID); err != nil {
		t.Fatal(err)
	}
	must(c.CreateTopic("c", 1, TopicConfig{}))(t)
}

func TestTopicIDText(t *testing.T) {
	id := TopicID{0: 0xab, 15: 0x01}
	if got := must(ParseTopicID(id.String()))(t); got != id {
		t.Fatalf("got %v", got)
	}
	for _, s := range []string{"", "ab", strings.Repeat("g", 32), strings.Repeat("0", 34)} {
		if _, err := ParseTopicID(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func TestTermsAreNeverGivenTwice(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	a := must(c.CreateTopic("a", 3, TopicConfig{}))(t)
	b := must(c.CreateTopic("b", 1, TopicConfig{}))(t)
	all := []TermRequest{{Topic: a.ID}, {Topic: a.ID, Partition: 2}, {Topic: b.ID, After: 7}}
	for i, want := range [][]batchfmt.Term{{1, 1, 8}, {2, 2, 9}, {3, 3, 10}} {
		if got := must(c.NextTerms(all))(t); !slices.Equal(got, want) {
			t.Fatalf("start %d: %v, want %v", i, got, want)
		}
		c = reopen(t, c, dir)
	}
	if got := must(c.NextTerms([]TermRequest{{Topic: b.ID}, {Topic: b.ID}}))(t); !slices.Equal(got, []batchfmt.Term{11, 12}) {
		t.Fatalf("the same partition twice: %v", got)
	}
	if got := must(c.NextTerm(a.ID, 1, 0))(t); got != 1 {
		t.Fatalf("first term %d", got)
	}
}

func TestTermsAllOrNone(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	a := must(c.CreateTopic("a", 1, TopicConfig{}))(t)
	tests := []struct {
		reason string
		bad    TermRequest
		want   error
	}{
		{"unknown topic", TermRequest{Topic: TopicID{1}}, ErrUnknownTopic},
		{"partition too high", TermRequest{Topic: a.ID, Partition: 1}, ErrPartitions},
		{"partition negative", TermRequest{Topic: a.ID, Partition: -1}, ErrPartitions},
		{"terms used up", TermRequest{Topic: a.ID, After: math.MaxUint32}, ErrExhausted},
	}
	for i, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if _, err := c.NextTerms([]TermRequest{{Topic: a.ID}, tt.bad}); !errors.Is(err, tt.want) {
				t.Fatalf("got %v", err)
			}
			if got := must(c.NextTerm(a.ID, 0, 0))(t); got != batchfmt.Term(i+1) {
				t.Fatalf("term %d, want %d", got, i+1)
			}
		})
	}
}

func BenchmarkNextTerms(b *testing.B) {
	c, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	topic, err := c.CreateTopic("a", MaxPartitions, TopicConfig{})
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int32{1, 100, MaxPartitions} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var all []TermRequest
			for p := range n {
				all = append(all, TermRequest{Topic: topic.ID, Partition: p})
			}
			for b.Loop() {
				if _, err := c.NextTerms(all); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
