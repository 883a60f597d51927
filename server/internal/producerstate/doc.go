// Package producerstate is what one partition knows of its producers, and the rules
// that it draws from that: whether a batch is new, a retry, a conflict, or something
// about which nothing honest can be said.
//
// The nouns:
//
//   - A lane is one producer in this partition. Its sequences have no hole: whatever
//     lies between its floor and its last sequence was appended, once.
//   - [Identity] is what a batch claims to be; it is sealed in the batch and a retry
//     has the same one.
//   - [Right] is what the stream may do. It is not in the batch: it belongs to the
//     instance that holds the producer id and to the newest opening of the lane.
//   - [Lane] remembers the last five batches exactly, and of all earlier ones that
//     they are stored.
//   - [Evidence] is what had to be asked elsewhere: the durable end, the search for a
//     lane, the look-up of an old batch on disk.
//   - A forgotten lane is one of which the State has nothing, and may have had something.
//     Of it only that is true which a look-up proves; it never takes a new batch.
//   - [Decide] turns the four into a [Verdict]; [Open] does the same when a stream
//     opens a lane.
//   - [State] holds the lanes of the partition and moves them: Apply with an append,
//     Rollback when its write failed, Replay at recovery, snapshots in between.
//
// Sequences count the records of a lane, offsets those of the partition. "Pending" is
// what stands at or behind the durable end: it is appended and may yet be lost.
//
// The package is pure. It does no I/O, looks at no clock, starts no goroutine and takes
// no lock: the owner loop of the partition owns the State and everything it hands out.
// It never evicts a lane, never decides while it replays, and never panics on what a
// peer or a disk may contain.
package producerstate
