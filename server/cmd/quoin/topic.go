package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/internal/catalog"
)

func topicCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "topic", Short: "Create, list, describe and delete topics", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(topicCreateCommand(), topicListCommand(), topicDescribeCommand(), topicDeleteCommand())
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
			if options.Partitions < 1 {
				return usageError{fmt.Errorf("--partitions %d: it must be 1 or more", options.Partitions)}
			}
			if n := options.MaxBatchBytes; n < 0 || n > batchfmt.MaxBatchBytes {
				return usageError{fmt.Errorf("--max-batch-bytes %d: it must be 0 to %d", n, batchfmt.MaxBatchBytes)}
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
	cmd.Flags().IntVar(&options.MaxBatchBytes, "max-batch-bytes", 0, "bytes of the largest batch it takes, 0 for the server's default")
	from.flags(cmd.Flags())
	form.flags(cmd.Flags())
	return cmd
}

const topicListHelp = `List all topics by name. RECORDS counts the offsets that are kept; those of damaged records are
among them. STOPPED is how many partitions take no writes; quoin topic describe says why.

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

const topicDescribeHelp = `Show a topic and its partitions, each with the offsets it keeps, from the oldest up to the one
that the next record gets, its bytes on disk, and why it takes no writes if it does not.

Exit code 3 says that there is no such topic, 5 that the server could not be asked.`

func topicDescribeCommand() *cobra.Command {
	var from remote
	var form outputForm
	cmd := &cobra.Command{
		Use:   "describe TOPIC",
		Short: "Show a topic and its partitions",
		Long:  topicDescribeHelp,
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := topicArg(args[0]); err != nil {
				return err
			}
			list, err := form.listing(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error {
				t, err := c.DescribeTopic(ctx, args[0])
				if err != nil {
					return err
				}
				return list.end(describeTopic(list, &t))
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
			summary, err := form.summary(cmd.OutOrStdout(), "TOPIC", "DELETED")
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

// A topicObject is a topic in JSON. Its keys stay.
type topicObject struct {
	Topic         string            `json:"topic"`
	ID            string            `json:"id"`
	Created       string            `json:"created"`
	MaxBatchBytes int               `json:"max_batch_bytes"`
	Partitions    []partitionObject `json:"partitions"`
}

type partitionObject struct {
	Partition int     `json:"partition"`
	Start     int64   `json:"start"`
	End       int64   `json:"end"` // the offset that the next record gets
	Bytes     int64   `json:"bytes"`
	Error     *string `json:"error"` // for people
}

func objectOf(t *sdk.Topic) topicObject {
	o := topicObject{Topic: t.Name, ID: hex.EncodeToString(t.ID[:]), Created: t.Created.UTC().Format(timeLayout),
		MaxBatchBytes: t.MaxBatchBytes, Partitions: []partitionObject{}}
	for i, p := range t.Partitions {
		part := partitionObject{Partition: i, Start: p.LogStart, End: p.HighWatermark, Bytes: p.Bytes}
		if p.Err != nil {
			text := p.Err.Error()
			part.Error = &text
		}
		o.Partitions = append(o.Partitions, part)
	}
	return o
}

var topicHeader = []string{"TOPIC", "PARTITIONS", "RECORDS", "BYTES", "STOPPED", "MAX-BATCH-BYTES", "CREATED", "ID"}

func printTopic(list *listing, t *sdk.Topic) error {
	o := objectOf(t)
	var records, bytes, stopped int64
	for _, p := range o.Partitions {
		records += p.End - p.Start
		bytes += p.Bytes
		if p.Error != nil {
			stopped++
		}
	}
	return list.row(o, o.Topic, strconv.Itoa(len(o.Partitions)), decimal(records), decimal(bytes), decimal(stopped),
		strconv.Itoa(o.MaxBatchBytes), o.Created, o.ID)
}

// describeTopic prints a line for each field, and one for each partition.
func describeTopic(list *listing, t *sdk.Topic) error {
	o := objectOf(t)
	if list.json != nil {
		return list.row(o)
	}
	rows := [][2]string{{"topic", o.Topic}, {"id", o.ID}, {"created", o.Created},
		{"max batch bytes", strconv.Itoa(o.MaxBatchBytes)}, {"partitions", strconv.Itoa(len(o.Partitions))}}
	for _, p := range o.Partitions {
		text := fmt.Sprintf("start %d, end %d, %d bytes", p.Start, p.End, p.Bytes)
		if p.Error != nil {
			text += ", takes no writes: " + *p.Error
		}
		rows = append(rows, [2]string{"partition " + strconv.Itoa(p.Partition), text})
	}
	for _, row := range rows {
		if err := list.row(nil, row[0], row[1]); err != nil {
			return err
		}
	}
	return nil
}
