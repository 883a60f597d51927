package network

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/sdk"
)

// A place is where a record stands.
type place struct {
	partition int
	offset    int64
}

// A history is what was read of the topic, in its order.
type history struct {
	records int
	at      map[string]place
	newest  map[string]int // number of the last record of a producer in a partition
	next    map[int]int64  // offset by partition
}

func newHistory() history {
	return history{at: make(map[string]place), newest: make(map[string]int), next: make(map[int]int64)}
}

// add takes the next record, and says what is wrong with it where it stands.
func (h *history) add(r *sdk.Record) error {
	value, here := string(r.Value), place{r.Partition, r.Offset}
	h.records++
	if due := h.next[r.Partition]; r.Offset != due {
		return fmt.Errorf("partition %d gave offset %d where %d was due", r.Partition, r.Offset, due)
	}
	h.next[r.Partition]++
	if before, twice := h.at[value]; twice {
		return fmt.Errorf("record %s is there twice, at %v and %v", value, before, here)
	}
	h.at[value] = here
	name, number, _ := strings.Cut(value, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("a record that nobody sent: %q", value)
	}
	lane := fmt.Sprint(name, " ", r.Partition)
	if newest, seen := h.newest[lane]; seen && newest > n {
		return fmt.Errorf("record %s stands behind number %d in partition %d", value, newest, r.Partition)
	}
	h.newest[lane] = n
	return nil
}

// check compares what was read with what was acknowledged.
func (h *history) check(tb testing.TB, who string, acks map[string]sdk.Ack) {
	tb.Helper()
	if len(h.at) != len(acks) {
		tb.Errorf("%s has %d records, %d were acknowledged", who, len(h.at), len(acks))
	}
	wrong := 0
	for value, ack := range acks {
		at, there := h.at[value]
		if there && at == (place{ack.Partition, ack.Offset}) {
			continue
		}
		if wrong++; wrong <= 10 {
			tb.Errorf("%s has record %s at %v (there: %v), its acknowledgement says partition %d offset %d", who, value, at, there, ack.Partition, ack.Offset)
		}
	}
}

// readBack reads the topic from its start to its end.
func readBack(tb testing.TB, url string) *history {
	tb.Helper()
	ctx := waiting(tb)
	consumer, err := dial(tb, url).Consumer(topic).StopAtEnd().Build(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	h := newHistory()
	for r, err := range consumer.Records(ctx) {
		if err != nil {
			tb.Fatal(err)
		}
		if err := h.add(r); err != nil {
			tb.Error(err)
		}
	}
	return &h
}
