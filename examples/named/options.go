package main

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
)

const usage = `Count into a topic, each number once, over any number of kills and restarts.

  named [flags]

The name is the identity of the producer: who starts with it takes it over. The outbox
keeps on disk what has no outcome yet; it belongs to the name and the topic.

`

// options are what the command line says.
type options struct {
	server    cli.Server
	topic     string
	name      string
	outbox    string
	to        int64
	rate      float64       // numbers per second; 0 for no limit
	lastWords time.Duration // for what is in flight when an interrupt comes
	usage     string
}

func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("named", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.StringVar(&o.topic, "topic", "numbers", "topic to count into; it is created if there is none")
	flags.StringVar(&o.name, "name", "counter", "name of the producer, one over all topics of the server")
	flags.StringVar(&o.outbox, "outbox", "./quoin-outbox", "directory of the outbox")
	flags.Int64Var(&o.to, "to", 10_000, "the last number")
	flags.Float64Var(&o.rate, "rate", 1000, "numbers per second at most; 0 for no limit")
	flags.DurationVar(&o.lastWords, "last-words", 10*time.Second, "how long to wait, after an interrupt, for what is in flight")
	o.server.AddFlags(flags)
	o.usage = usage + flags.FlagUsages()

	if err := flags.Parse(args); err == pflag.ErrHelp {
		return o, err
	} else if err != nil {
		return o, &cli.UsageError{Err: err}
	}
	switch {
	case flags.NArg() > 0:
		return o, cli.Usagef("%q: there are flags only", flags.Arg(0))
	case o.topic == "":
		return o, cli.Usagef("--topic is empty")
	case o.name == "":
		return o, cli.Usagef("--name is empty")
	case o.outbox == "":
		return o, cli.Usagef("--outbox is empty")
	case o.to < 1:
		return o, cli.Usagef("--to %d: at least 1", o.to)
	case o.lastWords < 0:
		return o, cli.Usagef("--last-words %v: 0 or more", o.lastWords)
	case !(o.rate >= 0) || math.IsInf(o.rate, 0):
		return o, cli.Usagef("--rate %v: 0 or more", o.rate)
	}
	return o, o.server.Resolve(flags)
}
