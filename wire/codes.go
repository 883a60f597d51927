package wire

import "fmt"

// Code is the number of an error, on the wire and as a QUIC application close code.
type Code uint16

// Outcome says what a refused request did.
type Outcome uint8

const (
	NothingHappened Outcome = iota // the request changed nothing
	OutcomeUnknown                 // it may have been carried out
	Happened                       // it was carried out, now or before
)

func (o Outcome) String() string {
	return [...]string{"nothing happened", "unknown", "happened"}[o]
}

// Actor is who has to do something about an error.
type Actor uint8

const (
	ActorClient   Actor = iota // the SDK, by itself: retry, reconnect
	ActorApp                   // the program that uses the SDK
	ActorOperator              // whoever runs the server
)

func (a Actor) String() string { return [...]string{"client", "application", "operator"}[a] }

// The codes. A number is never used again for something else. 0 is no error.
const (
	CodeOK Code = 0

	// the connection
	CodeShutdown           Code = 1
	CodeProtocol           Code = 2
	CodeUnsupportedVersion Code = 3
	CodeHandshakeTimeout   Code = 4
	CodeThrottled          Code = 5
	CodeInternal           Code = 6
	CodeUnknownKind        Code = 7
	CodeInvalidRequest     Code = 8
	CodeSuperseded         Code = 9

	// topics and partitions
	CodeUnknownTopic       Code = 20
	CodeUnknownTopicID     Code = 21
	CodeUnknownPartition   Code = 22
	CodeTopicExists        Code = 23
	CodeInvalidTopic       Code = 24
	CodeInvalidPartitions  Code = 25
	CodeOffsetOutOfRange   Code = 26
	CodePartitionStopped   Code = 27
	CodeVersionUnsupported Code = 28

	// batches
	CodeCorruptBatch       Code = 40
	CodeMessageTooLarge    Code = 41
	CodeStorageError       Code = 42
	CodeDiskFull           Code = 43
	CodeDurabilityUnknown  Code = 44
	CodeInvalidDurability  Code = 45
	CodeTooManyInFlight    Code = 46
	CodeInvalidLane        Code = 47
	CodeUnsupportedRecords Code = 48
	CodeBatchUnreadable    Code = 49
	CodeLookUpFailed       Code = 50

	// producers
	CodeOutOfOrder               Code = 60
	CodeInvalidProducerEpoch     Code = 61
	CodeUnknownProducerID        Code = 62
	CodeSequenceConflict         Code = 63
	CodeProducerLimitReached     Code = 64
	CodeProducerCloned           Code = 65
	CodeDataLoss                 Code = 66
	CodeUnknownOutcome           Code = 67
	CodeTransactionalUnsupported Code = 68
	CodeInvalidProducerName      Code = 69
	CodeProducerKeyMismatch      Code = 70
)

// CodeInfo is a row of the error table.
type CodeInfo struct {
	Code    Code
	Name    string
	Retry   bool    // repeating the very same request is safe and may help
	Outcome Outcome // of the request that got this answer
	Actor   Actor
	Text    string
}

