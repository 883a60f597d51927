package sdk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk/internal/batcher"
	"github.com/quoin-io/quoin/sdk/internal/transport"
	"github.com/quoin-io/quoin/wire"
)

// Sentinels, for errors.Is. Those of the second group match a [ServerError] by its code.
var (
	// ErrClosed is returned by whatever was closed: a client, a producer, a consumer.
	ErrClosed = errors.New("sdk: closed")
	// ErrDeliveryTimeout is the cause when a record was not delivered in time.
	ErrDeliveryTimeout = errors.New("sdk: delivery timeout")
	// ErrPinMismatch says that the server's key is not the pinned one.
	ErrPinMismatch = transport.ErrPinMismatch
	// ErrUnreachable says that nothing answered at the address.
	ErrUnreachable = transport.ErrUnreachable
	// ErrConnectionLost says that the connection went before the answer came. It proves
	// nothing about what the server did.
	ErrConnectionLost = transport.ErrLost
	// ErrNoStream says that the connection has as many streams as the server allows. Nothing
	// was sent. Each partition that a consumer reads takes one.
	ErrNoStream = transport.ErrNoStream
	// ErrTooManyPartitions refuses a consumer: the consumers of one client read no more than
	// 900 partitions at a time, so that streams are left for producers and requests. Use
	// another client for the rest.
	ErrTooManyPartitions = errors.New("sdk: too many partitions are read over one client")

	ErrUnknownTopic     = errors.New("sdk: unknown topic")
	ErrTopicExists      = errors.New("sdk: topic exists")
	ErrInvalidTopic     = errors.New("sdk: topic is not allowed")
	ErrUnknownPartition = errors.New("sdk: unknown partition")
	ErrOffsetOutOfRange = errors.New("sdk: offset out of range")
	// ErrBatchVersion says that one side does not know the version of a batch: the server that
	// of a producer's, or this SDK one that a strict topic holds. The text says which side to
	// upgrade. A consumer has had what stands in front of that batch, which begins at
	// [ServerError.Offset] and has [ServerError.Version]; [ServerError.Expected] is where to read
	// on without it: From([At]) and Partitions of a new consumer.
	ErrBatchVersion = errors.New("sdk: batch version is not known")
	// ErrFenced says that another instance holds the producer id now, as it built a producer
	// of the same name. The text says since when and, if the server knows it yet, from where.
	ErrFenced = errors.New("sdk: fenced: another instance holds the producer id")
	// ErrSequenceConflict says that the sequences of a batch hold another batch.
	ErrSequenceConflict = errors.New("sdk: sequence conflict")
	// ErrProducerCloned says that somebody else wrote under this producer id.
	ErrProducerCloned = errors.New("sdk: producer cloned")
	// ErrDataLoss says that the server lacks what it acknowledged before.
	ErrDataLoss = errors.New("sdk: data loss")
	// ErrUnknownProducer says that the server forgot the producer.
	ErrUnknownProducer = errors.New("sdk: unknown producer")
)

var sentinelOf = map[wire.Code]error{
	wire.CodeUnknownTopic:         ErrUnknownTopic,
	wire.CodeUnknownTopicID:       ErrUnknownTopic,
	wire.CodeTopicExists:          ErrTopicExists,
	wire.CodeInvalidTopic:         ErrInvalidTopic,
	wire.CodeInvalidPartitions:    ErrInvalidTopic,
	wire.CodeUnknownPartition:     ErrUnknownPartition,
	wire.CodeOffsetOutOfRange:     ErrOffsetOutOfRange,
	wire.CodeVersionUnsupported:   ErrBatchVersion,
	wire.CodeInvalidProducerEpoch: ErrFenced,
	wire.CodeSequenceConflict:     ErrSequenceConflict,
	wire.CodeProducerCloned:       ErrProducerCloned,
	wire.CodeDataLoss:             ErrDataLoss,
	wire.CodeUnknownProducerID:    ErrUnknownProducer,
}

// Code is the number of a server's answer; it prints as its name. Package wire lists all.
type Code = wire.Code

// Outcome says what a refused request did: nothing, something, or that is not known.
type Outcome = wire.Outcome

// A ServerError is a refusal that came over the wire. Compare Code, or use errors.Is with
// the sentinels; Detail is for people and may change in any release.
type ServerError struct {
	Op         string // what was asked for, such as "produce"
	Code       Code
	Topic      string
	Partition  int    // -1 when the subject has none
	ProducerID uint64 // 0 when the subject has none
	Sequence   int64  // -1 when the subject has none
	// Expected is what was expected instead, by the meaning of Code, such as a sequence, an
	// epoch, a limit, or for a consumer the offset where it may read on; -1 for nothing.
	Expected int64
	Detail   string
	// Offset is where the batch begins that a consumer was refused with ErrBatchVersion; -1 when
	// there is none, as with a producer.
	Offset int64
	// Version is that of the batch that was refused for it; 0 when that is not the reason, or an
	// older server does not say.
	Version int
}

