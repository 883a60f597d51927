package main

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/server"
)

const usage = `Run a server in this process, measure the process, and send the measurements through it.

  embed [flags]

`

// options are what the command line says.
type options struct {
	data   string
	listen string
	count  int
	every  time.Duration
	usage  string
}

func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("embed", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.StringVar(&o.data, "data", server.DefaultData, "data directory of the server")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "UDP address of the server; port 0 takes any that is free")
	flags.IntVar(&o.count, "count", 10, "measurements; 0 for as many as come until an interrupt")
	flags.DurationVar(&o.every, "every", 100*time.Millisecond, "time from one measurement to the next, at least 1ms")
	o.usage = usage + flags.FlagUsages()

	if err := flags.Parse(args); err == pflag.ErrHelp {
		return o, err
	} else if err != nil {
		return o, &cli.UsageError{Err: err}
	}
	switch {
	case flags.NArg() > 0:
		return o, cli.Usagef("%q: there are flags only", flags.Arg(0))
	case o.data == "":
		return o, cli.Usagef("--data is empty")
	case o.listen == "":
		return o, cli.Usagef("--listen is empty")
	case o.count < 0:
		return o, cli.Usagef("--count %d: 0 or more", o.count)
	case o.every < time.Millisecond:
		return o, cli.Usagef("--every %v: at least 1ms", o.every)
	case o.count == 0:
		o.count = math.MaxInt
	}
	return o, nil
}
