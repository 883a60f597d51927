package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

const consumeHelp = `Print the records of a topic as they come, those of one partition in the order of their
offsets. At the end it waits for more until it is interrupted, unless --exit-at-end or --max
ends it.

--from says where to begin, in each partition:

  start                the oldest record that is kept; the default
  end                  behind the newest record
  42                   this offset, which every partition that is read must have
  -100                 the last 100 records
  @1h                  the first record with a timestamp of an hour ago, by the clock of this
                       machine, or higher; and all that follow
  @2026-01-02T03:04Z   the same for a time in RFC 3339, of which the seconds may be left out

The server has no index of timestamps: what stands before a time is read, and not printed.

  -o table   for a terminal: columns, with long keys, values and headers cut
  -o tsv     a line of partition, offset, timestamp, key, value and headers, with tabs between
             them and no header. What a terminal should not print is quoted, a dash is for
             what is null, "" for what is empty
  -o json    an object a line. Key, value and the names and values of headers are strings,
             null, or {"base64": "..."} for what is not UTF-8; quoin produce --jsonl reads
             it without loss
  -f FORMAT  what the format makes of each record:

` + formatHelp + `

A connection that is lost is made again, for as long as that takes, and reading goes on at the
next offset. That is told on stderr. A reader that closes the pipe ends it with exit code 0.

Exit code 1 says that the server refuses, as it does at a batch of a version that this program
does not know: the message says at which offset it may go on behind that, with --partition and
--from. 3 says that there is no such topic, partition or offset, 5 that the server could not be
asked, 7 that something is damaged or missing, 130 that it was interrupted. What came before is
printed.`

// A consumeOrder is what is to be read, and how to print it.
type consumeOrder struct {
	from       remote
	topic      string
	start      string
	partitions []int
	follow     bool
	exitAtEnd  bool
	most       int64
	form       outputForm
	format     string
	formatted  bool // format was given
}

func consumeCommand() *cobra.Command {
	var o consumeOrder
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print records as they come",
		Long:  consumeHelp,
		Example: "  quoin consume orders --from end\n" +
			"  quoin consume orders --from -10 --exit-at-end -f '%p %o %k %v\\n'\n" +
			"  quoin consume orders --exit-at-end -o json | quoin produce orders-copy --jsonl",
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topic, o.formatted = args[0], cmd.Flags().Changed("format")
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.start, "from", "start", fromUsage)
	f.IntSliceVar(&o.partitions, "partition", nil, "only this partition, or several; default: all that there are now")
	f.BoolVar(&o.follow, "follow", false, "wait for more at the end; the default")
	f.BoolVar(&o.exitAtEnd, "exit-at-end", false, "exit where the topic ends now")
	f.Int64VarP(&o.most, "max", "n", 0, "exit after so many records, 0 for no bound")
	f.StringVarP(&o.format, "format", "f", "", "print this of each record, such as '%k %v\\n'")
	o.form.flags(f)
	o.from.streamFlags(f, "how long it may take to connect and, after that, to begin")
	return cmd
}

func (o *consumeOrder) run(ctx context.Context, stdout, stderr io.Writer) error {
	from, err := o.check()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	p, err := o.printer(out, isTerminal(stdout))
	if err != nil {
		return err
	}
	return o.from.stream(ctx, &notes{w: stderr}, func(ctx context.Context, c *sdk.Client) error {
		building, cancel := context.WithTimeout(ctx, o.from.timeout)
		defer cancel()
		consumers, err := o.open(building, c, from)
		if err != nil {
			return err
		}
		defer closeAll(consumers)
		return damaged(o.print(ctx, consumers, from, p))
	})
}

// check reports everything that is wrong with the order.
func (o *consumeOrder) check() (beginning, error) {
	from, err := parseFrom(o.start, time.Now())
	errs := []error{topicArg(o.topic), err}
	wrong := func(format string, args ...any) { errs = append(errs, usageError{fmt.Errorf(format, args...)}) }
	seen := make(map[int]bool)
	for _, n := range o.partitions {
		if n < 0 || seen[n] {
			wrong("--partition %d: it is negative or there twice", n)
		}
		seen[n] = true
	}
	if o.follow && o.exitAtEnd {
		wrong("--follow and --exit-at-end contradict each other")
	}
	if o.most < 0 {
		wrong("--max %d: it must be 0 or more", o.most)
	}
	return from, errors.Join(errs...)
}

