package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

const (
	topic        = "measurements"
	setupTimeout = 30 * time.Second // from the start of the server to the first measurement
	stopTimeout  = 10 * time.Second // for each step of stopping
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
		err = serve(ctx, o, std)
	}
	if err != nil {
		fmt.Fprintln(std.Err, "embed:", err)
	}
	return cli.ExitCode(ctx, err)
}

// serve runs the server for as long as the rest of the program takes.
func serve(ctx context.Context, o options, std cli.Streams) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	srv, err := server.Start(server.Config{Data: o.data, Addr: o.listen, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inTime(srv.Shutdown)) }()
	fmt.Fprintln(std.Err, "serving", srv.URL())

	client, err := sdk.Dial(ctx, srv.URL(), sdk.WithLogger(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inTime(client.Close)) }()
	return measure(ctx, client, o, std)
}

// inTime calls one step of stopping with the time that it has.
func inTime(stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return stop(ctx)
}

// measure builds producer and consumer, lets the loop run, and stops them in order.
func measure(ctx context.Context, client *sdk.Client, o options, std cli.Streams) (err error) {
	setup, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	_, err = client.CreateTopic(setup, topic, sdk.TopicOptions{})
	if err != nil && !errors.Is(err, sdk.ErrTopicExists) {
		return err
	}
	producer, err := client.Producer(topic).Idempotent().Build(setup)
	if err != nil {
		return err
	}
	consumer, err := client.Consumer(topic).From(sdk.Earliest).Build(setup)
	if err != nil {
		return err
	}

	l := newLoop(producer, std.Out, o)
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- l.readAll(reading, consumer) }()

	err = l.measureAll(ctx)
	err = errors.Join(err, inTime(closeProducer(producer)))
	if err == nil {
		err = inTime(l.catchUp)
	}
	stopReading()
	err = errors.Join(err, <-ended, consumer.Close())
	l.summary()
	if err == nil && ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	return err
}

func closeProducer(p *sdk.Producer) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.Close(ctx) // each measurement had its outcome, so nothing is abandoned
		return err
	}
}
