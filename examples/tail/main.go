package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/examples/internal/lines"
	"github.com/quoin-io/quoin/sdk"
)

// setupTimeout bounds everything before the first record.
const setupTimeout = 30 * time.Second

func main() {
	signal.Ignore(syscall.SIGPIPE) // so that a closed pipe is an error, which run forgives
	os.Exit(cli.Main(run))
}

// run is the program. Its result is the exit code.
func run(ctx context.Context, args []string, std cli.Streams) int {
	o, err := parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(std.Out, o.usage)
		return cli.ExitOK
	}
	if err == nil {
		err = tail(ctx, o, std)
	}
	if closedPipe(err) {
		return cli.ExitOK // the reader has seen enough
	}
	if err != nil {
		fmt.Fprintln(std.Err, "tail:", err)
	}
	return cli.ExitCode(ctx, err)
}

func closedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// tail connects, and hands every record to a destination.
func tail(ctx context.Context, o options, std cli.Streams) (err error) {
	session, consumer, err := setUp(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consumer.Close(), session.Close()) }()

	to, err := newDestination(o, std)
	if err != nil {
		return err
	}
	err = copyAll(ctx, consumer, to)
	return errors.Join(err, to.close())
}

// setUp connects and builds the consumer.
func setUp(ctx context.Context, o options) (*cli.Session, *sdk.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	session, err := o.server.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	builder := session.Client.Consumer(o.topic).From(o.from)
	if !o.follow {
		builder.StopAtEnd()
	}
	consumer, err := builder.Build(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, session.Close())
	}
	return session, consumer, nil
}

// A destination takes lines. What write is given is only valid until it returns.
type destination interface {
	write(file, line []byte) error
	close() error
}

func newDestination(o options, std cli.Streams) (destination, error) {
	if o.into != "" {
		return newInto(o.into, o.follow, std.Err)
	}
	return newPrinter(std.Out, o.follow), nil
}

// copyAll hands over every record, each as the line that it was.
func copyAll(ctx context.Context, consumer *sdk.Consumer, to destination) error {
	var line []byte
	for r, err := range consumer.Records(ctx) {
		if err != nil && ctx.Err() != nil {
			return cli.ErrInterrupted
		}
		if err != nil {
			return err
		}
		eol, err := eolOf(r)
		if err == nil {
			line = lines.Line{Value: r.Value, EOL: eol}.AppendTo(line[:0])
			err = to.write(header(r, lines.HeaderFile), line)
		}
		if err != nil {
			return fmt.Errorf("record %d of partition %d: %w", r.Offset, r.Partition, err)
		}
	}
	return nil
}

func eolOf(r *sdk.Record) (lines.EOL, error) {
	if name := header(r, lines.HeaderEOL); name != nil {
		return lines.ParseEOL(name)
	}
	return lines.LF, nil
}

// header returns the first header with that key, or nil.
func header(r *sdk.Record, key string) []byte {
	for _, h := range r.Headers {
		if h.Key == key {
			return h.Value
		}
	}
	return nil
}