// damaged marks what a consumer found, or was told, to be damaged or missing.
func damaged(err error) error {
	var refused *sdk.ServerError
	if errors.As(err, new(*sdk.CorruptBatchError)) || errors.As(err, new(*sdk.GapError)) ||
		errors.As(err, &refused) && refused.Code == wire.CodeCorruptBatch {
		return fmt.Errorf("%w: %w", errVerification, err)
	}
	return err
}

// recordsAhead is how many records may wait to be printed.
const recordsAhead = 16

type consumed struct {
	record *sdk.Record
	err    error
}

// recordsOf puts together what the consumers give, until ctx ends. The channel is closed when
// all have ended, and the goroutines that write to it with them.
func recordsOf(ctx context.Context, consumers []*sdk.Consumer) <-chan consumed {
	records := make(chan consumed, recordsAhead)
	var running sync.WaitGroup
	for _, consumer := range consumers {
		running.Go(func() {
			for r, err := range consumer.Records(ctx) {
				select {
				case records <- consumed{r, err}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	go func() {
		running.Wait()
		close(records)
	}()
	return records
}

// print prints records until they end. Whatever is there is printed before it waits for
// more, and none of it is written by itself while more is there.
func (o *consumeOrder) print(ctx context.Context, consumers []*sdk.Consumer, from beginning, p recordPrinter) error {
	reading, stop := context.WithCancel(ctx)
	records := recordsOf(reading, consumers)
	defer func() {
		stop()
		for range records { // until its goroutines have ended
		}
	}()
	begun := make(map[int]bool)
	for n := int64(0); o.most == 0 || n < o.most; {
		c, more := next(records, p)
		switch {
		case ctx.Err() != nil:
			return errors.Join(p.flush(), errInterrupted)
		case !more:
			return p.flush()
		case c.err != nil:
			return errors.Join(p.flush(), c.err)
		case from.skipped(c.record, begun):
			continue
		}
		if err := p.print(c.record); err != nil {
			return err
		}
		n++
	}
	return p.flush()
}

// next takes the next record, and has what was printed written before it waits. An error of
// that is met again by the next write.
func next(records <-chan consumed, p recordPrinter) (consumed, bool) {
	select {
	case c, more := <-records:
		return c, more
	default:
	}
	if p.flush() != nil {
		return consumed{}, false
	}
	c, more := <-records
	return c, more
}

// A recordPrinter prints records in the form that is asked for.
type recordPrinter struct {
	print func(*sdk.Record) error
	flush func() error // writes what is kept
}

func (o *consumeOrder) printer(out *bufio.Writer, terminal bool) (recordPrinter, error) {
	if o.formatted {
		if o.form != (outputForm{}) {
			return recordPrinter{}, usageError{errors.New("--format and --output exclude each other")}
		}
		f, err := parseFormat(o.format)
		if err != nil {
			return recordPrinter{}, usageError{fmt.Errorf("--format %q: %w", o.format, err)}
		}
		return recordPrinter{func(r *sdk.Record) error { return f.write(out, r) }, out.Flush}, nil
	}
	form := o.form
	if form == (outputForm{}) && terminal {
		form.name = formTable
	}
	list, err := form.listing(out)
	if err != nil {
		return recordPrinter{}, err
	}
	width := 0
	if list.align != nil {
		list.header, width = []string{"PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE", "HEADERS"}, cutAt
	}
	row := func(r *sdk.Record) error {
		if list.json != nil {
			return list.row(recordObjectOf(r))
		}
		return list.row(nil, strconv.Itoa(r.Partition), strconv.FormatInt(r.Offset, 10), r.Timestamp.UTC().Format(timeLayout),
			cut(orEmpty(r.Key), width), cut(orEmpty(r.Value), width), cut(joinHeaders(r.Headers), width))
	}
	return recordPrinter{row, func() error { return errors.Join(list.flush(), out.Flush()) }}, nil
}

// cutAt is how many characters of a key, a value or headers a table shows.
const cutAt = 60

// cut shortens a text to width characters, if width is not 0.
func cut(text string, width int) string {
	if width == 0 {
		return text
	}
	n := 0
	for i := range text {
		if n++; n > width {
			return text[:i] + "…"
		}
	}
	return text
}

// orEmpty tells what is empty from null, which a row has a dash for.
func orEmpty(b []byte) string {
	if b != nil && len(b) == 0 {
		return `""`
	}
	return string(b)
}
