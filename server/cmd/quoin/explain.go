package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/sdk"
)

const explainHelp = `Show the latest decisions of a partition about the batches of its producers, or of one of them,
the newest last: what each batch was, which row of the server's table of decisions it met,
and why. A partition remembers its latest 256 decisions, until the server stops. Times are
the server's, in UTC.

A dash, or null in JSON, is for what is not known. Exit code 3 says that there is no such
topic or partition, 5 that the server could not be asked. No decision is no error.`

// defaultDecisions fit on a screen.
const defaultDecisions = 20

func explainCommand() *cobra.Command {
	var from remote
	var form outputForm
	var most int
	cmd := &cobra.Command{
		Use:     "explain TOPIC/PARTITION [ID]",
		Short:   "Show why a partition answered its producers as it did",
		Long:    explainHelp,
		Example: "  quoin producer explain orders/0\n  quoin producer explain orders/0 17 -n 0 --json",
		Args:    rangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, partition, err := parsePartition(args[0], false)
			if err != nil {
				return err
			}
			id := uint64(0)
			if len(args) > 1 {
				if id, err = parseProducer(args[1]); err != nil {
					return err
				}
			}
			if most < 0 {
				return usageError{fmt.Errorf("--max %d: it must be 0 or more", most)}
			}
			list, err := form.listing(cmd.OutOrStdout(), "TIME", "PRODUCER", "EPOCH", "SEQUENCES", "ROW", "KIND", "OFFSET", "REASON")
			if err != nil {
				return err
			}
			return from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error {
				decisions, err := c.ExplainProducers(ctx, topic, partition, id, most)
				for i := 0; err == nil && i < len(decisions); i++ {
					err = explain(list, &decisions[i])
				}
				return list.end(err)
			})
		},
	}
	from.flags(cmd.Flags())
	form.flags(cmd.Flags())
	cmd.Flags().IntVarP(&most, "max", "n", defaultDecisions, "at most so many decisions, 0 for all that are remembered")
	return cmd
}

// A decisionObject is a decision in JSON. Its keys stay; reason and rule are for people.
type decisionObject struct {
	Time     string `json:"time"`
	Producer uint64 `json:"producer"`
	Epoch    uint32 `json:"epoch"`
	First    int64  `json:"first"`
	Last     int64  `json:"last"`
	Row      *int64 `json:"row"`
	Kind     string `json:"kind"`
	Offset   *int64 `json:"offset"`
	Reason   string `json:"reason"`
	Rule     string `json:"rule"`
}

func explain(list *listing, d *sdk.Decision) error {
	o := decisionObject{
		Time: d.Time.UTC().Format(timeLayout), Producer: d.ProducerID, Epoch: d.Epoch, First: d.First, Last: d.Last,
		Row: knownOrNull(int64(d.Row)), Kind: d.Kind, Offset: knownOrNull(d.Offset), Reason: d.Reason, Rule: rule(d.Row),
	}
	why := o.Reason
	if o.Rule != "" {
		why += ": " + o.Rule
	}
	return list.row(o, o.Time, strconv.FormatUint(d.ProducerID, 10), strconv.FormatUint(uint64(d.Epoch), 10),
		span(d.First, d.Last), known(int64(d.Row)), d.Kind, known(d.Offset), why)
}

// timeLayout is RFC 3339 with milliseconds, which is what the server has.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// rules are the rows of the server's table of decisions, as reasons.
var rules = [...]string{
	0:  "the producer is not in memory, and is searched for",
	1:  "the stream has lost its right to write: a newer instance or opening has it",
	2:  "a newer epoch must begin with sequence 0",
	3:  "a newer epoch begins with sequence 0",
	4:  "it is appended already, and not durable yet",
	5:  "it is one of the producer's newest batches",
	6:  "it overlaps what is stored, and is not the same",
	7:  "it is behind the newest batches, and was looked up in the log",
	8:  "nothing is left that could tell: it is of an older numbering, or damage may have hidden it",
	9:  "it follows on the last sequence",
	10: "something before it has not come yet",
	11: "the producer is new here, and begins with sequence 0",
	12: "the producer is not known here, may have been forgotten, and the log was asked for the batch",
}

// rule is empty for a row that this program does not know.
func rule(row int) string {
	if row < 0 || row >= len(rules) {
		return ""
	}
	return rules[row]
}
