// Package catalog is the server's durable memory of everything that is not a record:
// which topics exist, who a producer is and who may write for it, and how often each
// partition has changed its owner. It is one bbolt file, catalog.db, in the data
// directory.
//
// The nouns of the package:
//
//   - [Catalog] is the open file. Exactly one process has it open: a second [Open] of
//     the same directory gets [ErrLocked].
//   - [Topic] is a name, a random id of this incarnation of the name, a number of
//     partitions and a [TopicConfig]. A topic that was deleted and made again has
//     another id. Between the deletion and [Catalog.FinishDelete] it is a pending
//     delete, so that a crash leaves no orphaned directory.
//   - A term counts the owners of a partition. [Catalog.NextTerms] never gives a term
//     twice, even when the partition's log was empty or cut.
//   - [Producer] is who holds a producer id: the instance that asked for it, the epoch
//     and the secret key. Ids come from blocks that are reserved on disk before the
//     first id of a block is given away. They start at 1 and end at [MaxProducerID];
//     the ids of Kafka clients lie above.
//   - A name ("orders-7") keeps its producer id for ever; every new instance that asks
//     for the name gets the next epoch and fences the instance before it.
//
// # How it writes
//
// One goroutine, started by Open and waited for by Close, does all writing. It takes
// every request that has come in while the previous commit was under way and commits
// them together, so a thousand concurrent requests share two syncs. A request decides
// first and writes last, hence a refusal leaves nothing behind in the group's commit.
// Whatever a method returns is on disk before it returns.
//
// When a commit fails and it is not certain that nothing of it reached the disk, the
// catalog takes no more writes and trusts none of its producer rows until it is opened
// anew ([ErrBroken]). A full disk is told apart ([ErrFull]): nothing has happened then
// and the same request may succeed later. Topics stay readable in both cases, from
// memory.
//
// # What is in the file
//
// Every value is {version, body, CRC32C of key and all before it}; see row.go. A value
// that does not decode gives a [DamagedError] and never a wrong answer. A file, or a value,
// that a newer release has written is no damage: it gives a [VersionError] that says so, at the
// start if it is the file, a topic or a count, and whoever comes upon it changes nothing. The pages
// between the values are bbolt's and carry no checksum: faults that bbolt runs into
// there are caught and become a DamagedError as well.
//
// [FindTopic], [StartsOf] and [Verify] look into a catalog that no server has open, for reading
// only. The first two let go of it at once, so they keep no server from starting.
//
// The package never touches the directories of partitions, never decides about a batch
// and never deletes a name.
package catalog
