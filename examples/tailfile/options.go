package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/examples/internal/cli"
)

const usage = `Follow a file into a topic, line by line, over rotation, kills and restarts.

  tailfile [flags] FILE

Each line is stored once, in one partition, in order. The name says who goes on: who starts
with it takes it over. It is "tailfile:", the name of this machine and of the file if none is
given.

`

const (
	defaultMaxLine = 256 << 10 // bytes; four lines of that make a batch of the size that topics take
	minMaxLine     = 1 << 10
	maxMaxLine     = 4 << 20
	maxName        = 255 // bytes
)

// options are what the command line says.
type options struct {
	server    cli.Server
	topic     string
	name      string
	path      string
	partition int
	poll      time.Duration
	maxLine   int
	exitAtEnd bool
	usage     string
}

func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("tailfile", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.StringVar(&o.topic, "topic", "lines", "topic to send to; it is created if there is none")
	flags.IntVar(&o.partition, "partition", 0, "partition of the topic")
	flags.StringVar(&o.name, "name", "", "name of the producer, one over all topics of the server")
	flags.DurationVar(&o.poll, "poll", 200*time.Millisecond, "how often to look for more at the end of the file")
	flags.IntVar(&o.maxLine, "max-line", defaultMaxLine, "bytes of a record at most; a longer line becomes several")
	flags.BoolVar(&o.exitAtEnd, "exit-at-end", false, "stop at the end of the file instead of waiting for more")
	o.server.AddFlags(flags)
	o.usage = usage + flags.FlagUsages()

	if err := flags.Parse(args); err == pflag.ErrHelp {
		return o, err
	} else if err != nil {
		return o, &cli.UsageError{Err: err}
	}
	switch {
	case flags.NArg() != 1 || flags.Arg(0) == "":
		return o, cli.Usagef("one FILE is followed, not %d", flags.NArg())
	case o.topic == "":
		return o, cli.Usagef("--topic is empty")
	case o.partition < 0:
		return o, cli.Usagef("--partition %d: 0 or more", o.partition)
	case flags.Changed("name") && o.name == "" || len(o.name) > maxName:
		return o, cli.Usagef("--name has %d bytes, not 1 to %d", len(o.name), maxName)
	case o.poll < time.Millisecond:
		return o, cli.Usagef("--poll %v: at least 1ms", o.poll)
	case o.maxLine < minMaxLine || o.maxLine > maxMaxLine:
		return o, cli.Usagef("--max-line %d: %d to %d", o.maxLine, minMaxLine, maxMaxLine)
	}
	var err error
	if o.path, err = filepath.Abs(flags.Arg(0)); err != nil {
		return o, err
	}
	if o.name == "" {
		if o.name, err = defaultName(o.path); err != nil {
			return o, err
		}
	}
	return o, o.server.Resolve(flags)
}

// defaultName is the same for every run with this file on this machine.
func defaultName(path string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	name := "tailfile:" + host + ":" + path
	if len(name) > maxName {
		return "", cli.Usagef("the name of the file is too long to be that of a producer: choose one by --name")
	}
	return name, nil
}
