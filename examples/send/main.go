package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/examples/internal/lines"
	"github.com/quoin-io/quoin/sdk"
)

const (
	maxLine      = 16 << 20         // bytes; a longer line is never held in memory
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
		err = send(ctx, o, std)
	}
	if err != nil {
		fmt.Fprintln(std.Err, "send:", err)
	}
	return cli.ExitCode(ctx, err)
}

// send connects, sends every line of every source, and says what became of them.
func send(ctx context.Context, o options, std cli.Streams) (err error) {
	sources, err := findSources(o.files, std.In)
	if err != nil {
		return err
	}
	session, producer, err := setUp(ctx, o, std.Err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()

	start := time.Now()
	bar := newProgress(std.Err, sources)
	t := newTally(bar.above(std.Err))
	s := &sender{producer, o.keyDelim, cli.NewLimiter(o.rate), t, bar}
	for _, src := range sources {
		if err = s.sendLines(ctx, src); err != nil {
			break
		}
	}

	// Close returns when every line that was accepted has its outcome.
	closing, cancel := cli.Outlive(ctx, lastWords)
	defer cancel()
	_, closeErr := producer.Close(closing)
	bar.stop()
	t.finish()
	fmt.Fprintf(std.Out, "%s in %v\n", t, time.Since(start).Round(time.Millisecond))
	switch {
	case t.failed.Load() == 0:
		return errors.Join(err, closeErr)
	case err == nil:
		return cli.ErrPartial
	}
	return fmt.Errorf("%w; %w", err, cli.ErrPartial)
}

// setUp connects, makes the topic if there is none, and builds the producer.
func setUp(ctx context.Context, o options, stderr io.Writer) (*cli.Session, *sdk.Producer, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	session, err := o.server.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = ensureTopic(ctx, session.Client, o, stderr)
	if err != nil {
		return nil, nil, errors.Join(err, session.Close())
	}
	builder := session.Client.Producer(o.topic).Idempotent().Compression(o.compression)
	if o.keyDelim == "" {
		builder.Partitioner(byFile)
	}
	producer, err := builder.Build(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, session.Close())
	}
	return session, producer, nil
}

func ensureTopic(ctx context.Context, client *sdk.Client, o options, stderr io.Writer) error {
	topic, err := client.DescribeTopic(ctx, o.topic)
	if errors.Is(err, sdk.ErrUnknownTopic) {
		_, err = client.CreateTopic(ctx, o.topic, sdk.TopicOptions{Partitions: o.partitions})
		if errors.Is(err, sdk.ErrTopicExists) {
			return nil // somebody else was faster
		}
		return err
	}
	if err == nil && o.partitionsSet && len(topic.Partitions) != o.partitions {
		fmt.Fprintf(stderr, "send: topic %q is there already, with a partition count of %d\n", o.topic, len(topic.Partitions))
	}
	return err
}

// byFile keeps the lines of a file together, whatever the number of partitions.
func byFile(r *sdk.Record, partitions int) int {
	return sdk.PartitionForKey(r.Headers[fileHeader].Value, partitions)
}

// A sender is what every line passes through.
type sender struct {
	producer *sdk.Producer
	keyDelim string
	limiter  *rate.Limiter
	tally    *tally
	bar      *progress
}

// sendLines sends the lines of one source. It goes on past lines that are too long; any
// other error would come again with every line, and ends it.
func (s *sender) sendLines(ctx context.Context, src *source) error {
	in, err := src.open(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	reader := lines.NewReader(s.bar.reader(in), maxLine)
	for {
		line, err := reader.Next()
		var skipped *lines.TooLongError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &skipped):
			s.tally.tooLong(src, skipped)
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", src.label, err)
		}
		if err := s.sendLine(ctx, src, line); err != nil {
			return err
		}
	}
}

// sendLine hands a line to the producer, which copies it. What becomes of it the producer
// tells the tally, later and from a goroutine of its own.
func (s *sender) sendLine(ctx context.Context, src *source, line lines.Line) error {
	if s.limiter.Wait(ctx) != nil {
		return cli.ErrInterrupted
	}
	outcome := s.tally.outcomeOf(src, line)
	err := s.producer.SendAsync(ctx, src.record(line, s.keyDelim), outcome)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	outcome(sdk.Ack{}, err) // it was not accepted, so nobody else reports it
	var tooLarge *sdk.RecordTooLargeError
	if errors.As(err, &tooLarge) {
		return nil
	}
	return fmt.Errorf("%s: nothing behind line %d was sent", src.label, line.Number)
}
