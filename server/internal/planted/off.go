//go:build !planted

package planted

// The bugs, none of which is there.
const (
	SameTopicID    = false
	LeftDeletes    = false
	EpochWraps     = false
	IDsAgain       = false
	NamesUnchecked = false

	DedupOff          = false
	EarlyState        = false
	EarlyAck          = false
	WrittenAsSynced   = false
	WrittenPersists   = false
	SyncNotDue        = false
	LimitsFirst       = false
	ClockExpiry       = false
	LostIsStored      = false
	NoReplay          = false
	EarlyDuplicate    = false
	EarlyConflict     = false
	EarlySnapshot     = false
	CheckpointIgnored = false
	EvictWithoutRow   = false
	ForgottenIsNew    = false
	SnapshotBeyondEnd = false
	UnreadAsNew       = false
	FenceNotAwaited   = false

	GapAccepted       = false
	ConflictTaken     = false
	WindowOnly        = false
	WindowOffByOne    = false
	RightsOff         = false
	WitnessOff        = false
	SlotLeak          = false
	UncheckedSnapshot = false
	LostWindow        = false
	FenceIgnored      = false
	ResolveGuesses    = false
	ClosedStay        = false
	IndexLaneAccepts  = false
	IndexesUnasked    = false

	ForgottenNotRemembered = false
	MergeRemovesFirst      = false

	CutDespiteDurable = false
	TrustUnsyncedTail = false
	TruncateFirst     = false
	NoDirSync         = false
	RetryFailedSync   = false
	LostUndo          = false
	SkipBodyCheck     = false
	UncheckedRead     = false
	ReuseOffsets      = false
	RewriteNothing    = false

	CopyTwice        = false
	EarlyData        = false
	RecordsUnchecked = false
)
