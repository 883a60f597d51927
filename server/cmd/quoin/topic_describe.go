package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
)

const topicDescribeHelp = `Show a topic and its partitions, each with the offsets it keeps, from the oldest up to the one
that the next record gets, its bytes on disk, and why it takes no writes if it does not.

  strict batch version  true: a reader is refused at a batch of a version that it does not
                        know; false: it is given the batch in a version that it knows, the same
                        records at the same offsets without what says who sent them
  batch versions        of the batches that the topic holds: 1 is plain, 2 says who sent it;
                        "none" when there is no batch, a dash when the server does not know
  readers               how many partitions are being read now; one that several read counts
                        for each of them
  readers know          the newest batch version that every one of these readers can read. As
                        long as it is 1 some reader is of a release that knows no version 2:
                        upgrade it before producers that are idempotent write to a strict topic

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

// A topicObject is a topic in JSON. Its keys stay.
type topicObject struct {
	Topic         string            `json:"topic"`
	ID            string            `json:"id"`
	Created       string            `json:"created"`
	MaxBatchBytes int               `json:"max_batch_bytes"`
	Strict        bool              `json:"strict_batch_version"`
	Readers       int               `json:"readers"`
	ReadersKnow   *int              `json:"readers_know"` // the newest version that all can read; null without one
	Partitions    []partitionObject `json:"partitions"`
}

// A describedObject is a topic with what the server looks for only when it describes one.
type describedObject struct {
	topicObject
	BatchVersions []int `json:"batch_versions"`         // null when the server does not know
	Partial       bool  `json:"batch_versions_partial"` // there may be others in a partition that cannot be looked at
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
		MaxBatchBytes: t.MaxBatchBytes, Strict: t.StrictBatchVersion, Readers: t.Readers, Partitions: []partitionObject{}}
	if t.ReadersKnow > 0 {
		o.ReadersKnow = &t.ReadersKnow
	}
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

func describedObjectOf(t *sdk.Topic) describedObject {
	o := describedObject{objectOf(t), t.BatchVersions, t.VersionsPartial}
	if len(o.BatchVersions) == 0 && !o.Partial && o.records() == 0 && o.stopped() == 0 {
		o.BatchVersions = []int{} // it is known that there are none
	}
	return o
}

var topicHeader = []string{"TOPIC", "PARTITIONS", "RECORDS", "BYTES", "STOPPED", "MAX-BATCH-BYTES", "CREATED", "ID", "STRICT"}

func printTopic(list *listing, t *sdk.Topic) error {
	o := objectOf(t)
	var bytes int64
	for _, p := range o.Partitions {
		bytes += p.Bytes
	}
	return list.row(o, o.Topic, strconv.Itoa(len(o.Partitions)), decimal(o.records()), decimal(bytes), decimal(o.stopped()),
		strconv.Itoa(o.MaxBatchBytes), o.Created, o.ID, strconv.FormatBool(o.Strict))
}

// records counts the offsets that are kept.
func (o *topicObject) records() (n int64) {
	for _, p := range o.Partitions {
		n += p.End - p.Start
	}
	return n
}

// stopped counts the partitions that take no writes.
func (o *topicObject) stopped() (n int64) {
	for _, p := range o.Partitions {
		if p.Error != nil {
			n++
		}
	}
	return n
}

// describeTopic prints a line for each field, and one for each partition.
func describeTopic(list *listing, t *sdk.Topic) error {
	o := describedObjectOf(t)
	if list.json != nil {
		return list.row(o)
	}
	rows := [][2]string{{"topic", o.Topic}, {"id", o.ID}, {"created", o.Created},
		{"max batch bytes", strconv.Itoa(o.MaxBatchBytes)}, {"strict batch version", strconv.FormatBool(o.Strict)},
		{"batch versions", o.versions()}, {"readers", strconv.Itoa(o.Readers)}, {"readers know", readersKnow(t)},
		{"partitions", strconv.Itoa(len(o.Partitions))}}
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

// versions is empty when the server does not know what the topic holds.
func (o *describedObject) versions() string {
	if o.BatchVersions != nil && len(o.BatchVersions) == 0 {
		return "none"
	}
	texts := make([]string, len(o.BatchVersions))
	for i, v := range o.BatchVersions {
		texts[i] = strconv.Itoa(v)
	}
	if o.Partial && len(texts) > 0 {
		texts = append(texts, "maybe others: not every partition could be looked at")
	}
	return strings.Join(texts, ", ")
}

// readersKnow says for an operator what the readers of a topic can read. First match wins.
//
//	nobody reads
//	they have no version in common     they are refused, or given another version, one by one
//	all know the newest version        nothing is converted, and nobody refused
//	the topic is strict                some are refused at batches of that version
//	otherwise                          some are given them in a version that they know
func readersKnow(t *sdk.Topic) string {
	const newest = int(batchfmt.Version2)
	switch know := t.ReadersKnow; {
	case t.Readers == 0:
		return "no reader is connected"
	case know == 0:
		return "no version that every connected reader can read"
	case know >= newest:
		return fmt.Sprintf("version %d: every connected reader can read it", know)
	case t.StrictBatchVersion:
		return fmt.Sprintf("version %d: not every connected reader can read version %d, and those that cannot are refused at it", know, newest)
	default:
		return fmt.Sprintf("version %d: not every connected reader can read version %d, and it is converted for those that cannot", know, newest)
	}
}
