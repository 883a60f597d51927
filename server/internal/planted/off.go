//go:build !planted

package planted

// The bugs, none of which is there.
const (
	DedupOff   = false
	EarlyState = false
	EarlyAck   = false

	CutDespiteDurable = false
	TrustUnsyncedTail = false
	TruncateFirst     = false
	NoDirSync         = false
	RetryFailedSync   = false
	LostUndo          = false
	SkipBodyCheck     = false
	UncheckedRead     = false
	ReuseOffsets      = false
)
