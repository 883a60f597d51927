// Package batcher gathers the records of a lane into batches and says when one is due.
// It is pure: records and a time go in, batches come out; it has no clock, no goroutine
// and no lock.
//
// The nouns of the package:
//
//   - a [Batch] is a builder that holds copies of the records, and one tag a record, which
//     belongs to the caller (who waits for the outcome of that record).
//   - a batch is open while records may still be added to it, and full afterwards.
//   - linger is how long an open batch waits for more records. It is 0 by default: then a
//     lane on which nothing is in flight sends at once, and a busy one sends with every
//     answer what queued meanwhile.
//   - the limit is how large a batch may be. When it is lowered, what waits is divided. A
//     batch is refused when its records cannot be sent any more: it keeps its place, so that
//     those records end in their turn.
//
// The package never numbers records and never seals one to be sent: that happens when the lane
// has room for it, so that a batch which was never sent has no sequences.
package batcher