func (e *ServerError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sdk: %s", e.Op)
	if e.Topic != "" {
		fmt.Fprintf(&b, " %q", e.Topic)
	}
	if e.Partition >= 0 {
		fmt.Fprintf(&b, " partition %d", e.Partition)
	}
	fmt.Fprintf(&b, ": %v", e.Code)
	text := e.Detail
	if text == "" {
		text = e.Code.Info().Text + e.batch()
	}
	b.WriteString(": " + text)
	if e.Sequence >= 0 {
		fmt.Fprintf(&b, " (sequence %d", e.Sequence)
		if e.Expected >= 0 {
			fmt.Fprintf(&b, ", expected %d", e.Expected)
		}
		b.WriteByte(')')
	}
	return b.String()
}

// batch names the batch that was refused for its version; a Detail does so itself.
func (e *ServerError) batch() string {
	switch {
	case e.Version == 0:
		return ""
	case e.Offset < 0:
		return fmt.Sprintf(": version %d", e.Version)
	}
	return fmt.Sprintf(": version %d at offset %d", e.Version, e.Offset)
}

// Is makes errors.Is work with the sentinels.
func (e *ServerError) Is(target error) bool {
	sentinel := sentinelOf[e.Code]
	return sentinel != nil && sentinel == target
}

// Retriable reports whether the very same request may be repeated and could succeed.
// Producers and consumers do that by themselves.
func (e *ServerError) Retriable() bool { return e.Code.Info().Retry }

// Outcome says what the refused request did.
func (e *ServerError) Outcome() Outcome { return e.Code.Info().Outcome }

// serverError turns a *wire.Error in err into a *ServerError; other errors pass.
func serverError(op, topic string, err error) error {
	var w *wire.Error
	if !errors.As(err, &w) {
		if errors.Is(err, transport.ErrClosed) {
			return ErrClosed
		}
		return err
	}
	e := &ServerError{Op: op, Code: w.Code, Topic: w.Topic, Partition: int(w.Partition),
		ProducerID: uint64(w.ProducerID), Sequence: w.Sequence, Expected: w.Expected, Detail: w.Detail,
		Offset: int64(w.Offset), Version: int(w.Version)}
	if e.Topic == "" {
		e.Topic = topic
	}
	return e
}

// An OutcomeUnknown ends a record of which nobody can say whether it is stored: it was
// handed to the network, and no answer settled what became of it. It is neither success
// nor failure. Sending the record again may store it twice. [Client.Resolve] finds out by
// the token; by itself the client does so too, as soon as it can, and tells the result by
// [EventSettled]. What a plain producer sent has no token, and stays unknown.
type OutcomeUnknown struct {
	Topic      string
	Partition  int
	ProducerID uint64
	Epoch      uint32
	Sequence   int64 // -1 of a plain producer
	Record     int   // the place of the record in its batch, from 0; see [Resolution.OffsetOf]
	Cause      error

	token *Token // shared by all records of the batch; nil when there is none
}

// Token names the batch of the record; all records of a batch have the same. It is zero
// when Sequence is -1, as with a plain producer: then nobody can find out.
func (e *OutcomeUnknown) Token() Token {
	if e.token == nil {
		return Token{}
	}
	return *e.token
}

func (e *OutcomeUnknown) Error() string {
	if e.token == nil {
		return fmt.Sprintf("sdk: produce %q partition %d: outcome unknown: %v", e.Topic, e.Partition, e.Cause)
	}
	return fmt.Sprintf("sdk: produce %q partition %d: outcome unknown (producer %d, epoch %d, sequence %d): %v",
		e.Topic, e.Partition, e.ProducerID, e.Epoch, e.Sequence, e.Cause)
}

// Unwrap gives the reason.
func (e *OutcomeUnknown) Unwrap() error { return e.Cause }

// A NotStored ends a record that is certainly not in its partition and never will be.
type NotStored struct {
	Topic     string
	Partition int
	Cause     error
}

func (e *NotStored) Error() string {
	return fmt.Sprintf("sdk: produce %q partition %d: not stored: %v", e.Topic, e.Partition, e.Cause)
}

// Unwrap gives the reason.
func (e *NotStored) Unwrap() error { return e.Cause }

// errNotConnected is a reason to wait.
var errNotConnected = errors.New("there is no connection to the server")

// A BufferFullError says that the buffer of a producer had no room, with [Producer.TrySend]
// at once and else while the context lived. The record was not accepted.
type BufferFullError struct {
	Topic       string
	MaxBuffered int64
	InUse       int64 // bytes, when the context had ended
	Reason      error // what the server said last, or that there is none; nil when it just takes its time
	Err         error // of the context; nil with TrySend
}

