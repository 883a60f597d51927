package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/internal/catalog"
)

func topicCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "topic", Short: "Create, list, describe, alter and delete topics", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(topicCreateCommand(), topicListCommand(), topicDescribeCommand(), topicAlterCommand(), topicDeleteCommand())
	return cmd
}

// topicArg checks the name of a topic before anybody is asked about it.
func topicArg(name string) error {
	if err := catalog.CheckTopicName(name); err != nil {
		return usageError{fmt.Errorf("%q: %w", name, err)}
	}
	return nil
}

const createHelp = `Create a topic, and print it as quoin topic list does once it is durable.

A reader of an older release may not know the version of a batch. It is given such a batch in
a version that it knows: the same records at the same offsets, without what says who sent them.
With --strict-batch-version it is refused at such a batch instead.

Exit code 1 says that the server refuses, as it does when there is such a topic already, 5
that the server could not be asked, or was lost before its answer: then the topic may exist
or not.`

func topicCreateCommand() *cobra.Command {
	var from remote
	var form outputForm
	var options sdk.TopicOptions
	cmd := &cobra.Command{
		Use:     "create TOPIC",
		Short:   "Create a topic",
		Long:    createHelp,
		Example: "  quoin topic create orders --partitions 8",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := topicArg(args[0]); err != nil {
				return err
			}
			if err := errors.Join(partitionsFlag(options.Partitions), maxBatchFlag(options.MaxBatchBytes)); err != nil {
				return err
			}
			list, err := form.listing(cmd.OutOrStdout(), topicHeader...)
			if err != nil {
				return err
			}
			return from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error {
				t, err := c.CreateTopic(ctx, args[0], options)
				if err != nil {
					return err
				}
				return list.end(printTopic(list, &t))
			})
		},
	}
	cmd.Flags().IntVarP(&options.Partitions, "partitions", "p", 1, "how many partitions it has")
	cmd.Flags().IntVar(&options.MaxBatchBytes, "max-batch-bytes", 0, maxBatchUsage)
	cmd.Flags().BoolVar(&options.StrictBatchVersion, "strict-batch-version", false, "refuse readers at batches of a version that they do not know")
	from.flags(cmd.Flags())
	form.flags(cmd.Flags())
	return cmd
}

const maxBatchUsage = "bytes of the largest batch it takes, 0 for the server's default"

// partitionsFlag refuses a number of partitions that cannot be asked for. The server has a
// limit of its own.
func partitionsFlag(n int) error {
	switch {
	case n < 1:
		return usageError{fmt.Errorf("--partitions %d: it must be 1 or more", n)}
	case n > math.MaxInt32:
		return usageError{fmt.Errorf("--partitions %d: that are too many", n)}
	}
	return nil
}

// maxBatchFlag refuses a limit that no topic can have; 0 is the server's default.
func maxBatchFlag(n int) error {
	if n < 0 || n > batchfmt.MaxBatchBytes {
		return usageError{fmt.Errorf("--max-batch-bytes %d: it must be 0 to %d", n, batchfmt.MaxBatchBytes)}
	}
	return nil
}

const topicListHelp = `List all topics by name. RECORDS counts the offsets that are kept; those of damaged records are
among them. STOPPED is how many partitions take no writes; quoin topic describe says why. STRICT
says whether readers are refused at batches of a version that they do not know.

Exit code 5 says that the server could not be asked. No topic is no error.`

func topicListCommand() *cobra.Command {
	var from remote
	var form outputForm
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all topics",
		Long:  topicListHelp,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := form.listing(cmd.OutOrStdout(), topicHeader...)
			if err != nil {
				return err
			}
			return from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error {
				topics, err := c.ListTopics(ctx)
				for i := 0; err == nil && i < len(topics); i++ {
					err = printTopic(list, &topics[i])
				}
				return list.end(err)
			})
		},
	}
	from.flags(cmd.Flags())
	form.flags(cmd.Flags())
	return cmd
}

const topicDeleteHelp = `Delete a topic with all that is in it. On a terminal that is asked about first; elsewhere it
needs --yes. That it is deleted is told on stderr; with --output stdout has it too.

Exit code 3 says that there is no such topic, 5 that the server could not be asked, or was
lost before its answer: then the topic may exist or not.`

func topicDeleteCommand() *cobra.Command {
	var from remote
	var form outputForm
	var yes bool
	cmd := &cobra.Command{
		Use:     "delete TOPIC",
		Short:   "Delete a topic with all that is in it",
		Long:    topicDeleteHelp,
		Example: "  quoin topic delete orders --yes",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := topicArg(args[0]); err != nil {
				return err
			}
			summary, err := form.asked(cmd.OutOrStdout(), "TOPIC", "DELETED")
			if err != nil {
				return err
			}
			if err := mayDelete(cmd, args[0], yes); err != nil {
				return err
			}
			err = from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error { return c.DeleteTopic(ctx, args[0]) })
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "deleted %s\n", args[0])
			if summary == nil {
				return nil
			}
			return summary.end(summary.row(deletedObject{args[0], true}, args[0], "true"))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	from.flags(cmd.Flags())
	form.flags(cmd.Flags())
	cmd.Flags().Lookup("output").Usage = `print what was deleted on stdout too: as "table", "tsv" or "json"`
	return cmd
}

// A deletedObject says in JSON that a topic is gone. Its keys stay.
type deletedObject struct {
	Topic   string `json:"topic"`
	Deleted bool   `json:"deleted"`
}

// mayDelete asks on a terminal; nobody is asked elsewhere.
func mayDelete(cmd *cobra.Command, topic string, yes bool) error {
	switch {
	case yes:
		return nil
	case !isTerminal(cmd.InOrStdin()):
		return usageError{errors.New("delete needs --yes where nobody can be asked")}
	}
	in := bufio.NewReader(io.LimitReader(interruptible(cmd.Context(), cmd.InOrStdin()), maxInput))
	ok, err := confirmed(cmd.ErrOrStderr(), in, fmt.Sprintf("Delete %s and all that is in it?", topic))
	if err == nil && !ok {
		err = errors.New("not deleted: the answer was not yes")
	}
	return err
}
