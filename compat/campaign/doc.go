// Package campaign is for tests that can be made as large as there is time: crash states,
// torn writes, kills. Each has a size for every day and takes a larger one by a flag; a run
// of any size leaves one line in a ledger, so that what was tried, on which commit and with
// which seeds is known later.
//
// The ledger is the file named by the flag -ledger; without the flag nothing is written. A
// line is one JSON object: time, what, commit, seeds, counts, verdict.
package campaign
