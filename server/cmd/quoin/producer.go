package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/sdk"
)

func producerCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "producer", Short: "See what partitions know of producers, and why they answered as they did", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(producerListCommand(), producerDescribeCommand(), explainCommand(), resolveCommand())
	return cmd
}

const lanesHelp = `
  epoch      the lowest that new batches may have
  L          the last sequence that was appended
  floor      the first sequence of the present numbering
  window     how many of the newest batches are remembered one by one
  in flight  how many of these are not durable yet
  confirmed  up to which sequence the producer has the outcome of every record
  idle       since nobody used it, while the server ran
  opening    number of its newest opening since the server started
  state      open: a stream has it open; closed: the producer writes no more; suspect: damage
             to the log may have hidden batches of it; retired: it had left memory

A dash, or null in JSON, is for what is not there or not known.`

const listHelp = `List the producers that the partitions of a topic, or one of them, have in memory, by id. How
many more have left memory is told on stderr; quoin producer describe finds each. A partition
that has no answer within 3 s is named on stderr, and the others are listed.
` + lanesHelp + `

Exit code 3 says that there is no such topic or partition, 5 that the server could not be
asked or has not answered, 6 that some partitions of the topic could not tell.`

func producerListCommand() *cobra.Command {
	var from remote
	var form outputForm
	cmd := &cobra.Command{
		Use:     "list TOPIC[/PARTITION]",
		Short:   "List the producers of a topic or a partition",
		Long:    listHelp,
		Example: "  quoin producer list orders\n  quoin producer list orders/0 --json",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, partition, err := parsePartition(args[0], true)
			if err != nil {
				return err
			}
			list, err := form.listing(cmd.OutOrStdout(), "PARTITION", "PRODUCER", "NAME", "EPOCH", "L", "FLOOR",
				"WINDOW", "IN-FLIGHT", "CONFIRMED", "IDLE", "OPENING", "STATE")
			if err != nil {
				return err
			}
			return from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error {
				l := laneList{topic: topic, list: list, note: cmd.ErrOrStderr(), describe: c.DescribeProducers}
				if partition >= 0 {
					return list.end(l.run(ctx, partition, partition+1))
				}
				described, err := c.DescribeTopic(ctx, topic)
				if err != nil {
					return err
				}
				return list.end(l.run(ctx, 0, len(described.Partitions)))
			})
		},
	}
	from.flags(cmd.Flags())
	form.flags(cmd.Flags())
	return cmd
}

// A laneList goes through partitions of a topic.
type laneList struct {
	topic    string
	list     *listing
	note     io.Writer
	describe func(ctx context.Context, topic string, partition int) (sdk.PartitionProducers, error)

	lanes     int
	retired   int64
	forgotten uint64 // the highest id that may be forgotten somewhere
}

// run lists the partitions [from, to). It goes on behind one that cannot tell: the others
// can.
func (l *laneList) run(ctx context.Context, from, to int) error {
	var first error
	failed := 0
	for n := from; n < to; n++ {
		err := l.partition(ctx, n)
		if err == nil {
			continue
		}
		if !ofPartition(ctx, err) {
			return err
		}
		if failed++; to-from > 1 {
			fmt.Fprintf(l.note, "partition %d: %v\n", n, err)
		}
		first = cmp.Or(first, err)
	}
	if failed == to-from {
		return first
	}
	text := fmt.Sprintf("%d producers in memory, %d retired", l.lanes, l.retired)
	if l.forgotten > 0 {
		text += fmt.Sprintf("; of those with ids up to %d some may be forgotten", l.forgotten)
	}
	fmt.Fprintln(l.note, text)
	if failed > 0 {
		return partialError{fmt.Errorf("%d of %d partitions could not tell", failed, to-from)}
	}
	return nil
}

// ofPartition reports whether an error says nothing of the other partitions, and there is time
// for them: the server has refused, or this one has not answered in its time.
func ofPartition(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.As(err, new(*sdk.ServerError)) || errors.Is(err, context.DeadlineExceeded))
}

// partitionPatience is how long one partition of a list may take to answer, and is asked again
// while it refuses for the moment: it may do so for hours, and there are others.
const partitionPatience = 3 * time.Second

func (l *laneList) partition(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, partitionPatience)
	defer cancel()
	all, err := l.describe(ctx, l.topic, n)
	if err != nil {
		return err
	}
	l.lanes += len(all.Lanes)
	l.retired += all.Retired
	l.forgotten = max(l.forgotten, all.ForgottenUpTo)
	for i := range all.Lanes {
		x := laneRow{l.topic, n, &all.Lanes[i]}
		if err := l.list.row(x.object(), x.cells()...); err != nil {
			return err
		}
	}
	return nil
}

const describeHelp = `Show all that a partition knows of one producer, also of one that has left memory.
` + lanesHelp + `

Each batch of the window has a line with its sequences, offset and digest. Exit code 3 says
that there is no such topic or partition, or that the partition knows nothing of the producer,
5 that the server could not be asked.`

