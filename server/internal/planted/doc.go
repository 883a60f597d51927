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
	// NameDedupOff appends every batch without asking whether it is a retry.
	NameDedupOff = "dedup-off"
	// NameEarlyState keeps the producer state that moved with an append which then failed.
	NameEarlyState = "early-state"
	// NameEarlyAck answers a batch when it is written, before it is synced.
	NameEarlyAck = "early-ack"

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
)
