package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func logCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look at stored logs without a server", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(verifyCommand())
	return cmd
}

const verifyHelp = `Check a data directory, or the directory of one partition: every checksum of every batch, that
offsets follow on and terms never fall, indexes, what is kept of producers (snapshots, those
that have left memory, and where their batches stand), the catalog, and that the topics in
the catalog and the directories are the same. It says what is wrong and where. Nothing is
changed, files are opened for reading only, and no server may have them open.

A line for each finding goes to stdout. What the server mends by itself, at the next start
after a kill (a torn end that was never acknowledged, files half made) or at the next use (an
index of producers), is told and is no failure; nor is what it has put aside as damaged, nor
are files that are none of ours, which nothing reads. How much was verified, and a count of
the findings, go to stderr.

With --output each finding is a row or an object. TYPE is "finding". GRADE says what it means:

  wrong    something stored is damaged or missing, or a file does not verify
  mended   the server mends it by itself, at its next start or at the next use
  aside    it was damaged, and the server has dealt with it
  stray    it is none of ours, and nothing reads it

KIND is what it is, in a word or two: "damage", "index", "leftover". PATH counts from the data
directory; for what is about a part of a file BYTE is where that stands, and the records from
offset FROM to below NEXT are concerned. With --list there is a row for each file that holds
data, too: its TYPE is "file", KIND its kind, and BYTES its size.

Exit code 7 says that there are findings of the grade wrong, 3 that there is no such directory.`

func verifyCommand() *cobra.Command {
	var list bool
	var form outputForm
	cmd := &cobra.Command{
		Use:     "verify DIR",
		Short:   "Check every byte of a data directory",
		Long:    verifyHelp,
		Example: "  quoin log verify /var/lib/quoin\n  quoin log verify /var/lib/quoin -o json --list",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := form.asked(cmd.OutOrStdout(), findingHeader...)
			if err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			switch {
			case err != nil:
				return missing(err)
			case !info.IsDir():
				return usageError{fmt.Errorf("%s is no directory", args[0])}
			}
			v := verification{out: findingPrinter{w: cmd.OutOrStdout(), list: rows}, note: cmd.ErrOrStderr(), list: list}
			return v.run(args[0])
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "also list the files that hold data: path, bytes, kind")
	form.flags(cmd.Flags())
	cmd.Flags().Lookup("output").Usage = `print findings as "table", "tsv" or "json", which is one object a line, instead of a sentence each`
	return cmd
}

// rangeArgs refuses a number of arguments out of a range as a mistake in usage.
func rangeArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.RangeArgs(least, most)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// exactArgs refuses another number of arguments as a mistake in usage.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// errVerification is what ends a verification that found something wrong.
var errVerification = errors.New("verification failed")
