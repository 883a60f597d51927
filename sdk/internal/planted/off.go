//go:build !planted

package planted

// The bugs, none of which is there.
const (
	StickyOff     = false
	ResendUnknown = false
	UnknownFails  = false
	CancelFails   = false
	CancelLeaves  = false

	FenceOff            = false
	EpochKept           = false
	SequenceSpent       = false
	RefusalRetried      = false
	GapFails            = false
	AckCompletesEarlier = false
	MemoryOff           = false
	Reroute             = false
	TopicShrinks        = false
	BufferReused        = false

	ClaimWar      = false
	OutboxForgets = false
	PositionLost  = false

	FlushEarly       = false
	CallbacksSwapped = false
)
