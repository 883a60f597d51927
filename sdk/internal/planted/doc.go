// Package planted holds bugs of a producer that a test build can switch on, so that the
// tests which promise to catch them can be shown to do so. Only a build with the tag
// "planted" can, by naming one in the environment; in every other build all of them are
// constants, false, and the compiler leaves nothing of them behind.
package planted

// EnvBug names the variable that holds the name of the bug to switch on, in a build with
// the tag "planted". It is that of the server's bugs too, whose names are others.
const EnvBug = "QUOIN_PLANTED_BUG"

// The names of the bugs.
const (
	// NameStickyOff believes the last answer alone: what may be stored since an earlier
	// attempt is not, if the last one says that nothing happened.
	NameStickyOff = "sticky-off"
	// NameResendUnknown sends a batch again of which was told that nobody knows its outcome.
	NameResendUnknown = "resend-unknown"
	// NameUnknownFails says of what is open at the end of a lane that it is not stored.
	NameUnknownFails = "unknown-fails"
	// NameCancelFails says of a Send that gives up that its record is not stored, wherever it is.
	NameCancelFails = "cancel-fails"
	// NameCancelLeaves takes nothing back that was not handed over yet.
	NameCancelLeaves = "cancel-leaves"

	// NameFenceOff takes "not stored yet" for "never stored" and numbers anew what stood behind.
	NameFenceOff = "fence-off"
	// NameEpochKept numbers anew behind a fence under the same epoch.
	NameEpochKept = "epoch-kept"
	// NameSequenceSpent goes on behind the sequences of a batch that was refused.
	NameSequenceSpent = "sequence-spent"
	// NameRefusalRetried sends again what the server refused for good.
	NameRefusalRetried = "refusal-retried"
	// NameGapFails takes a batch that came too early for one that is refused.
	NameGapFails = "gap-fails"
	// NameAckCompletesEarlier takes what stands before a batch that was stored for stored with it.
	NameAckCompletesEarlier = "ack-completes-earlier"
	// NameMemoryOff opens a lane as if nothing of it were known.
	NameMemoryOff = "memory-off"
	// NameReroute opens a lane in another partition when its own makes it wait.
	NameReroute = "reroute"
	// NameTopicShrinks believes that a topic has fewer partitions than before.
	NameTopicShrinks = "topic-shrinks"
	// NameBufferReused gives the memory of a batch away before the batch has its outcome.
	NameBufferReused = "buffer-reused"

	// NameClaimWar claims a name again when another instance has claimed it.
	NameClaimWar = "claim-war"
	// NameOutboxForgets begins with an outbox as if it were empty.
	NameOutboxForgets = "outbox-forgets"
	// NamePositionLost does not look at the position that the server has.
	NamePositionLost = "position-lost"

	// NameFlushEarly flushes only what was not handed over yet.
	NameFlushEarly = "flush-early"
	// NameCallbacksSwapped calls the callbacks of several batches in the wrong order.
	NameCallbacksSwapped = "callbacks-swapped"
)
