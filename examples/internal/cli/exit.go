package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"

	"github.com/quoin-io/quoin/sdk"
)

// Exit codes, the same as those of the quoin command.
const (
	ExitOK          = 0
	ExitOther       = 1
	ExitUsage       = 2
	ExitNotFound    = 3 // a file or a topic
	ExitUnreachable = 5
	ExitPartial     = 6 // some of it failed
	ExitWrong       = 7 // what is stored is not what it should be
	ExitInterrupted = 130
)

// ErrPartial says that the program came to its end, but not everything went well.
var ErrPartial = errors.New("some lines failed")

// ErrWrong says that what a program read back is not what it should be.
var ErrWrong = errors.New("the topic does not hold what it should")

// A UsageError says that the command line makes no sense.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a *UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// Streams are what a program reads and writes. Results go to Out, all else to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs a program with the arguments and streams of the process and returns its exit
// code. The first interrupt ends the context; a second one ends the process.
func Main(run func(ctx context.Context, args []string, std Streams) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // from then on interrupts act as they do by default
	return run(ctx, os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// ExitCode is the exit code for what a program ended with. First match wins.
//
//	no error                                     0
//	ctx ended, which only an interrupt can do    130
//	some lines failed                            6
//	what was read back is wrong                  7
//	the command line, or the URL in it           2
//	no such file, no such topic                  3
//	no server answered                           5
//	otherwise                                    1
func ExitCode(ctx context.Context, err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return ExitOK
	case ctx.Err() != nil:
		return ExitInterrupted
	case errors.Is(err, ErrPartial):
		return ExitPartial
	case errors.Is(err, ErrWrong):
		return ExitWrong
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, sdk.ErrUnknownTopic):
		return ExitNotFound
	case unreachable(err):
		return ExitUnreachable
	}
	return ExitOther
}

// unreachable tells a server that is not there from one that is not to be trusted or does
// not speak our language.
func unreachable(err error) bool {
	var dial *sdk.DialError
	if errors.As(err, &dial) && (dial.Stage == sdk.StageResolve || dial.Stage == sdk.StageUDP) {
		return true
	}
	return errors.Is(err, sdk.ErrUnreachable) || errors.Is(err, sdk.ErrConnectionLost) ||
		errors.Is(err, context.DeadlineExceeded)
}