func producerDescribeCommand() *cobra.Command {
	var from remote
	var form outputForm
	cmd := &cobra.Command{
		Use:     "describe TOPIC/PARTITION ID",
		Short:   "Show all that a partition knows of a producer",
		Long:    describeHelp,
		Example: "  quoin producer describe orders/0 17",
		Args:    exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, partition, err := parsePartition(args[0], false)
			if err != nil {
				return err
			}
			id, err := parseProducer(args[1])
			if err != nil {
				return err
			}
			list, err := form.listing(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) error {
				lane, err := c.DescribeProducer(ctx, topic, partition, id)
				if err != nil {
					return err
				}
				return list.end(laneRow{topic, partition, &lane}.describe(list))
			})
		},
	}
	from.flags(cmd.Flags())
	form.flags(cmd.Flags())
	return cmd
}

// A laneRow is a producer in a partition.
type laneRow struct {
	topic     string
	partition int
	*sdk.ProducerLane
}

func (r laneRow) cells() []string {
	return []string{
		strconv.Itoa(r.partition), strconv.FormatUint(r.ProducerID, 10), r.Name, strconv.FormatUint(uint64(r.Epoch), 10),
		known(r.Last), known(r.Floor), strconv.Itoa(len(r.Window)), strconv.Itoa(r.InFlight), known(r.Confirmed),
		r.idle(), strconv.FormatUint(r.Opening, 10), r.state(),
	}
}

// describe prints a line for each field, and one for each batch of the window.
func (r laneRow) describe(list *listing) error {
	object := r.object()
	if list.json != nil {
		return list.row(object)
	}
	position := ""
	if len(r.Position) > 0 {
		position = fmt.Sprintf("0x%x", r.Position)
	}
	rows := [][2]string{
		{"topic", r.topic}, {"partition", strconv.Itoa(r.partition)},
		{"producer", strconv.FormatUint(r.ProducerID, 10)}, {"name", r.Name}, {"state", r.state()},
		{"epoch", strconv.FormatUint(uint64(r.Epoch), 10)}, {"L", known(r.Last)}, {"last offset", known(r.LastOffset)},
		{"floor", known(r.Floor)}, {"confirmed", known(r.Confirmed)}, {"in flight", strconv.Itoa(r.InFlight)},
		{"idle", r.idle()}, {"opening", strconv.FormatUint(r.Opening, 10)}, {"position", position},
		{"window", strconv.Itoa(len(r.Window))},
	}
	for _, b := range r.Window {
		rows = append(rows, [2]string{"batch", fmt.Sprintf("sequences %s, offset %d, digest %016x", span(b.First, b.Last), b.Offset, b.Digest)})
	}
	for _, row := range rows {
		if err := list.row(object, row[:]...); err != nil {
			return err
		}
	}
	return nil
}

func span(first, last int64) string { return fmt.Sprintf("%d-%d", first, last) }

// idle is not known of a lane that had left memory.
func (r laneRow) idle() string {
	if r.Retired {
		return ""
	}
	return r.Idle.Round(time.Second).String()
}

func (r laneRow) state() string {
	var words []string
	for _, mark := range []struct {
		set  bool
		word string
	}{{r.Open, "open"}, {r.Closed, "closed"}, {r.Suspect, "suspect"}, {r.Retired, "retired"}} {
		if mark.set {
			words = append(words, mark.word)
		}
	}
	return strings.Join(words, ",")
}

// A laneObject is a producer in JSON. Its keys stay.
type laneObject struct {
	Topic      string        `json:"topic"`
	Partition  int           `json:"partition"`
	Producer   uint64        `json:"producer"`
	Name       string        `json:"name"`
	Epoch      uint32        `json:"epoch"`
	Last       *int64        `json:"last"`
	LastOffset *int64        `json:"last_offset"`
	Floor      *int64        `json:"floor"`
	Window     []batchObject `json:"window"`
	InFlight   int           `json:"in_flight"`
	Confirmed  *int64        `json:"confirmed"`
	IdleMillis *int64        `json:"idle_ms"`
	Opening    uint64        `json:"opening"`
	Open       bool          `json:"open"`
	Closed     bool          `json:"closed"`
	Suspect    bool          `json:"suspect"`
	Retired    bool          `json:"retired"`
	Position   []byte        `json:"position"` // base64
}

type batchObject struct {
	First  int64  `json:"first"`
	Last   int64  `json:"last"`
	Offset int64  `json:"offset"`
	Digest string `json:"digest"` // hex: JSON's numbers are too small
}

func (r laneRow) object() laneObject {
	o := laneObject{
		Topic: r.topic, Partition: r.partition, Producer: r.ProducerID, Name: r.Name, Epoch: r.Epoch,
		Last: knownOrNull(r.Last), LastOffset: knownOrNull(r.LastOffset), Floor: knownOrNull(r.Floor),
		Window: []batchObject{}, InFlight: r.InFlight, Confirmed: knownOrNull(r.Confirmed), Opening: r.Opening,
		Open: r.Open, Closed: r.Closed, Suspect: r.Suspect, Retired: r.Retired, Position: r.Position,
	}
	if !r.Retired {
		o.IdleMillis = knownOrNull(r.Idle.Milliseconds())
	}
	for _, b := range r.Window {
		o.Window = append(o.Window, batchObject{b.First, b.Last, b.Offset, fmt.Sprintf("%016x", b.Digest)})
	}
	return o
}
