// Package planted holds bugs that a test build can switch on, so that the tests which
// promise to catch them can be shown to do so. Only a build with the tag "planted" can,
// by naming one in the environment; in every other build all of them are constants, false,
// and the compiler leaves nothing of them behind.
package planted

// EnvBug names the variable that holds the name of the bug to switch on, in a build with
// the tag "planted".
const EnvBug = "QUOIN_PLANTED_BUG"

// The names of the bugs.
const (
	// NameSameTopicID makes the id of a topic from its name.
	NameSameTopicID = "same-topic-id"
	// NameLeftDeletes never ends the deletion of a topic that a crash has interrupted.
	NameLeftDeletes = "left-deletes"
	// NameEpochWraps begins the epochs of a name anew when they are used up.
	NameEpochWraps = "epoch-wraps"
	// NameIDsAgain hands out producer ids whose block is not written down.
	NameIDsAgain = "ids-again"
	// NameNamesUnchecked takes any bytes for the name of a producer.
	NameNamesUnchecked = "names-unchecked"

	// NameDedupOff appends every batch without asking whether it is a retry.
	NameDedupOff = "dedup-off"
	// NameEarlyState keeps the producer state that moved with an append which then failed.
	NameEarlyState = "early-state"
	// NameEarlyAck answers a batch when it is written, before it is synced.
	NameEarlyAck = "early-ack"
	// NameWrittenAsSynced answers a batch that is only written without saying so.
	NameWrittenAsSynced = "written-as-synced"
	// NameWrittenPersists takes a batch that is only written, and all before it, for persisted.
	NameWrittenPersists = "written-persists"
	// NameSyncNotDue syncs only when somebody waits for it.
	NameSyncNotDue = "sync-not-due"
	// NameLimitsFirst asks for the size of a batch before it asks whether it is a retry.
	NameLimitsFirst = "limits-first"
	// NameClockExpiry forgets all producers when the wall clock is a day ahead of the last append.
	NameClockExpiry = "clock-expiry"
	// NameLostIsStored answers retries of batches that the log has lost as stored.
	NameLostIsStored = "lost-is-stored"
	// NameNoReplay takes the state of producers from a snapshot alone, or for empty.
	NameNoReplay = "no-replay"
	// NameEarlyDuplicate answers the retry of a batch that is not durable yet.
	NameEarlyDuplicate = "early-duplicate"
	// NameEarlyConflict tells of a conflict before what stands in the way is durable.
	NameEarlyConflict = "early-conflict"
	// NameEarlySnapshot writes a snapshot before all that it tells of is durable.
	NameEarlySnapshot = "early-snapshot"
	// NameCheckpointIgnored opens a log without saying how far its snapshot proves it.
	NameCheckpointIgnored = "checkpoint-ignored"
	// NameEvictWithoutRow drops producers from memory whose rows are not on disk.
	NameEvictWithoutRow = "evict-without-row"
	// NameUnreadAsNew takes a producer whose row the disk does not give back for a new one.
	NameUnreadAsNew = "unread-as-new"
	// NameForgottenIsNew takes a producer whose row was dropped for a new one.
	NameForgottenIsNew = "forgotten-is-new"
	// NameSnapshotBeyondEnd believes a snapshot of more than the log has.
	NameSnapshotBeyondEnd = "snapshot-beyond-end"
	// NameFenceNotAwaited takes a fence for durable before it is synced.
	NameFenceNotAwaited = "fence-not-awaited"

	// NameGapAccepted appends a batch although one before it is missing.
	NameGapAccepted = "gap-accepted"
	// NameConflictTaken takes whatever holds the same sequences for the same batch.
	NameConflictTaken = "conflict-taken"
	// NameWindowOnly takes what the window has forgotten for out of order.
	NameWindowOnly = "window-only"
	// NameWindowOffByOne takes the batch just behind the window for out of order.
	NameWindowOffByOne = "window-off-by-one"
	// NameRightsOff lets whoever had the right to write once write for ever, under any epoch.
	NameRightsOff = "rights-off"
	// NameWitnessOff opens lanes that have less than was acknowledged, or more than was sent.
	NameWitnessOff = "witness-off"
	// NameSlotLeak keeps the place of a producer that never wrote.
	NameSlotLeak = "slot-leak"
	// NameUncheckedSnapshot believes a snapshot whose check is wrong.
	NameUncheckedSnapshot = "unchecked-snapshot"
	// NameLostWindow restores lanes from a snapshot without their last batches.
	NameLostWindow = "lost-window"
	// NameFenceIgnored appends batches whose epoch a fence has passed.
	NameFenceIgnored = "fence-ignored"
	// NameResolveGuesses says "not stored" where nobody can tell.
	NameResolveGuesses = "resolve-guesses"
	// NameClosedStay lets producers leave memory that may come back, before closed ones.
	NameClosedStay = "closed-stay"
	// NameIndexLaneAccepts takes what the log does not have of a forgotten producer for new.
	NameIndexLaneAccepts = "index-lane-accepts"
	// NameIndexesUnasked does not ask the log for batches of a forgotten producer.
	NameIndexesUnasked = "indexes-unasked"

	// NameForgottenNotRemembered drops retired rows without writing down that it did.
	NameForgottenNotRemembered = "forgotten-not-remembered"
	// NameMergeRemovesFirst removes retired runs before the head that replaces them is there.
	NameMergeRemovesFirst = "merge-removes-first"

	// NameCutDespiteDurable takes damage of what was synced for a torn end.
	NameCutDespiteDurable = "cut-despite-durable"
	// NameTrustUnsyncedTail takes what the system shows of the end of a log for durable.
	NameTrustUnsyncedTail = "trust-unsynced-tail"
	// NameTruncateFirst takes the end of a segment off before it is anywhere else.
	NameTruncateFirst = "truncate-first"
	// NameNoDirSync leaves the names of new segments to chance.
	NameNoDirSync = "no-dir-sync"
	// NameRetryFailedSync syncs again when a sync failed, and believes the second.
	NameRetryFailedSync = "retry-failed-sync"
	// NameLostUndo leaves in the file what a failed append wrote.
	NameLostUndo = "lost-undo"
	// NameSkipBodyCheck takes a batch in recovery by its front alone.
	NameSkipBodyCheck = "skip-body-check"
	// NameUncheckedRead gives readers batches by their fronts alone.
	NameUncheckedRead = "unchecked-read"
	// NameReuseOffsets goes on in front of a hole at the end of a log.
	NameReuseOffsets = "reuse-offsets"
	// NameRewriteNothing syncs the end of a log, where there is no room for a copy, without
	// writing it first.
	NameRewriteNothing = "rewrite-nothing"

	// NameCopyTwice takes a frame though a copy of it was taken before.
	NameCopyTwice = "copy-twice"
	// NameEarlyData takes data that comes before the handshake is done.
	NameEarlyData = "early-data"
	// NameRecordsUnchecked takes the header of a batch for what its records are.
	NameRecordsUnchecked = "records-unchecked"
)