// codeTable is the one table of errors. Replies carry the number; people are shown the
// name.
var codeTable = []CodeInfo{
	{CodeOK, "OK", false, Happened, ActorClient, "no error"},
	{CodeShutdown, "SHUTDOWN", true, OutcomeUnknown, ActorClient, "the server is shutting down"},
	{CodeProtocol, "PROTOCOL_ERROR", false, OutcomeUnknown, ActorApp, "the peer broke the protocol"},
	{CodeUnsupportedVersion, "UNSUPPORTED_VERSION", false, NothingHappened, ActorApp, "the peers have no protocol version in common"},
	{CodeHandshakeTimeout, "HANDSHAKE_TIMEOUT", true, NothingHappened, ActorClient, "the first frame did not come in time"},
	{CodeThrottled, "THROTTLED", true, NothingHappened, ActorClient, "the server has no room for this now"},
	{CodeInternal, "INTERNAL_ERROR", false, OutcomeUnknown, ActorOperator, "the server failed; its log says more"},
	{CodeUnknownKind, "UNKNOWN_FRAME_KIND", false, NothingHappened, ActorApp, "a frame of a kind that this side does not know"},
	{CodeInvalidRequest, "INVALID_REQUEST", false, NothingHappened, ActorApp, "a field of the request is not allowed"},
	{CodeSuperseded, "SUPERSEDED", true, OutcomeUnknown, ActorClient, "a newer opening of the lane took over"},
	{CodeUnknownTopic, "UNKNOWN_TOPIC", false, NothingHappened, ActorApp, "no topic has this name"},
	{CodeUnknownTopicID, "UNKNOWN_TOPIC_ID", false, NothingHappened, ActorApp, "no topic has this id; it may have been deleted, or deleted and made again"},
	{CodeUnknownPartition, "UNKNOWN_PARTITION", false, NothingHappened, ActorApp, "the topic has no such partition"},
	{CodeTopicExists, "TOPIC_ALREADY_EXISTS", false, NothingHappened, ActorApp, "a topic of this name exists"},
	{CodeInvalidTopic, "INVALID_TOPIC", false, NothingHappened, ActorApp, "the name or a setting of the topic is not allowed"},
	{CodeInvalidPartitions, "INVALID_PARTITIONS", false, NothingHappened, ActorApp, "the number of partitions is not allowed"},
	{CodeOffsetOutOfRange, "OFFSET_OUT_OF_RANGE", false, NothingHappened, ActorApp, "the offset is below the log start or above the end"},
	{CodePartitionStopped, "PARTITION_STOPPED", true, NothingHappened, ActorOperator, "the partition takes no writes after a storage failure, until the server is restarted"},
	{CodeVersionUnsupported, "BATCH_VERSION_UNSUPPORTED", false, NothingHappened, ActorApp, "a side cannot read this batch version"},
	{CodeCorruptBatch, "CORRUPT_BATCH", false, NothingHappened, ActorApp, "the bytes are not a valid batch"},
	{CodeMessageTooLarge, "MESSAGE_TOO_LARGE", false, NothingHappened, ActorApp, "the batch is over the topic's limit"},
	{CodeStorageError, "STORAGE_ERROR", true, NothingHappened, ActorOperator, "the append failed and was undone"},
	{CodeDiskFull, "DISK_FULL", true, NothingHappened, ActorOperator, "the disk is full; the append was undone"},
	{CodeDurabilityUnknown, "DURABILITY_UNKNOWN", true, OutcomeUnknown, ActorOperator, "the sync failed: the batch may or may not be on disk"},
	{CodeInvalidDurability, "INVALID_DURABILITY", false, NothingHappened, ActorApp, "the server does not offer this durability"},
	{CodeTooManyInFlight, "TOO_MANY_IN_FLIGHT", true, NothingHappened, ActorClient, "the lane has more batches in flight than the server agreed to"},
	{CodeInvalidLane, "INVALID_LANE", true, NothingHappened, ActorClient, "the stream has no lane of this number"},
	{CodeUnsupportedRecords, "UNSUPPORTED_RECORDS", false, NothingHappened, ActorApp, "the batch holds what this server does not accept from producers"},
	{CodeBatchUnreadable, "BATCH_UNREADABLE", false, Happened, ActorOperator, "the batch was stored and cannot be read any more"},
	{CodeLookUpFailed, "LOOK_UP_FAILED", true, OutcomeUnknown, ActorOperator, "the batch may be stored, and the log could not be searched for it"},
	{CodeOutOfOrder, "OUT_OF_ORDER_SEQUENCE_NUMBER", true, NothingHappened, ActorClient, "an earlier batch of the lane is missing"},
	{CodeInvalidProducerEpoch, "INVALID_PRODUCER_EPOCH", false, OutcomeUnknown, ActorApp, "another instance holds the producer id now"},
	{CodeUnknownProducerID, "UNKNOWN_PRODUCER_ID", false, OutcomeUnknown, ActorApp, "the partition knows nothing of this producer and cannot tell what it stored"},
	{CodeSequenceConflict, "SEQUENCE_CONFLICT", false, NothingHappened, ActorApp, "the sequences hold another batch"},
	{CodeProducerLimitReached, "PRODUCER_LIMIT_REACHED", true, NothingHappened, ActorOperator, "the partition holds as many producers as it may"},
	{CodeProducerCloned, "PRODUCER_CLONED", false, NothingHappened, ActorApp, "somebody else wrote under this producer id"},
	{CodeDataLoss, "DATA_LOSS", false, NothingHappened, ActorOperator, "the server lacks what it acknowledged before"},
	{CodeUnknownOutcome, "UNKNOWN_OUTCOME", false, OutcomeUnknown, ActorApp, "the server cannot tell whether the batch was stored"},
	{CodeTransactionalUnsupported, "TRANSACTIONAL_ID_UNSUPPORTED", false, NothingHappened, ActorApp, "there are no transactions"},
	{CodeInvalidProducerName, "INVALID_PRODUCER_NAME", false, NothingHappened, ActorApp, "the producer name is not allowed"},
	{CodeProducerKeyMismatch, "PRODUCER_KEY_MISMATCH", false, NothingHappened, ActorApp, "the producer key is not that of the producer id"},
}

var codeIndex = func() map[Code]CodeInfo {
	index := make(map[Code]CodeInfo, len(codeTable))
	for _, row := range codeTable {
		index[row.Code] = row
	}
	return index
}()

// Codes returns the error table, in the order of the numbers.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codeTable...) }

// Info returns the row of c. A code of a newer peer has the outcome unknown and is not
// to be retried: that is the reading that can do no harm.
func (c Code) Info() CodeInfo {
	if row, ok := codeIndex[c]; ok {
		return row
	}
	return CodeInfo{Code: c, Name: fmt.Sprintf("ERROR_%d", uint16(c)), Outcome: OutcomeUnknown,
		Actor: ActorApp, Text: "an error that this version does not know"}
}

func (c Code) String() string { return c.Info().Name }
