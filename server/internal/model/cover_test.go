package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quoin-io/quoin/wire"
)

// A coverage counts what happened in all worlds of a run, so that one sees what the
// schedules reach.
type coverage struct {
	mu     sync.Mutex
	counts map[[2]string]int
}

func newCoverage() *coverage { return &coverage{counts: make(map[[2]string]int)} }

func (c *coverage) add(group, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[[2]string{group, name}]++
}

// String is a table, by groups.
func (c *coverage) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	byName := func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }
	var b strings.Builder
	group := ""
	for _, k := range slices.SortedFunc(maps.Keys(c.counts), byName) {
		if k[0] != group {
			group = k[0]
			fmt.Fprintf(&b, "%s\n", group)
		}
		fmt.Fprintf(&b, "  %8d  %s\n", c.counts[k], k[1])
	}
	return b.String()
}

// explain counts the rows of the decision table that the partitions have met since they
// were asked last. They remember a limited number; what is older is not counted.
func (w *world) explain() {
	for _, p := range w.places() {
		m, ok := w.ask(&wire.ExplainProducers{TopicID: p.topic, Partition: p.part}).(*wire.ProducersExplained)
		if !ok {
			continue
		}
		have := m.Decisions
		if i := slices.IndexFunc(have, func(d wire.Decision) bool { return d == w.explained[p] }); i >= 0 {
			have = have[i+1:]
		}
		for _, d := range have {
			w.explained[p] = d
			w.seen.add("decision", fmt.Sprintf("row %2d  %s", d.Row, d.Kind))
		}
	}
}
