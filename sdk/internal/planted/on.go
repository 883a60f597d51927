//go:build planted

package planted

import "os"

// The bugs, of which the environment switches one on.
var (
	StickyOff     = os.Getenv(EnvBug) == NameStickyOff
	ResendUnknown = os.Getenv(EnvBug) == NameResendUnknown
	UnknownFails  = os.Getenv(EnvBug) == NameUnknownFails
	CancelFails   = os.Getenv(EnvBug) == NameCancelFails
	CancelLeaves  = os.Getenv(EnvBug) == NameCancelLeaves

	FenceOff            = os.Getenv(EnvBug) == NameFenceOff
	EpochKept           = os.Getenv(EnvBug) == NameEpochKept
	SequenceSpent       = os.Getenv(EnvBug) == NameSequenceSpent
	RefusalRetried      = os.Getenv(EnvBug) == NameRefusalRetried
	GapFails            = os.Getenv(EnvBug) == NameGapFails
	AckCompletesEarlier = os.Getenv(EnvBug) == NameAckCompletesEarlier
	MemoryOff           = os.Getenv(EnvBug) == NameMemoryOff
	Reroute             = os.Getenv(EnvBug) == NameReroute
	TopicShrinks        = os.Getenv(EnvBug) == NameTopicShrinks
	BufferReused        = os.Getenv(EnvBug) == NameBufferReused

	ClaimWar      = os.Getenv(EnvBug) == NameClaimWar
	OutboxForgets = os.Getenv(EnvBug) == NameOutboxForgets
	PositionLost  = os.Getenv(EnvBug) == NamePositionLost

	FlushEarly       = os.Getenv(EnvBug) == NameFlushEarly
	CallbacksSwapped = os.Getenv(EnvBug) == NameCallbacksSwapped
)
