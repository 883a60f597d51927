package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/partition"
	"github.com/quoin-io/quoin/server/internal/seglog"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func logCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look at stored logs without a server", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(verifyCommand())
	return cmd
}

func verifyCommand() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every byte of a data directory",
		Long: "Check every checksum, offset, index and snapshot in a data directory, or in the directory of one\n" +
			"partition, and say what is wrong and where. Nothing is changed, and no server may have it open.\n\n" +
			"A line for each finding goes to stdout. What a start of the server mends by itself after a kill (a torn\n" +
			"end that was never acknowledged, files half made) is told and is no failure. Exit code 7 says that\n" +
			"something that was stored is damaged, or that a file which should verify does not.",
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := verification{out: cmd.OutOrStdout(), note: cmd.ErrOrStderr(), list: list}
			return v.run(args[0])
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "also list the files that hold data, with their sizes")
	return cmd
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

// A verification goes through a data directory.
type verification struct {
	out, note io.Writer
	list      bool

	partitions, wrong, mended int
	batches, records          int64
}

func (v *verification) run(dir string) error {
	inUse, err := catalog.InUse(dir)
	switch {
	case err != nil:
		return err
	case inUse:
		return fmt.Errorf("a server has %s open: stop it first", dir)
	}
	dirs, err := partitionDirs(dir)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := v.partition(dir, d); err != nil {
			return err
		}
	}
	fmt.Fprintf(v.note, "%d partitions, %d batches, %d records: %d findings, %d more that a start mends\n",
		v.partitions, v.batches, v.records, v.wrong, v.mended)
	if v.wrong > 0 {
		return errVerification
	}
	return nil
}

// partitionDirs lists the partitions of a data directory as paths, or dir itself if it
// is one.
func partitionDirs(dir string) ([]string, error) {
	if segments, err := filepath.Glob(filepath.Join(dir, "*.seg")); err != nil || len(segments) > 0 {
		return []string{dir}, err
	}
	topics, err := os.ReadDir(filepath.Join(dir, "topics"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return nil, notFoundError{err}
		}
		return nil, nil // a data directory without a topic
	}
	if err != nil {
		return nil, err
	}
	var all []string
	for _, topic := range topics {
		names, err := os.ReadDir(filepath.Join(dir, "topics", topic.Name()))
		if err != nil {
			return nil, err
		}
		slices.SortFunc(names, func(a, b fs.DirEntry) int { return number(a.Name()) - number(b.Name()) })
		for _, n := range names {
			all = append(all, filepath.Join(dir, "topics", topic.Name(), n.Name()))
		}
	}
	return all, nil
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // other names come first; they are no partitions of ours
	return n
}

func (v *verification) partition(root, dir string) error {
	name, err := filepath.Rel(root, dir)
	if err != nil || name == "." {
		name = filepath.Base(dir)
	}
	v.partitions++
	report, err := seglog.Verify(vfs.OS, dir, func(f seglog.Finding) {
		mends := f.Kind == seglog.FoundTorn || f.Kind == seglog.FoundLeftover
		v.found(mends, "%s: %v", name, f)
	})
	if err != nil {
		return err
	}
	snapshots, bad, err := partition.VerifySnapshots(vfs.OS, dir, report.End)
	if err != nil {
		return err
	}
	for _, b := range bad {
		v.found(false, "%s: snapshot: %s: %s", name, b.File, b.Reason)
	}
	v.batches += report.Batches
	v.records += report.Records
	if v.list {
		v.files(name, report, snapshots)
	}
	return nil
}

func (v *verification) found(mends bool, format string, args ...any) {
	if mends {
		v.mended++
	} else {
		v.wrong++
	}
	fmt.Fprintf(v.out, format+"\n", args...)
}

// files lists what holds data, tab-separated: path, bytes, what it is.
func (v *verification) files(name string, report seglog.Report, snapshots int) {
	for _, f := range report.Files {
		role := f.Role
		if role == "" && strings.HasSuffix(f.Name, ".snap") && snapshots > 0 {
			role = "snapshot"
		}
		if role != "" && role != "leftover" {
			fmt.Fprintf(v.out, "%s\t%d\t%s\n", filepath.Join(name, f.Name), f.Bytes, role)
		}
	}
}
