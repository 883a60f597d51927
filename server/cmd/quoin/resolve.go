package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/sdk"
)

const resolveHelp = `Ask what became of a batch of which a producer has said that its outcome is unknown. TOKEN is
what came with that. It holds the key of the producer, like a password: a minus sign in its
place reads it from the standard input, so that it stands in no history and no list of
processes.

Without --settle it only looks, and the key is not sent. With --settle the answer is made
final: if the batch is not stored, the server fences the producer's lane, so that the batch
never will be. A producer that lives must then raise its epoch and seal anew what was not
stored. On a terminal that is asked about first; elsewhere it needs --yes.

  stored           it is stored. Not verified: its sequences prove it, and the server could
                   not compare it any more
  in flight        it is written, and not safe on disk yet: ask again
  not stored yet   it is not stored; a copy that is still on its way may be
  not stored       it is not stored and never will be
  topic gone       the topic was deleted; whether the batch was in it nobody can tell
  unknowable       nobody can tell any more

Exit code 0 says that it is stored and can be read; 3 that it is not stored, for good; 6 that
it is none of both: in flight, not stored yet, topic gone or unknowable; 7 that it is stored
and cannot be read any more. With 1 the server refused to answer, with 4 the key is not that of
the producer, and with 5 the server could not be asked. Only 0, 3 and 7 say anything of the
batch.`

// A resolveOrder is how a batch is to be resolved.
type resolveOrder struct {
	from        remote
	form        outputForm
	settle, yes bool
}

func resolveCommand() *cobra.Command {
	var o resolveOrder
	cmd := &cobra.Command{
		Use:     "resolve TOKEN|-",
		Short:   "Ask what became of a batch whose outcome is unknown",
		Long:    resolveHelp,
		Example: "  quoin producer resolve - <token.txt\n  quoin producer resolve --settle --yes - <token.txt",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.settle, "settle", false, "make the answer final, which may fence the producer's lane")
	f.BoolVar(&o.yes, "yes", false, "settle without asking")
	o.from.flags(f)
	o.form.flags(f)
	return cmd
}

func (o *resolveOrder) run(cmd *cobra.Command, text string) error {
	if o.yes && !o.settle {
		return usageError{errors.New("--yes goes with --settle")}
	}
	list, err := o.form.listing(cmd.OutOrStdout())
	if err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(interruptible(cmd.Context(), cmd.InOrStdin()), maxInput))
	if text == "-" {
		if text, err = in.ReadString('\n'); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the token: %w", err)
		}
	}
	token, err := sdk.ParseToken(strings.TrimSpace(text))
	if err != nil {
		return usageError{err}
	}
	var options []sdk.ResolveOption
	if o.settle {
		options = append(options, sdk.Settle())
		warnOfFence(cmd.ErrOrStderr(), token)
		if err := o.confirmed(cmd.ErrOrStderr(), in, isTerminal(cmd.InOrStdin())); err != nil {
			return err
		}
	}
	var r sdk.Resolution
	err = o.from.ask(cmd.Context(), func(ctx context.Context, c *sdk.Client) (err error) {
		r, err = c.Resolve(ctx, token, options...)
		return err
	})
	if err != nil {
		return nothingOfTheBatch(err)
	}
	if err := list.end(printResolution(list, token, r)); err != nil {
		return err
	}
	return resolved(r)
}

// maxInput bounds what is read of a token and of an answer; both are far shorter.
const maxInput = 4 << 10

func warnOfFence(w io.Writer, t sdk.Token) {
	fmt.Fprintf(w, "warning: if the batch is not stored, this fences the lane of producer %d in %s/%d: if the producer lives, it must\n"+
		"raise its epoch and seal anew what was not stored\n", t.ProducerID(), cell(t.Topic()), t.Partition())
}

// confirmed asks on a terminal; nobody is asked elsewhere.
func (o *resolveOrder) confirmed(w io.Writer, in *bufio.Reader, terminal bool) error {
	switch {
	case o.yes:
		return nil
	case !terminal:
		return usageError{errors.New("--settle needs --yes where nobody can be asked")}
	}
	yes, err := confirmed(w, in, "Settle it?")
	if err == nil && !yes {
		err = errors.New("not settled: the answer was not yes")
	}
	return err
}

// nothingOfTheBatch keeps what the server could not find, such as a partition, from being
// taken for an answer about the batch.
func nothingOfTheBatch(err error) error {
	var missing notFoundError
	if errors.As(err, &missing) {
		return missing.error
	}
	return err
}

// resolved says with which exit code a resolution ends. First match wins.
//
//	stored, and unreadable   7   what was stored does not verify
//	stored                   0
//	not stored, for good     3   it may be sent again
//	anything else            6   it is not known, and so must not pass for an outcome
func resolved(r sdk.Resolution) error {
	switch {
	case r.Outcome == sdk.ResolveStored && r.Unreadable:
		return fmt.Errorf("%w: it is stored, and cannot be read any more", errVerification)
	case r.Outcome == sdk.ResolveStored:
		return nil
	case r.Outcome == sdk.ResolveNotStored:
		return notFoundError{errors.New("it is not stored and never will be")}
	}
	return partialError{fmt.Errorf("whether it is stored is not settled: %v", r.Outcome)}
}

// A resolutionObject is a resolution in JSON. Its keys stay; reason is for people.
type resolutionObject struct {
	Topic      string `json:"topic"`
	Partition  int    `json:"partition"`
	Producer   uint64 `json:"producer"`
	Epoch      uint32 `json:"epoch"`
	First      int64  `json:"first"`
	Last       int64  `json:"last"`
	Outcome    string `json:"outcome"`
	Offset     *int64 `json:"offset"`
	Verified   bool   `json:"verified"`
	Unreadable bool   `json:"unreadable"`
	Reason     string `json:"reason"`
}

func printResolution(list *listing, t sdk.Token, r sdk.Resolution) error {
	o := resolutionObject{
		Topic: t.Topic(), Partition: t.Partition(), Producer: t.ProducerID(), Epoch: t.Epoch(), First: t.First(), Last: t.Last(),
		Outcome: r.Outcome.String(), Offset: knownOrNull(r.Offset), Verified: r.Verified, Unreadable: r.Unreadable, Reason: r.Reason,
	}
	if list.json != nil {
		return list.row(o)
	}
	outcome := o.Outcome
	switch {
	case r.Outcome == sdk.ResolveStored && r.Unreadable:
		outcome += ", unreadable"
	case r.Outcome == sdk.ResolveStored && !r.Verified:
		outcome += ", not verified"
	}
	for _, row := range [][]string{
		{"topic", o.Topic}, {"partition", strconv.Itoa(o.Partition)}, {"producer", strconv.FormatUint(o.Producer, 10)},
		{"epoch", strconv.FormatUint(uint64(o.Epoch), 10)}, {"sequences", span(o.First, o.Last)},
		{"outcome", outcome}, {"offset", known(r.Offset)}, {"reason", o.Reason},
	} {
		if err := list.row(o, row...); err != nil {
			return err
		}
	}
	return nil
}
