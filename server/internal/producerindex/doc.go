// Package producerindex tells where in one segment of a log the batches of a producer stand.
// With it a retry of a batch that the producer state has long forgotten is found again, and
// answered with the offset that it got the first time. The index knows no more than places:
// whether a batch there is the one that is asked for, its header says.
//
// # Nouns
//
//   - Lane: the batches of one producer id in the segment.
//   - [Run]: batches of a lane that follow on, with nothing of the lane between them, under
//     one epoch: their sequences have no gap. A run ends where one does not follow on, or
//     begins more than [RunBytes] of log behind where the run began. So the batch that holds
//     a sequence is found by walking over the headers of at most RunBytes, and one batch,
//     from the run's first batch on.
//   - [Builder]: the index of a segment that is being written, in memory. It can be asked
//     while it is added to.
//   - [Index]: the index of a segment that is complete, in a file.
//
// # Which run
//
// The sequences of a lane rise with the log, except where a producer begins a new numbering:
// a Kafka client may do that under a higher epoch. Then several runs may hold a sequence, and
// the newest, that at the highest offset, is the one that counts: of an earlier numbering
// nothing is said where a later one holds the same sequence. Nothing here depends on who may
// number anew: a run that begins at or below the last sequence of the run before it begins a
// new numbering, whatever its producer id and epoch are.
//
// # The file
//
// N.pix beside N.seg, N being the base offset of the segment in 20 decimal digits. It is a
// table of package sorttable, which draws the file. All integers are little-endian, varints
// as there.
//
//	meta   0   4  magic           "QPIX"
//	       4   4  format version  1
//	       8   8  base offset     N
//	      16   8  segment check   the check in the header of N.seg
//	      24   8  next offset     behind the last record of the segment
//	      32   4  batch versions  bit n-1 says that batches of version n are in it
//	      36   4  reserved        zero
//
//	row of the last numbering      key A     producer id
//	                               key B     first sequence, below 2^63
//	                               value     varints: epoch; last sequence less the first;
//	                                         offset of the first batch less N; offset of the
//	                                         last batch less that of the first
//
//	row of an earlier numbering    key A     producer id
//	                               key B     2^63 + offset of the first batch
//	                               value     varints: epoch; first sequence; last sequence less
//	                                         the first; offset of the last batch less that of
//	                                         the first
//
// Within a numbering sequences and offsets rise together, so the run that holds a sequence in
// the last one is the row with the greatest key that is not above it: one block of the file.
// Only where that run does not hold it, and there are earlier numberings, all rows of those
// are gone through.
//
// # What is never done
//
//   - A file is never taken for the index of a segment that it was not made of: base, check
//     and end must agree.
//   - An index is never repaired. Whatever is wrong with it, it is made again of the segment;
//     so its loss costs time, not truth.
//   - A run that is found is no proof. What it says may have been lost to damage since.
package producerindex
