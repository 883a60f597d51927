package main

import (
	"context"
	"fmt"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
)

// check reads what this producer has in the topic, and compares it with what it should be.
func (c *counter) check(ctx context.Context) error {
	consumer, err := c.client.Consumer(c.topic).Partitions(partition).StopAtEnd().Build(ctx)
	if err != nil {
		return err
	}
	defer consumer.Close()
	last, runs := int64(0), make(map[string]bool)
	for record, err := range consumer.Records(ctx) {
		if ctx.Err() != nil {
			return cli.ErrInterrupted
		}
		if err != nil {
			return err
		}
		if record.Producer.ID != c.producer.ID() {
			continue
		}
		n, err := numberOf(record)
		if err != nil {
			return err
		}
		if n != last+1 {
			return fmt.Errorf("%w: offset %d has %d behind %d", cli.ErrWrong, record.Offset, n, last)
		}
		last = n
		runs[madeBy(record)] = true
	}
	if last < c.to {
		return fmt.Errorf("%w: %d is the last number, not %d", cli.ErrWrong, last, c.to)
	}
	c.watch.printf("read back %d records: the numbers 1 to %d, each once and in order, from %d runs\n", last, last, len(runs))
	return nil
}

// madeBy is the run that made a number. It need not be the run that got it stored.
func madeBy(record *sdk.Record) string {
	for _, h := range record.Headers {
		if h.Key == runHeader {
			return string(h.Value)
		}
	}
	return ""
}
