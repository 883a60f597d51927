// Package partition is the owner of one partition: one goroutine that decides about
// batches, appends them, moves the producer state with the append, and answers after the
// sync.
//
// Whoever has something for a partition puts it into its queue and goes on. The owner
// takes all that has queued as one group: it asks producerstate about each batch, stamps
// those that are accepted, and gives them to the log in one append. If that fails, the
// group and everything that was decided on top of it are undone. A second goroutine, the
// syncer, makes what was appended durable; while it is at it the owner appends the next
// groups, and one sync then covers all of them. What is not durable is shown to nobody:
// neither to readers nor to retries.
//
// The one exception is a sender who asked for no more than that his batch is written
// ([wire.Written]): he and his retries are answered before the sync, and the answer says so.
// If nobody waits for the sync of such batches it begins 100 ms after the oldest of them at
// the latest. A crash before it loses them; the lane is then refused to whoever says that it
// was acknowledged further than it reaches.
//
// The owner does not wait for the sync of what it appends, nor for a look-up in the log,
// nor for a client that does not take its answers. Two rare steps of the log do sync in
// the owner: the begin of a new segment, and the undo of a group that failed.
//
// What does not fit into memory is on disk, in the directory of the partition: lanes that
// nobody uses leave to the retired table (package retired), and where old batches stand is
// told by an index beside each segment (package producerindex). Helpers read and write
// them; the owner only takes what they bring. When a row had to be dropped, or cannot be read,
// the lane is forgotten: then the indexes are asked for the batch itself. What they lead to is
// told, and nothing else: they know of no fence, and not where the lane ended, so nothing new
// of it is taken and nothing is called final that the log does not prove.
//
// [Partition.Resolve] says what became of a batch, and can make "not stored" final by a fence
// in the log. [Partition.Explain] has the latest decisions for people who ask why.
//
// The nouns: a [Grant] is the right to write under a producer id, an [Opening] is one
// stream's hold on one lane, a [Sink] takes the results of batches.
package partition
