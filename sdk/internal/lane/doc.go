// Package lane is the decision core of a lane: the way of one producer into one
// partition. It says what is sent when, what may be sent again, and when a batch has its
// outcome. Events go in, actions come out; it has no I/O, no clock and no goroutine, so
// every rule of resending can be tested as a list of events.
//
// The nouns of the package:
//
//   - a [Batch] is frozen: its sequences and its bytes are fixed, and every attempt to
//     store it sends those same bytes. Only a batch that a fence has proved to be stored
//     nowhere is sealed anew, see settling.
//   - an opening is one OpenLane on one connection. The answers of an older opening
//     mean nothing any more.
//   - patience is how long an answer may take until the lane is opened anew and everything is
//     sent again. On a connection that lives answers are late, not lost, so it is long, and it
//     follows the times of the answers that came. Whether a connection lives is for others to
//     find out.
//   - the head is the oldest frozen batch without an outcome. Only an answer for the
//     head decides anything: whatever stands behind it waits for it. An answer speaks of its
//     own batch alone. What it says to be synced before that (PersistedThrough) is not looked
//     at: it would prove that a batch is stored, but not where, and a server answers each.
//   - a batch is uncertain when an attempt to store it had no answer, or an answer that
//     leaves it open. That never wears off: no later error can turn it into "not stored".
//   - a hole is what a refused batch leaves in the sequences while batches behind it were
//     sent already. It is filled, from the same sequence on, once no copy of those can
//     land any more; or the lane is over.
//   - settling is asking the server for a final word on a batch that is not sent again,
//     since its time is over, the lane is closed, or the application was told that nobody
//     knows its outcome. "Not stored" comes with a fence: nothing that this lane has sealed
//     can be stored any more. Then a higher epoch is asked for, what stood behind the
//     batch is sealed anew in the same order, and the lane goes on.
//   - an [Outcome] is what the application is told: stored, not stored, or unknown.
//     Every batch gets exactly one, in the order of the sequences.
//
// A [Plain] is the core of a lane without an identity, where nothing can be sent again or
// settled once it was handed over, for nobody could tell a copy from another batch.
//
// The core never numbers anew what may have been stored, never skips a sequence that the
// server may still wait for, never sends a batch again that was told to be unknown, and
// never asks for a higher epoch but behind a fence.
package lane
