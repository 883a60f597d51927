package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOther        = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitDenied       = 4
	exitUnreachable  = 5
	exitPartial      = 6
	exitVerification = 7
	exitInterrupted  = 130
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is seen as an error of a write, see run
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its surroundings as arguments, so that tests can call it.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends what does not look at ctx
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, syscall.EPIPE) && exitCode(err) == exitOther {
		return 0 // who reads the output has seen enough
	}
	fmt.Fprintln(stderr, "quoin:", err)
	return exitCode(err)
}

// exitCode says how the program ends. First match wins.
func exitCode(err error) int {
	switch {
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(notFoundError)):
		return exitNotFound
	case errors.As(err, new(deniedError)):
		return exitDenied
	case errors.As(err, new(partialError)):
		return exitPartial
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, new(unreachableError)):
		return exitUnreachable
	case errors.Is(err, errVerification):
		return exitVerification
	}
	return exitOther
}

// usageError marks errors in how a command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// notFoundError marks errors about something that is not there.
type notFoundError struct{ error }

func (e notFoundError) Unwrap() error { return e.error }

// deniedError marks errors about what the caller has no right to.
type deniedError struct{ error }

func (e deniedError) Unwrap() error { return e.error }

// partialError marks errors of a command that did, or found out, a part of what was asked.
type partialError struct{ error }

func (e partialError) Unwrap() error { return e.error }

// unreachableError marks errors about a server that could not be asked.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// errInterrupted is how a command ends that a signal has told to.
var errInterrupted error = interruptedError{}

type interruptedError struct{}

func (interruptedError) Error() string { return "interrupted" }

func (interruptedError) Unwrap() error { return context.Canceled }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "quoin",
		Short:         "Quoin: message streaming over QUIC, with producers that are idempotent",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{meantCommand(cmd, fmt.Errorf("unknown command %q; see quoin help", args[0]), args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{meantFlag(cmd, err)} })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(serveCommand(), topicCommand(), produceCommand(), consumeCommand(), producerCommand(), logCommand(),
		batchCommand(), completionCommand(), versionCommand())
	completeForms(root)
	return root
}

// noArgs refuses arguments as a mistake in usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{meantCommand(cmd, err, args[0])}
	}
	return nil
}
