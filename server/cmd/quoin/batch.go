package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

func batchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "batch", Short: "Look at batches", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(dumpCommand())
	return cmd
}

func dumpCommand() *cobra.Command {
	var offset int64
	var most int
	cmd := &cobra.Command{
		Use:   "dump FILE",
		Short: "Print batches field by field",
		Long: "Print the batches of a file, a segment of a log or the bare bytes of batches, field by field. Batches\n" +
			"that are damaged or cut off are printed as far as they go, with what is wrong; then it goes on at the\n" +
			"next bytes that look like a batch. The file may be in use.",
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := os.ReadFile(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return notFoundError{err}
			}
			if err != nil {
				return err
			}
			return dumpBatches(cmd.OutOrStdout(), b, offset, most)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&offset, "offset", -1, "only the batch that holds this offset")
	f.IntVarP(&most, "max", "n", 0, "at most so many batches, 0 for all")
	return cmd
}

// dumpBatches prints what b holds. It is an error if nothing in it is asked for.
func dumpBatches(w io.Writer, b []byte, offset int64, most int) error {
	pos := 0
	if seglog.IsSegment(b) {
		pos = seglog.SegmentHeaderBytes
	}
	printed := 0
	for pos < len(b) && (most == 0 || printed < most) {
		rest := b[pos:]
		if len(bytes.TrimLeft(rest, "\x00")) == 0 {
			break // the part of the active segment that is filled ahead
		}
		size, holds := measure(rest, offset)
		if holds {
			if _, err := fmt.Fprintf(w, "batch at byte %d\n%s\n", pos, batchfmt.Dump(rest[:size])); err != nil {
				return err
			}
			printed++
		}
		pos += size
	}
	if printed == 0 {
		return notFoundError{errors.New("no such batch in the file")}
	}
	return nil
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
