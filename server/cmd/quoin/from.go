package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// A beginning is where reading begins, in each partition. At most one of the fields is set;
// the zero value is the oldest record that is kept.
type beginning struct {
	end    bool      // behind the newest record
	offset int64     // this one, if it is not 0
	last   int64     // so many before the end, if it is not 0
	since  time.Time // the first record with this timestamp or a higher one, if it is not zero
}

const fromUsage = `where to begin in each partition: start, end, an OFFSET, -N for the last N records, @1h for an hour ago, @2026-01-02T03:04Z`

// parseFrom reads what --from says; now is what durations count from.
func parseFrom(text string, now time.Time) (beginning, error) {
	wrong := func(why string) (beginning, error) {
		return beginning{}, usageError{fmt.Errorf("--from %q: %s", text, why)}
	}
	moment, isTime := strings.CutPrefix(text, "@")
	switch {
	case text == "start":
		return beginning{}, nil
	case text == "end":
		return beginning{end: true}, nil
	case isTime:
		at, ok := parseMoment(moment, now)
		if !ok {
			return wrong("behind @ stands a duration such as 1h30m, or a time such as 2026-01-02T03:04Z or 2026-01-02T03:04:05.678+01:00")
		}
		return beginning{since: at}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || strings.HasPrefix(text, "+") || text == "-0" || n == math.MinInt64:
		return wrong("it must be start, end, an offset, -N, @DURATION or @TIME")
	case n < 0:
		return beginning{last: -n}, nil
	}
	return beginning{offset: n}, nil
}

// parseMoment reads a positive duration before now, or RFC 3339, of which the seconds may be
// left out. The zero time is none: it stands for no time.
func parseMoment(text string, now time.Time) (time.Time, bool) {
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), ago > 0
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, !t.IsZero()
		}
	}
	return time.Time{}, false
}

// start is where the consumer of a partition begins.
func (p beginning) start(of sdk.Partition) sdk.Start {
	switch {
	case p.end:
		return sdk.Latest
	case p.last > 0 && of.HighWatermark-of.LogStart > p.last:
		return sdk.At(of.HighWatermark - p.last)
	case p.offset > 0:
		return sdk.At(p.offset)
	}
	return sdk.Earliest
}

// skipped reports whether a record stands before the first of its partition that is asked
// for. The server keeps no index of timestamps, and producers choose them as they like, so
// nothing less than reading from the start finds that record for certain.
func (p beginning) skipped(r *sdk.Record, begun map[int]bool) bool {
	if p.since.IsZero() || begun[r.Partition] {
		return false
	}
	begun[r.Partition] = !r.Timestamp.Before(p.since)
	return !begun[r.Partition]
}

// Bounds of what is read ahead, in bytes, over all partitions and of one.
const (
	aheadOfAll = 64 << 20
	aheadOfOne = 4 << 20
	leastOfOne = 64 << 10
)

// open begins to read the partitions: with one consumer for all that begin at the same place.
func (o *consumeOrder) open(ctx context.Context, c *sdk.Client, from beginning) ([]*sdk.Consumer, error) {
	topic, err := c.DescribeTopic(ctx, o.topic)
	if err != nil {
		return nil, err
	}
	numbers := o.partitions
	if numbers == nil {
		for n := range topic.Partitions {
			numbers = append(numbers, n)
		}
	}
	groups := make(map[sdk.Start][]int)
	for _, n := range numbers {
		if n >= len(topic.Partitions) {
			return nil, notFoundError{fmt.Errorf("there is no partition %d, topic %s has %d", n, o.topic, len(topic.Partitions))}
		}
		start := from.start(topic.Partitions[n])
		groups[start] = append(groups[start], n)
	}
	var consumers []*sdk.Consumer
	for start, numbers := range groups {
		b := c.Consumer(o.topic).From(start).Partitions(numbers...).Prefetch(min(max(aheadOfAll/len(topic.Partitions), leastOfOne), aheadOfOne))
		if o.exitAtEnd {
			b.StopAtEnd()
		}
		consumer, err := b.Build(ctx)
		if err != nil {
			closeAll(consumers)
			return nil, err
		}
		consumers = append(consumers, consumer)
	}
	return consumers, nil
}

func closeAll(consumers []*sdk.Consumer) {
	for _, c := range consumers {
		c.Close()
	}
}
