// Package seglog is the append-only log of one partition: batches, in the order of
// their offsets, in segment files. It knows nothing of producers, topics or readers.
//
// # Nouns
//
//   - [Log]: one partition. One goroutine appends, any number sync and read meanwhile.
//   - Group: the batches of one [Log.Append]. They go down together or not at all, and a
//     group never spans two segments.
//   - Segment: one file, named by the offset of its first record. Only the last one, the
//     active segment, is written. A segment that has a successor was synced in full
//     before the successor was made.
//   - Index: for every few ten KiB of a segment the offset and the position of a batch,
//     in memory for the active segment, in a file for the others. It saves time only and
//     is made again from the segment whenever it is missing or does not verify.
//   - Fill: zeros that lie behind the last batch of the active segment. Syncing a write
//     onto blocks that exist takes about half the time of syncing one that makes them.
//   - Cut: what recovery took off the end of the last segment.
//   - Control batch: written by the server for itself. It uses no offset, the index never
//     points at one, and [Log.Read] never returns one.
//
// # Files
//
// In the directory of the partition; all integers little-endian. N is 20 decimal digits.
//
//	N.seg       0   4  magic           "QSEG"
//	            4   4  format version  1
//	            8   8  base offset     N
//	           16   8  created         Unix milliseconds
//	           24   8  check           XXH64 over [0,24)
//	           32   .  batches, one behind the other; then, in the active segment, zeros
//
//	N.idx       0   4  magic           "QIDX"
//	            4   4  format version  1
//	            8   8  base offset     N
//	           16   8  segment check   the check in the header of N.seg
//	           24   8  next offset     the offset behind the last record that is described
//	           32   8  end             the position behind the last batch that is described;
//	                                   all before it was synced when this file was written
//	           40   8  append time     of the last batch up to there, Unix milliseconds, 0 if the
//	                                   log has none
//	           48   4  owner term      of the last batch up to there, likewise
//	           52   4  entries         how many follow
//	           56   .  entries         offset and position, 8 bytes each, both rising
//	            .   8  check           XXH64 over all before
//
//	N.idx.tmp   an index that is being written; renamed when it is synced
//
// # What is assumed of disks
//
//  1. Once a sync of a file returned nil, its bytes and its length survive a power cut;
//     once a sync of a directory did, the names in it do. Nothing else is durable.
//  2. Writes that were not synced may be there after a crash in any order, in any parts,
//     or not at all. A length may be there before the bytes are; they then read as zeros.
//  3. A rename is there as a whole or not at all.
//  4. Synced bytes may go bad later. Checksums find that; nothing here repairs it.
//  5. After a failed sync nobody knows what the disk has, and a second sync that succeeds
//     does not tell.
//
// # Recovery
//
// [Open] first looks and decides, and only then writes. It refuses with a
// [*CorruptError], and changes nothing, wherever it says "damage" below.
//
//  1. The directory is made if it is missing, with those above it, and their names durable.
//  2. The files are listed. No segment at all is a new log: step 8 makes its first one.
//     An index without its segment is damage: the segment was there.
//  3. Every segment but the last must have a header that verifies and an index that
//     verifies, belongs to the header, ends at the end of the file and where the next
//     segment begins, and agrees with the batches behind its last entry. One whose index
//     is missing or wrong is walked from its start, batch by batch. A bad batch, an end
//     that is not the start of the next segment, or bytes behind the last batch other
//     than zeros are damage, because the segment was synced before the next one was made.
//  4. A last segment whose header does not verify, with nothing but zeros behind it, is a
//     roll that a crash cut short: the header is written again in step 6. With anything
//     else behind it, it is damage.
//  5. The last segment is walked from the end of its index if that can be trusted, else
//     from its start. A batch is good if it parses, both its checksums are right, its
//     base offset is the next one and its term is not below the one before. The walk
//     ends well where only zeros follow, or nothing. At anything else, the bad place,
//     the rest of the file is searched for a good batch of a term not below that says
//     that more than the offset of the bad place was synced when it was appended; an
//     index that says so counts too. If there is one, the bad place is damage of
//     something that was acknowledged. If not, it is a torn end, and becomes the cut.
//  6. The cut is made: the file is truncated at the bad place.
//  7. The last segment and the directory are synced. What Open found may never have been
//     synced, and from here on readers see it.
//  8. Missing indexes are written, leftovers *.idx.tmp are removed, and the log is open.
//
// A crash anywhere in this leaves a directory for which the same steps end the same way.
//
// # What is never done
//
//   - A failed sync is never tried again to acknowledge anything: the log refuses all
//     further appends and syncs, until a new Open finds what the disk really has.
//   - Nothing is deleted by inference. Recovery takes off only the end of the last segment,
//     and only where nothing says that it was acknowledged; files that have no place here
//     are left alone; an error never makes a file go.
//   - A batch is never changed, moved or written twice, and a group never becomes visible
//     in part.
//   - No lock is held over a write or a sync that a reader would wait for.
package seglog