func (e *BufferFullError) Error() string {
	text := fmt.Sprintf("sdk: produce %q: the buffer is full, %d of %d bytes are in use", e.Topic, e.InUse, e.MaxBuffered)
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
	}
	if e.Reason != nil {
		text += fmt.Sprintf(" (%v)", e.Reason)
	}
	return text
}

// Unwrap gives the reason of the context, and why nothing left the buffer.
func (e *BufferFullError) Unwrap() []error {
	var reasons []error
	for _, err := range []error{e.Err, e.Reason} {
		if err != nil {
			reasons = append(reasons, err)
		}
	}
	return reasons
}

// A RecordTooLargeError refuses a record before it is given a sequence: alone, and not
// compressed, it would need a larger batch than the topic takes. When the limit of the topic
// was lowered while the record waited, it is the cause of a *[NotStored].
type RecordTooLargeError struct {
	Bytes int // of a batch with this record alone
	Limit int // of a batch of the topic
}

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("sdk: record needs a batch of %d bytes, the topic takes %d", e.Bytes, e.Limit)
}

// A CorruptBatchError says that a batch cannot be given to a consumer: its checksums or
// its records are wrong.
type CorruptBatchError struct {
	Topic     string
	Partition int
	Offset    int64 // where the batch was expected
	Err       error
}

func (e *CorruptBatchError) Error() string {
	return fmt.Sprintf("sdk: consume %q partition %d offset %d: corrupt batch: %v", e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap gives what is wrong with it.
func (e *CorruptBatchError) Unwrap() error { return e.Err }

// A GapError says that the server left out offsets that nothing explains.
type GapError struct {
	Topic         string
	Partition     int
	Expected, Got int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("sdk: consume %q partition %d: offsets %d to %d are missing", e.Topic, e.Partition, e.Expected, e.Got-1)
}

// Stage is where connecting failed.
type Stage = transport.Stage

// The stages of connecting, in their order.
const (
	StageOptions   Stage = "options"
	StageURL             = transport.StageURL
	StageResolve         = transport.StageResolve
	StageUDP             = transport.StageUDP
	StageTLS             = transport.StageTLS
	StageALPN            = transport.StageALPN
	StageVersion         = transport.StageVersion
	StageHandshake       = transport.StageHandshake
)

// A DialError is what every failed [Dial] returns.
type DialError struct {
	Stage Stage  // how far it came; with several servers, the farthest
	Addr  string // host and port, or all of them
	Err   error
}

func (e *DialError) Error() string {
	if e.Addr == "" {
		return fmt.Sprintf("sdk: dial: %s: %v", e.Stage, e.Err)
	}
	return fmt.Sprintf("sdk: dial %s: %s: %v", e.Addr, e.Stage, e.Err)
}

// Unwrap gives the reason.
func (e *DialError) Unwrap() error { return e.Err }

var stageOrder = map[Stage]int{StageResolve: 1, StageUDP: 2, StageTLS: 3, StageALPN: 4, StageVersion: 5, StageHandshake: 6}

// dialError makes the *DialError of a failed dial of one server or several.
func dialError(addrs string, err error) error {
	if one, ok := err.(*transport.Error); ok {
		return &DialError{Stage: one.Stage, Addr: one.Addr, Err: one.Err}
	}
	all := &DialError{Stage: StageUDP, Addr: addrs, Err: err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all.Stage = StageResolve
		for _, e := range joined.Unwrap() {
			var one *transport.Error
			if errors.As(e, &one) && stageOrder[one.Stage] > stageOrder[all.Stage] {
				all.Stage = one.Stage
			}
		}
	}
	return all
}

// tooLarge turns the error of the batcher into the public one.
func tooLarge(err error) error {
	var large *batcher.TooLargeError
	if errors.As(err, &large) {
		return &RecordTooLargeError{Bytes: large.Bytes, Limit: large.Limit}
	}
	return fmt.Errorf("sdk: record: %w", err)
}

// unsendable is tooLarge for what was accepted and then could not be sent, for whatever reason.
func unsendable(err error) error {
	if _, large := err.(*batcher.TooLargeError); large {
		return tooLarge(err)
	}
	return err
}

// produceCause turns the reason of a lane into a public error.
func produceCause(err error, topic string, partition int, producerID uint64) error {
	out := serverError("produce", topic, err)
	var se *ServerError
	if errors.As(out, &se) {
		se.Partition, se.ProducerID = partition, producerID
		if se.Code == wire.CodeVersionUnsupported { // a result has no field for what its sender knows
			se.Version = int(batchfmt.Version1)
			if producerID != uint64(batchfmt.NoProducer) {
				se.Version = int(batchfmt.Version2)
			}
		}
	}
	return out
}
