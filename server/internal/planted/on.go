//go:build planted

package planted

import "os"

// The bugs, of which the environment switches one on.
var (
	SameTopicID    = os.Getenv(EnvBug) == NameSameTopicID
	LeftDeletes    = os.Getenv(EnvBug) == NameLeftDeletes
	EpochWraps     = os.Getenv(EnvBug) == NameEpochWraps
	IDsAgain       = os.Getenv(EnvBug) == NameIDsAgain
	NamesUnchecked = os.Getenv(EnvBug) == NameNamesUnchecked

	DedupOff          = os.Getenv(EnvBug) == NameDedupOff
	EarlyState        = os.Getenv(EnvBug) == NameEarlyState
	EarlyAck          = os.Getenv(EnvBug) == NameEarlyAck
	WrittenAsSynced   = os.Getenv(EnvBug) == NameWrittenAsSynced
	WrittenPersists   = os.Getenv(EnvBug) == NameWrittenPersists
	SyncNotDue        = os.Getenv(EnvBug) == NameSyncNotDue
	LimitsFirst       = os.Getenv(EnvBug) == NameLimitsFirst
	ClockExpiry       = os.Getenv(EnvBug) == NameClockExpiry
	LostIsStored      = os.Getenv(EnvBug) == NameLostIsStored
	NoReplay          = os.Getenv(EnvBug) == NameNoReplay
	EarlyDuplicate    = os.Getenv(EnvBug) == NameEarlyDuplicate
	EarlyConflict     = os.Getenv(EnvBug) == NameEarlyConflict
	EarlySnapshot     = os.Getenv(EnvBug) == NameEarlySnapshot
	CheckpointIgnored = os.Getenv(EnvBug) == NameCheckpointIgnored
	EvictWithoutRow   = os.Getenv(EnvBug) == NameEvictWithoutRow
	ForgottenIsNew    = os.Getenv(EnvBug) == NameForgottenIsNew
	SnapshotBeyondEnd = os.Getenv(EnvBug) == NameSnapshotBeyondEnd
	UnreadAsNew       = os.Getenv(EnvBug) == NameUnreadAsNew
	FenceNotAwaited   = os.Getenv(EnvBug) == NameFenceNotAwaited

	GapAccepted       = os.Getenv(EnvBug) == NameGapAccepted
	ConflictTaken     = os.Getenv(EnvBug) == NameConflictTaken
	WindowOnly        = os.Getenv(EnvBug) == NameWindowOnly
	WindowOffByOne    = os.Getenv(EnvBug) == NameWindowOffByOne
	RightsOff         = os.Getenv(EnvBug) == NameRightsOff
	WitnessOff        = os.Getenv(EnvBug) == NameWitnessOff
	SlotLeak          = os.Getenv(EnvBug) == NameSlotLeak
	UncheckedSnapshot = os.Getenv(EnvBug) == NameUncheckedSnapshot
	LostWindow        = os.Getenv(EnvBug) == NameLostWindow
	FenceIgnored      = os.Getenv(EnvBug) == NameFenceIgnored
	ResolveGuesses    = os.Getenv(EnvBug) == NameResolveGuesses
	ClosedStay        = os.Getenv(EnvBug) == NameClosedStay
	IndexLaneAccepts  = os.Getenv(EnvBug) == NameIndexLaneAccepts
	IndexesUnasked    = os.Getenv(EnvBug) == NameIndexesUnasked

	ForgottenNotRemembered = os.Getenv(EnvBug) == NameForgottenNotRemembered
	MergeRemovesFirst      = os.Getenv(EnvBug) == NameMergeRemovesFirst

	CutDespiteDurable = os.Getenv(EnvBug) == NameCutDespiteDurable
	TrustUnsyncedTail = os.Getenv(EnvBug) == NameTrustUnsyncedTail
	TruncateFirst     = os.Getenv(EnvBug) == NameTruncateFirst
	NoDirSync         = os.Getenv(EnvBug) == NameNoDirSync
	RetryFailedSync   = os.Getenv(EnvBug) == NameRetryFailedSync
	LostUndo          = os.Getenv(EnvBug) == NameLostUndo
	SkipBodyCheck     = os.Getenv(EnvBug) == NameSkipBodyCheck
	UncheckedRead     = os.Getenv(EnvBug) == NameUncheckedRead
	ReuseOffsets      = os.Getenv(EnvBug) == NameReuseOffsets
	RewriteNothing    = os.Getenv(EnvBug) == NameRewriteNothing

	CopyTwice        = os.Getenv(EnvBug) == NameCopyTwice
	EarlyData        = os.Getenv(EnvBug) == NameEarlyData
	RecordsUnchecked = os.Getenv(EnvBug) == NameRecordsUnchecked
)
