package main

import (
	"math"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
	"github.com/quoin-io/quoin/sdk"
)

const usage = `Send files to a topic, line by line. Without a FILE, or for "-", stdin is read.

  send [flags] [FILE...]

All lines of a file go to one partition, in their order. With --key-delim the key chooses
the partition, and order is kept for each key only. A second run appends again.

`

// compressions are those of the SDK by name.
var compressions = map[string]sdk.Compression{
	"none": sdk.NoCompression, "snappy": sdk.Snappy, "zstd": sdk.Zstd,
}

// options are what the command line says.
type options struct {
	server        cli.Server
	topic         string
	partitions    int
	partitionsSet bool
	keyDelim      string // empty for no keys
	compression   sdk.Compression
	rate          float64 // lines per second; 0 for no limit
	files         []string
	usage         string
}

func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("send", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.StringVar(&o.topic, "topic", "lines", "topic to send to; it is created if there is none")
	flags.IntVar(&o.partitions, "partitions", 1, "partitions of a topic that is created now")
	flags.StringVar(&o.keyDelim, "key-delim", "", "what is before this text in a line becomes the record's key as well")
	compression := flags.String("compression", "none", "of batches: none, snappy or zstd")
	flags.Float64Var(&o.rate, "rate", 0, "lines per second at most; 0 for no limit")
	o.server.AddFlags(flags)
	o.usage = usage + flags.FlagUsages()

	if err := flags.Parse(args); err == pflag.ErrHelp {
		return o, err
	} else if err != nil {
		return o, &cli.UsageError{Err: err}
	}
	o.files, o.partitionsSet = flags.Args(), flags.Changed("partitions")
	var known bool
	o.compression, known = compressions[*compression]
	switch {
	case !known:
		return o, cli.Usagef("--compression %s: none, snappy and zstd are known", *compression)
	case o.topic == "":
		return o, cli.Usagef("--topic is empty")
	case o.partitions < 1:
		return o, cli.Usagef("--partitions %d: at least 1", o.partitions)
	case !(o.rate >= 0) || math.IsInf(o.rate, 0):
		return o, cli.Usagef("--rate %v: 0 or more", o.rate)
	case flags.Changed("key-delim") && o.keyDelim == "":
		return o, cli.Usagef("--key-delim is empty")
	}
	return o, o.server.Resolve(flags)
}
