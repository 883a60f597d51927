package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
)

const (
	partition       = 0                  // all numbers go there: order is kept within a partition
	deliveryTimeout = 7 * 24 * time.Hour // a number that was given up would leave a hole
	setupTimeout    = 30 * time.Second   // for everything before the first number
	runHeader       = "run"              // epoch of the producer in the run that made the number
)

func main() { os.Exit(cli.Main(run)) }

// run is the program. Its result is the exit code.
func run(ctx context.Context, args []string, std cli.Streams) int {
	o, err := parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(std.Out, o.usage)
		return cli.ExitOK
	}
	if err == nil {
		err = count(ctx, o, std)
	}
	if err != nil {
		fmt.Fprintln(std.Err, "named:", err)
	}
	return cli.ExitCode(ctx, err)
}

// A counter is what the counting needs.
type counter struct {
	options
	client   *sdk.Client
	producer *sdk.Producer
	watch    *watch
}

// count connects, takes the name over, goes on counting, and reads everything back.
func count(ctx context.Context, o options, std cli.Streams) (err error) {
	counting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	setup, cancel := context.WithTimeout(counting, setupTimeout)
	defer cancel()
	w := newWatch(std.Out, stop)
	session, err := o.server.Connect(setup, sdk.OnEvent(w.event))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()

	c := &counter{options: o, client: session.Client, watch: w}
	next, err := c.takeOver(setup)
	if err != nil {
		return err
	}
	if err := c.goOn(counting, next); err != nil {
		return err
	}
	return c.check(ctx)
}

// takeOver makes the name ours, lets the outbox have its outcome, and finds the number to
// go on with. The order of these three is what makes the number certain.
func (c *counter) takeOver(ctx context.Context) (next int64, err error) {
	_, err = c.client.CreateTopic(ctx, c.topic, sdk.TopicOptions{Partitions: 1})
	if err != nil && !errors.Is(err, sdk.ErrTopicExists) {
		return 0, err
	}
	c.producer, err = c.client.Producer(c.topic).Named(c.name).Outbox(c.outbox).
		Partition(partition).DeliveryTimeout(deliveryTimeout).Build(ctx)
	if err != nil {
		return 0, err
	}
	c.watch.printf("producer %q in epoch %d\n", c.name, c.producer.Epoch())
	if err := c.watch.awaitOutbox(ctx, c.producer.Found()); err != nil {
		return 0, err
	}
	last, err := c.lastStored(ctx)
	return last + 1, err
}

// goOn sends the numbers that are missing, closes the producer, and says what became of
// them.
func (c *counter) goOn(ctx context.Context, next int64) error {
	if next <= c.to {
		c.watch.printf("going on with %d\n", next)
	} else {
		c.watch.printf("nothing is missing, %d is the last number\n", next-1)
	}
	start := time.Now()
	t := &tally{stop: c.watch.stop}
	err := c.sendNumbers(ctx, next, t)

	// Close returns when every number that was accepted has its outcome.
	closing, cancel := cli.Outlive(ctx, c.lastWords)
	defer cancel()
	left, closeErr := c.producer.Close(closing)
	for _, batch := range left {
		c.watch.printf("unknown: sequences %d to %d, the next run settles them\n", batch.First, batch.Last)
	}
	c.watch.printf("%s in %v\n", t, time.Since(start).Round(time.Millisecond))
	if err == nil && t.failed.Load() > 0 {
		err = reason(ctx)
	}
	return errors.Join(err, closeErr)
}

// sendNumbers hands the numbers to the producer, which copies them. It ends early when ctx
// does: after an interrupt, with the first number that fails, and when the name is gone.
func (c *counter) sendNumbers(ctx context.Context, next int64, t *tally) error {
	limiter := cli.NewLimiter(c.rate)
	madeBy := []sdk.Header{{Key: runHeader, Value: strconv.AppendUint(nil, uint64(c.producer.Epoch()), 10)}}
	for n := next; n <= c.to; n++ {
		err := limiter.Wait(ctx)
		if err == nil {
			number := sdk.Record{Value: strconv.AppendInt(nil, n, 10), Headers: madeBy}
			err = c.producer.SendAsync(ctx, number, t.outcome)
		}
		switch {
		case ctx.Err() != nil:
			return reason(ctx)
		case err != nil:
			return explain(err)
		}
	}
	return nil
}
