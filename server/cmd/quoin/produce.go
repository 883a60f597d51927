package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/sdk"
)

const produceHelp = `Send what comes from files, or from the standard input, to a topic: one record a line, or what
--null or --jsonl say. A minus sign is the standard input among files. What is sent again after
a lost connection is stored once.

A record that is wrong in itself, such as one that is too large or a line that is no record,
fails alone, and is told of by its file and line. After any other failure reading stops: what
follows is not sent. At the end stderr has the summary; with --output stdout has it too:

  sent 10000, appended 9998, duplicates 2, failed 0

  sent         records that were read, the sum of all others
  appended     stored by this command
  duplicates   stored too: an earlier attempt of this command had done it
  failed       not stored, and never will be
  unknown      nobody could say by the end; told only if there are any. Do not send them
               again: quoin producer resolve finds out what became of them, by tokens that
               stand before the summary, or in the file that --tokens names. A token holds
               the key of the producer that this command was: who has it can ask too

Exit code 0 says that every record is stored; 6 that some are, or that of some it is unknown;
130 that it was interrupted. When none is stored the code tells why: 3 that there is no such
topic, partition or file, 5 that the server could not be asked in time, else 1.`

// A produceOrder is what is to be sent, and how.
type produceOrder struct {
	from        remote
	topic       string
	input       inputForm
	partition   int
	compression string
	form        outputForm
	tokens      string
}

func produceCommand() *cobra.Command {
	var o produceOrder
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE...]",
		Short: "Send records to a topic",
		Long:  produceHelp,
		Example: "  quoin produce orders orders.txt --key-separator '\\t'\n" +
			"  quoin consume orders --exit-at-end -o json | quoin produce orders-copy --jsonl",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MinimumNArgs(1)(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topic, o.input.names, o.input.stdin = args[0], args[1:], cmd.InOrStdin()
			if o.partition < 0 && cmd.Flags().Changed("partition") {
				return usageError{fmt.Errorf("--partition %d: it must be 0 or more", o.partition)}
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.input.flags(f)
	f.IntVar(&o.partition, "partition", -1, "send everything to this partition; default: by the key")
	f.StringVar(&o.compression, "compression", "none", `"none", "snappy" or "zstd"`)
	f.StringVar(&o.tokens, "tokens", "", "if outcomes are unknown, write the tokens to this file and not to stderr")
	o.form.flags(f)
	f.Lookup("output").Usage = `print the summary on stdout too: as "table", "tsv" or "json"`
	o.from.streamFlags(f, "how long it may take to connect and, from then on, to deliver each record")
	return cmd
}

// Bounds of the timeout: what a producer takes.
const (
	leastTimeout = 10 * time.Millisecond
	mostTimeout  = 7 * 24 * time.Hour
)

func (o *produceOrder) check() (c sdk.Compression, err error) {
	for c = sdk.NoCompression; c.String() != o.compression; c++ {
		if c == sdk.Zstd {
			return c, usageError{fmt.Errorf("--compression %q: it must be none, snappy or zstd", o.compression)}
		}
	}
	if o.from.timeout < leastTimeout || o.from.timeout > mostTimeout {
		return c, usageError{fmt.Errorf("--timeout %v: it must be %v to %v", o.from.timeout, leastTimeout, mostTimeout)}
	}
	return c, errors.Join(topicArg(o.topic), o.input.check())
}

func (o *produceOrder) run(ctx context.Context, stdout, stderr io.Writer) error {
	compression, err := o.check()
	if err != nil {
		return err
	}
	summary, err := o.form.asked(stdout, "SENT", "APPENDED", "DUPLICATES", "FAILED", "UNKNOWN")
	if err != nil {
		return err
	}
	n := &notes{w: stderr}
	return o.from.stream(ctx, n, func(ctx context.Context, c *sdk.Client) error {
		b := c.Producer(o.topic).Idempotent().Compression(compression).DeliveryTimeout(o.from.timeout)
		if o.partition >= 0 {
			b.Partition(o.partition)
		}
		building, cancel := context.WithTimeout(ctx, o.from.timeout)
		defer cancel()
		p, err := b.Build(building)
		if err != nil {
			return err
		}
		d := newDeliveries(ctx, n)
		defer d.stop(nil)
		endProgress := func() {}
		if o.progress(stderr) {
			endProgress = d.showProgress()
		}
		readErr := o.sendAll(ctx, p, d)
		endProgress()
		reportErr := d.report(o.tokens, summary)
		return cmp.Or(d.verdict(ctx.Err() != nil, readErr), reportErr)
	})
}

// progress reports whether to show how far it is: to a person who does not type the records,
// on a terminal that can take a line back.
func (o *produceOrder) progress(stderr io.Writer) bool {
	typed := (len(o.input.names) == 0 || slices.Contains(o.input.names, "-")) && isTerminal(o.input.stdin)
	return isTerminal(stderr) && !typed && os.Getenv("TERM") != "dumb"
}

// sendAll sends the input and returns when every record has its outcome. The error is of
// the input. What is read and has no outcome yet is bounded by the buffer of the producer.
func (o *produceOrder) sendAll(ctx context.Context, p *sdk.Producer, d *deliveries) error {
	err := o.input.each(d.reading, func(at inputPlace, r sdk.Record, err error) {
		d.sent(1)
		if err == nil {
			err = p.SendAsync(d.reading, r, func(ack sdk.Ack, err error) { d.settle(at, ack, err) })
		}
		if err != nil {
			d.settle(at, sdk.Ack{}, err)
		}
	})
	p.Flush(ctx) // every record has a callback, which says more than this error
	parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingPatience)
	defer cancel()
	p.Close(parting) // likewise
	if d.reading.Err() != nil {
		return nil // reading was told to stop
	}
	return err
}

// report tells the tokens and the summary.
func (d *deliveries) report(tokens string, summary *listing) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if more := d.mu.faults - shownFaults; more > 0 {
		d.notes.printf("and %d more", more)
	}
	d.mu.Tokens = []string{}
	for _, t := range d.mu.tokens {
		d.mu.Tokens = append(d.mu.Tokens, t.String())
	}
	err := d.tellTokens(tokens)
	d.notes.printf("%v", d.mu.tally)
	if summary == nil {
		return err
	}
	t := d.mu.tally
	return errors.Join(err, summary.end(summary.row(t, decimal(t.Sent), decimal(t.Appended), decimal(t.Duplicates), decimal(t.Failed), decimal(t.Unknown))))
}

// tellTokens writes the tokens to a file that nobody else can read, or else to the notes: to
// lose them would be worse than to show them.
func (d *deliveries) tellTokens(name string) error {
	if len(d.mu.Tokens) == 0 {
		return nil
	}
	if name == "" {
		d.printTokens()
		return nil
	}
	text := strings.Join(d.mu.Tokens, "\n") + "\n"
	if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, 0o600)); err != nil {
		d.printTokens()
		return fmt.Errorf("write the tokens: %w", err)
	}
	d.notes.printf("the tokens of %d batches with an unknown outcome are in %s", len(d.mu.Tokens), name)
	return nil
}

func (d *deliveries) printTokens() {
	for i, t := range d.mu.tokens {
		d.notes.printf("unknown: %s/%d, sequences %s, token %s", t.Topic(), t.Partition(), span(t.First(), t.Last()), d.mu.Tokens[i])
	}
}
