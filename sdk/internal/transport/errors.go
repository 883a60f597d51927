package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/wire"
)

// ErrLost is what errors are that end a connection or a stream, for errors.Is. It proves
// nothing about what the server did.
var ErrLost = errors.New("connection lost")

// ErrClosed is returned after the manager was closed.
var ErrClosed = errors.New("client closed")

// ErrPinMismatch says that the server's key is not one that was pinned.
var ErrPinMismatch = errors.New("the server's key is not the pinned one")

// ErrUnreachable says that nothing answered at the address.
var ErrUnreachable = errors.New("no answer")

// ErrNoStream says that the connection has as many streams as the server allows. Nothing
// was sent.
var ErrNoStream = errors.New("the connection has as many streams as the server allows")

// ErrRefused says that the server takes no new connections at the moment.
var ErrRefused = errors.New("the server takes no new connections: it is draining or full")

// Stage is where connecting failed.
type Stage string

// The stages of connecting, in their order.
const (
	StageURL       Stage = "URL"
	StageResolve   Stage = "resolve"
	StageUDP       Stage = "UDP"
	StageTLS       Stage = "TLS"
	StageALPN      Stage = "ALPN"
	StageVersion   Stage = "version"
	StageHandshake Stage = "handshake"
)

// An Error is a failed attempt to connect.
type Error struct {
	Stage Stage
	Addr  string
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.Addr, e.Stage, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// A CloseError is the reason that a peer gave when it closed the connection.
type CloseError struct {
	Code   wire.Code
	Remote bool
	Text   string
}

func (e *CloseError) Error() string {
	who := "closed here"
	if e.Remote {
		who = "closed by the server"
	}
	if e.Text == "" {
		return fmt.Sprintf("%s: %v", who, e.Code)
	}
	return fmt.Sprintf("%s: %v: %s", who, e.Code, e.Text)
}

// lostError hides the library's error behind a text and ErrLost.
type lostError struct {
	cause error
}

func (e *lostError) Error() string { return "connection lost: " + e.cause.Error() }

func (e *lostError) Unwrap() []error { return []error{ErrLost, e.cause} }

// lost turns the error that ended a connection or a stream into one without the
// library's types.
func lost(err error) error {
	var already *lostError
	if errors.As(err, &already) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNoStream) {
		return err
	}
	var app *quic.ApplicationError
	var idle *quic.IdleTimeoutError
	var reset *quic.StatelessResetError
	var stream *quic.StreamError
	var full *quic.StreamLimitReachedError
	switch {
	case errors.As(err, &full):
		return ErrNoStream
	case errors.As(err, &app):
		return &lostError{&CloseError{wire.Code(app.ErrorCode), app.Remote, app.ErrorMessage}}
	case errors.As(err, &idle):
		return &lostError{errors.New("nothing was heard from the server for too long")}
	case errors.As(err, &reset):
		return &lostError{errors.New("the server does not know the connection any more, it was restarted")}
	case errors.As(err, &stream) && stream.Remote:
		return &lostError{fmt.Errorf("the server reset the stream: %v", wire.Code(stream.ErrorCode))}
	case errors.As(err, &stream):
		return &lostError{errors.New("the stream was given up here")}
	}
	return &lostError{errors.New(err.Error())}
}

// dialError says in which stage a dial failed. ctx is the one of the attempt.
func dialError(ctx context.Context, addr string, err error) *Error {
	var transportErr *quic.TransportError
	var versions *quic.VersionNegotiationError
	var handshake *quic.HandshakeTimeoutError
	var idle *quic.IdleTimeoutError
	var app *quic.ApplicationError
	switch {
	case errors.As(err, &transportErr):
		return transportDialError(addr, transportErr)
	case errors.As(err, &versions):
		return &Error{StageVersion, addr, errors.New("no QUIC version in common")}
	case errors.As(err, &handshake), errors.As(err, &idle):
		return &Error{StageUDP, addr, fmt.Errorf("%w: nothing listens there, or UDP is blocked on the way", ErrUnreachable)}
	case errors.As(err, &app):
		return &Error{StageHandshake, addr, &CloseError{wire.Code(app.ErrorCode), app.Remote, app.ErrorMessage}}
	case ctx.Err() != nil:
		return &Error{StageUDP, addr, fmt.Errorf("%w in time: %w", ErrUnreachable, context.Cause(ctx))}
	}
	return &Error{StageUDP, addr, err}
}

// alertNoALPN is TLS alert 120, no_application_protocol, as a QUIC error code.
const alertNoALPN = 0x100 + 120

func transportDialError(addr string, err *quic.TransportError) *Error {
	var pin *pinError
	var verify *tls.CertificateVerificationError
	switch {
	case err.ErrorCode == quic.ConnectionRefused:
		return &Error{StageHandshake, addr, ErrRefused}
	case errors.As(err, &pin):
		return &Error{StageTLS, addr, pin}
	case errors.As(err, &verify):
		return &Error{StageTLS, addr, verify}
	case err.ErrorCode == alertNoALPN:
		return &Error{StageALPN, addr, fmt.Errorf("the server does not speak %s", wire.ALPN)}
	case err.ErrorCode.IsCryptoError():
		return &Error{StageTLS, addr, errors.New(err.Error())}
	}
	return &Error{StageHandshake, addr, errors.New(err.Error())}
}

// refused reports whether err is the refusal that is worth repeating at once: the server
// is there, but it is draining, full, or its accept queue overflowed.
func refused(err error) bool { return errors.Is(err, ErrRefused) }
