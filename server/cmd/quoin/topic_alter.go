package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/sdk"
)

const topicAlterHelp = `Change what may be changed of a topic, all of it at once or nothing, and print the topic as
quoin topic list does once that is durable. What no flag names stays as it is. Who is connected
goes on, and is told.

--partitions can only grow: what is stored stays where it is, and fewer partitions would lose
records. Which partition a key belongs to depends on how many there are: with more of them many
keys belong to another one from then on. The records of such a key that were sent before and
after the change stand in two partitions, and no order holds between these. Where that matters
stop the producers, let the consumers come to the end, alter the topic, and go on.

--max-batch-bytes is for what comes from now on. What is stored stays, however large.

--strict-batch-version=true has readers refused at batches of a version that they do not know,
also those that read already; =false has them given these batches in a version that they know.
quoin topic describe says what its readers know.

The same values again are no error. Exit code 1 says that the server refuses, as it does for
fewer partitions, 3 that there is no such topic, 5 that the server could not be asked, or was
lost before its answer: then the topic may be altered or not, and it is safe to try again.`

// A topicAlteration is what is to be changed of a topic; of its values those hold that a flag
// has set.
type topicAlteration struct {
	partitions, maxBatch int
	strict               bool
}

func topicAlterCommand() *cobra.Command {
	var from remote
	var form outputForm
	var o topicAlteration
	cmd := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Change the partitions and settings of a topic",
		Long:  topicAlterHelp,
		Example: "  quoin topic alter orders --partitions 16\n" +
			"  quoin topic alter orders --strict-batch-version=false --max-batch-bytes 4194304",
		Args: alterArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			changes, err := o.changes(cmd.Flags().Changed)
			if err := errors.Join(topicArg(args[0]), err); err != nil {
				return err
			}
			list, err := form.listing(cmd.OutOrStdout(), topicHeader...)
			if err != nil {
				return err
			}
			return from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error {
				t, err := c.AlterTopic(ctx, args[0], changes...)
				if err != nil {
					return err
				}
				return list.end(printTopic(list, &t))
			})
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.partitions, "partitions", "p", 0, "how many partitions it shall have; never fewer than now")
	f.IntVar(&o.maxBatch, "max-batch-bytes", 0, maxBatchUsage)
	f.BoolVar(&o.strict, strictFlag, false, "refuse readers at batches of a version that they do not know; =false to convert for them")
	f.Lookup(strictFlag).DefValue = "" // what it has now
	cmd.RegisterFlagCompletionFunc(strictFlag, cobra.FixedCompletions([]string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp))
	from.flags(f)
	form.flags(f)
	return cmd
}

const strictFlag = "strict-batch-version"

// alterArgs is exactArgs(1), and knows the mistake of a blank in front of what a flag of yes
// or no is set to.
func alterArgs(cmd *cobra.Command, args []string) error {
	err := exactArgs(1)(cmd, args)
	if err != nil && len(args) == 2 && (args[1] == "true" || args[1] == "false") && cmd.Flags().Changed(strictFlag) {
		return usageError{fmt.Errorf("write --%s=%s", strictFlag, args[1])}
	}
	return err
}

// changes reports everything that is wrong with the order; set says which flags were given.
func (o *topicAlteration) changes(set func(flag string) bool) (changes []sdk.TopicChange, err error) {
	if set("partitions") {
		err = errors.Join(err, partitionsFlag(o.partitions))
		changes = append(changes, sdk.SetPartitions(o.partitions))
	}
	if set("max-batch-bytes") {
		err = errors.Join(err, maxBatchFlag(o.maxBatch))
		changes = append(changes, sdk.SetMaxBatchBytes(o.maxBatch))
	}
	if set(strictFlag) {
		changes = append(changes, sdk.SetStrictBatchVersion(o.strict))
	}
	if len(changes) == 0 {
		err = usageError{errors.New("nothing is to be changed: give --partitions, --max-batch-bytes or --" + strictFlag)}
	}
	return changes, err
}
