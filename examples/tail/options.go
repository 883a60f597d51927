package main

import (
	"strconv"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
)

const usage = `Print the lines of a topic, or put the files together again that they are from.

  tail [flags]

Order is kept within a partition. A file comes back whole if all its lines went to one.
An empty file has no lines, so it does not come back.

`

// options are what the command line says.
type options struct {
	server cli.Server
	topic  string
	from   sdk.Start
	follow bool
	into   string // empty for stdout
	usage  string
}

func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("tail", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.StringVar(&o.topic, "topic", "lines", "topic to read")
	from := flags.String("from", "start", "where to begin: start, end, or an offset, in every partition")
	flags.BoolVar(&o.follow, "follow", false, "wait for more instead of stopping at the end; needs a server that others use too")
	flags.StringVar(&o.into, "into", "", "write every file under this directory; what is there of the same name is replaced")
	o.server.AddFlags(flags)
	o.usage = usage + flags.FlagUsages()

	if err := flags.Parse(args); err == pflag.ErrHelp {
		return o, err
	} else if err != nil {
		return o, &cli.UsageError{Err: err}
	}
	if err := o.server.Resolve(flags); err != nil {
		return o, err
	}
	var err error
	switch o.from, err = parseFrom(*from); {
	case err != nil:
		return o, err
	case flags.NArg() > 0:
		return o, cli.Usagef("%q: there are flags only", flags.Arg(0))
	case o.topic == "":
		return o, cli.Usagef("--topic is empty")
	case flags.Changed("into") && o.into == "":
		return o, cli.Usagef("--into is empty")
	case o.follow && o.server.URL == "":
		return o, cli.Usagef("--follow waits for what others send: start a server and name it with --server")
	}
	return o, nil
}

func parseFrom(s string) (sdk.Start, error) {
	switch s {
	case "start":
		return sdk.Earliest, nil
	case "end":
		return sdk.Latest, nil
	}
	offset, err := strconv.ParseInt(s, 10, 64)
	if err != nil || offset < 0 {
		return sdk.Start{}, cli.Usagef("--from %s: neither start, nor end, nor an offset", s)
	}
	return sdk.At(offset), nil
}
