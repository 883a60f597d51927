//go:build planted

package planted

import "os"

// The bugs, of which the environment switches one on.
var (
	DedupOff   = os.Getenv(EnvBug) == NameDedupOff
	EarlyState = os.Getenv(EnvBug) == NameEarlyState
	EarlyAck   = os.Getenv(EnvBug) == NameEarlyAck

	CutDespiteDurable = os.Getenv(EnvBug) == NameCutDespiteDurable
	TrustUnsyncedTail = os.Getenv(EnvBug) == NameTrustUnsyncedTail
	TruncateFirst     = os.Getenv(EnvBug) == NameTruncateFirst
	NoDirSync         = os.Getenv(EnvBug) == NameNoDirSync
	RetryFailedSync   = os.Getenv(EnvBug) == NameRetryFailedSync
	LostUndo          = os.Getenv(EnvBug) == NameLostUndo
	SkipBodyCheck     = os.Getenv(EnvBug) == NameSkipBodyCheck
	UncheckedRead     = os.Getenv(EnvBug) == NameUncheckedRead
	ReuseOffsets      = os.Getenv(EnvBug) == NameReuseOffsets
)
