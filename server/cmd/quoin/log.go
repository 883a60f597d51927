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
are files that are none of ours, which nothing reads. Exit code 7 says that something that was
stored is damaged or missing, or that a file which should verify does not.`

func verifyCommand() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every byte of a data directory",
		Long:  verifyHelp,
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			switch {
			case err != nil:
				return missing(err)
			case !info.IsDir():
				return usageError{fmt.Errorf("%s is no directory", args[0])}
			}
			v := verification{out: cmd.OutOrStdout(), note: cmd.ErrOrStderr(), list: list}
			return v.run(args[0])
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "also list the files that hold data: path, bytes, kind")
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
