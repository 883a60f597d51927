package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/sdk/source"
)

const (
	setupTimeout = 30 * time.Second // for everything before the first line
	lastWords    = 10 * time.Second // for what is in flight when an interrupt comes
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
		err = follow(ctx, o, std)
	}
	if err != nil {
		fmt.Fprintln(std.Err, "tailfile:", err)
	}
	return cli.ExitCode(ctx, err)
}

// follow connects and carries the lines of the file into the topic until one of them ends.
func follow(ctx context.Context, o options, std cli.Streams) (err error) {
	session, err := connect(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()

	t := &teller{out: std.Err}
	lines := &follower{path: o.path, poll: o.poll, maxLine: o.maxLine, exitAtEnd: o.exitAtEnd, tell: t.tell}
	var stats source.Stats
	start := time.Now()
	err = source.Run(ctx, session.Client, lines, o.topic, o.name, source.Partition(o.partition),
		source.CloseTimeout(lastWords), source.WithStats(&stats), source.OnProgress(t.progress))
	p := stats.Progress()
	fmt.Fprintf(std.Out, "sent %d, appended %d, duplicates %d, failed 0 in %v\n",
		p.Records, p.Records-p.Duplicates, p.Duplicates, time.Since(start).Round(time.Millisecond))
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	return err
}

// connect connects, and makes the topic if there is none.
func connect(ctx context.Context, o options) (*cli.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	session, err := o.server.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, err = session.Client.CreateTopic(ctx, o.topic, sdk.TopicOptions{Partitions: o.partition + 1})
	if err != nil && !errors.Is(err, sdk.ErrTopicExists) {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

// A teller writes what somebody should know. It is called from two goroutines: the run's, and
// the one that reports progress.
type teller struct {
	mu      sync.Mutex
	out     io.Writer
	retries int64 // that were told
}

func (t *teller) tell(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "tailfile: "+format+"\n", args...)
}

// progress tells of failures that the run goes on from.
func (t *teller) progress(p source.Progress) {
	if p.Retries > t.retries {
		t.retries = p.Retries
		t.tell("trying again, %d times by now: %v", p.Retries, p.Err)
	}
}
