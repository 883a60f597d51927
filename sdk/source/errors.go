package source

import (
	"errors"
	"fmt"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// Errors that end a run, for errors.Is, besides those of package sdk. They stand in an *[Error].
var (
	// ErrPosition refuses an item whose position is empty, too long, or that of the item
	// before.
	ErrPosition = errors.New("source: the position of the item is not allowed")
	// ErrMoved says that the server has a position which is none of this run's: another run
	// of the same name stored something and has ended, or the server lost what it had
	// acknowledged. A run that is started anew goes on from there.
	ErrMoved = errors.New("source: the position at the server is not where this run left it")
)

// An Error says where a run met what it says: it is what [Run] returns, unless its context
// or its settings are the reason, and what [Progress] has of failures that a run paused for.
type Error struct {
	Topic    string
	Item     int64    // which item of the run failed, from 1; 0 when it was not about one
	Position Position // behind that item; of the last one that is stored when Item is 0
	Err      error
}

func (e *Error) Error() string {
	if e.Item > 0 {
		return fmt.Sprintf("source: topic %q: item %d, position %s: %v", e.Topic, e.Item, printable(e.Position), e.Err)
	}
	return fmt.Sprintf("source: topic %q: behind position %s: %v", e.Topic, printable(e.Position), e.Err)
}

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// printable is a position for people, shortened if it is one that is too long.
func printable(p Position) string {
	if p == nil {
		return "none"
	}
	if len(p) > sdk.MaxPosition {
		return fmt.Sprintf("%q...", p[:sdk.MaxPosition])
	}
	return fmt.Sprintf("%q", p)
}

// passing are reasons to build the producer again that are no refusal of the server.
var passing = []error{sdk.ErrDeliveryTimeout, sdk.ErrConnectionLost, sdk.ErrUnreachable, sdk.ErrNoStream,
	sdk.ErrOutboxFull, sdk.ErrOutboxFailed}

// mayPass reports whether it helps to build the producer again and to go on from the
// position that the server has. First match wins.
//
//	the client is closed                             no
//	a delivery timeout, a lost connection, a full    yes: whatever the server had refused
//	or failed disk of the outbox                     before, it was for the moment
//	the server asks to try again                     yes
//	the server cannot tell whether it is stored      yes: the position tells
//	the server refuses otherwise                     no: fenced, no such topic, data loss, ...
//	the outcome is unknown                           yes: the position tells
//	anything else, such as a record too large        no
func mayPass(err error) bool {
	if errors.Is(err, sdk.ErrClosed) {
		return false
	}
	for _, reason := range passing {
		if errors.Is(err, reason) {
			return true
		}
	}
	var refusal *sdk.ServerError
	if errors.As(err, &refusal) {
		return refusal.Retriable() || refusal.Code == wire.CodeUnknownOutcome
	}
	var unknown *sdk.OutcomeUnknown
	return errors.As(err, &unknown)
}
