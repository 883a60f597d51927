package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

func batchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "batch", Short: "Look at batches", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(dumpCommand())
	return cmd
}

const dumpHelp = `Print batches field by field, and say of each that does not verify what is wrong and where.

FILE is a segment of a log or the bare bytes of batches. All batches in it are printed, or
those that --offset and --max leave. Bytes that are no batch are printed as far as they make
sense; then it goes on at the next bytes that look like one.

TOPIC/PARTITION@OFFSET is the batch that holds this offset in a data directory (--data), with
the control batches that stand in front of it; --max 3 prints that batch and two more, --max 0
all up to the end of the log. TOPIC is a name or, where the catalog cannot be read, the id
after which the directory of the topic is called. The batch is found by going through the
segment, whatever state the indexes are in. If a server has the data directory open it is
asked for the id of the topic, and for nothing else: the one of --url, else the one that has
announced itself on this machine.

A path that exists is a FILE. Write ./orders/0@42 for a file that is called so.

With --output each batch is a row or an object, and so is what stands where one should be: ERROR
says why, or is a dash, or null in JSON, for what verifies. With -o json, --records adds the
records of each batch, as far as they can be read; keys, values and headers are as quoin consume
prints them.

Files are only read, and may be in use. Exit code 3 says that there is no such file, topic,
partition or offset, 5 that the server could not be asked, 7 that something that was printed,
or should have been there, does not verify.`

// A dumpOrder is what is to be printed.
type dumpOrder struct {
	data, url string
	offset    int64 // of a file: only the batch that holds it; negative for all
	most      int   // batches, 0 for all
	form      outputForm
	records   bool // in JSON too
}

func dumpCommand() *cobra.Command {
	var o dumpOrder
	cmd := &cobra.Command{
		Use:   "dump FILE|TOPIC/PARTITION@OFFSET",
		Short: "Print batches field by field",
		Long:  dumpHelp,
		Example: "  quoin batch dump orders/0@42 --data /var/lib/quoin\n" +
			"  quoin batch dump --offset 42 quoin-data/topics/*/0/00000000000000000000.seg\n" +
			"  quoin batch dump orders/0@0 -n 0 -o json --records",
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.most < 0 {
				return usageError{fmt.Errorf("--max %d: it must be 0 or more", o.most)}
			}
			p, err := o.printer(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			at, isFile, err := parseTarget(args[0])
			switch {
			case err != nil:
				return err
			case isFile:
				return p.end(dumpFile(p, args[0], o))
			case cmd.Flags().Changed("offset"):
				return usageError{fmt.Errorf("%s names the offset already: --offset is for files", at)}
			case !cmd.Flags().Changed("max"):
				o.most = 1
			}
			return p.end(dumpPlace(cmd.Context(), p, at, o))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", envOr("QUOIN_DATA", server.DefaultData), "data directory of the topic (QUOIN_DATA)")
	f.StringVar(&o.url, "url", os.Getenv("QUOIN_URL"), "of the server that has the data directory open (QUOIN_URL); default: the one that announced itself")
	f.Int64Var(&o.offset, "offset", -1, "of a file: only the batch that holds this offset")
	f.IntVarP(&o.most, "max", "n", 0, "at most so many batches, 0 for all; default: all of a file, one at an offset")
	f.BoolVar(&o.records, "records", false, "with --output json: the records of each batch, too")
	o.form.flags(f)
	f.Lookup("output").Usage = `a batch is a row of a "table", of "tsv", or in "json" an object a line; default: field by field`
	return cmd
}

// dumpFile prints what a file holds. It is an error if nothing in it is asked for.
func dumpFile(p *dumpPrinter, name string, o dumpOrder) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return missing(err)
	}
	pos := 0
	if seglog.IsSegment(b) {
		pos = seglog.SegmentHeaderBytes
	}
	printed := 0
	var faults faultList
	for pos < len(b) && (o.most == 0 || printed < o.most) {
		rest := b[pos:]
		if len(bytes.TrimLeft(rest, "\x00")) == 0 {
			break // the part of the active segment that is filled ahead
		}
		size, holds := measure(rest, o.offset)
		if holds {
			fault := p.check(rest[:size])
			if err := p.printInFile(name, pos, rest[:size], fault); err != nil {
				return err
			}
			if fault != nil {
				faults.add("%s, byte %d: %v", name, pos, fault)
			}
			printed++
		}
		pos += size
	}
	if printed == 0 {
		return notFoundError{fmt.Errorf("%s: no such batch in the file", name)}
	}
	return faults.err()
}

// measure says how many bytes belong to the batch at the start of b, at least one, and
// whether it is one that is asked for. Bytes that are no batch reach up to what looks
// like the next one.
func measure(b []byte, offset int64) (size int, holds bool) {
	batch, err := batchfmt.Parse(b)
	if err == nil {
		in := batchfmt.Offset(offset) >= batch.BaseOffset() && batchfmt.Offset(offset) < batch.NextOffset()
		return batch.Size(), offset < 0 || in
	}
	next := bytes.Index(b[1:], []byte("QBF"))
	if next < 0 {
		return len(b), offset < 0
	}
	return next + 1, offset < 0
}

// A faultList ends a command that has printed what does not verify.
type faultList struct {
	first string
	more  int
}

func (l *faultList) add(format string, args ...any) {
	if l.first != "" {
		l.more++
		return
	}
	l.first = fmt.Sprintf(format, args...)
}

func (l *faultList) err() error {
	switch {
	case l.first == "":
		return nil
	case l.more == 0:
		return fmt.Errorf("%w: %s", errVerification, l.first)
	}
	return fmt.Errorf("%w: %s; and %d more", errVerification, l.first, l.more)
}
