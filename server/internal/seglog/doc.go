// Package seglog is the append-only log of one partition: batches, in the order of
// their offsets, in segment files. It knows nothing of producers, topics or readers. It is
// meant to survive what disks do: power cuts at any moment, syncs that fail, sectors that
// were never written and bytes that rot.
//
// # Nouns
//
//   - [Log]: one partition. One goroutine appends, any number sync and read meanwhile.
//   - Group: the batches of one [Log.Append]. They go down together or not at all, and a
//     group never spans two segments.
//   - Segment: one file, named by the offset of its first record. Only the last one, the
//     active segment, is written. A segment that has a successor was synced in full, up to
//     the start of the successor, before the successor was made.
//   - Index: for every few ten KiB of a segment the offset and the position of a batch,
//     in memory for the active segment, in a file for the others. It saves time, and it
//     says how far the segment was synced. It is made again from the segment whenever it is
//     missing or does not verify.
//   - Fill: zeros that lie behind the last batch of the active segment. Syncing a small write
//     onto blocks that exist takes about half the time of syncing one that makes them.
//   - Proof: what says that everything below an offset was synced: the durable offset in a
//     batch, an index, the start of a successor, or the caller ([Config.Durable]).
//   - Hole: offsets that were proven and cannot be read: a [DamagedRange].
//   - Cut: what recovery took off the end, since nothing proves that it was acknowledged.
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
//	N.seg.tmp   a segment or an index that is being written; it gets its name when it is
//	N.idx.tmp   synced, and is removed by the next Open if that never happened
//
// Of a batch three fields matter here: the base offset; the term, which never falls; and the
// durable offset, the end of the log that was known to be synced when the batch was appended.
//
// # What is assumed of disks
//
//  1. Once a sync of a file returned nil, its bytes and its length survive a power cut;
//     once a sync of a directory did, the names in it do. Nothing else is durable.
//  2. Writes that were not synced may be there after a crash in any order, in any parts,
//     or not at all. A length may be there before the bytes are; they then read as zeros.
//  3. A rename is there as a whole or not at all.
//  4. Synced bytes may go bad later, and files may vanish. Checksums find that; nothing here
//     repairs it.
//  5. After a failed sync nobody knows what the disk has, and a second sync that succeeds
//     does not tell: the system takes the pages for written, shows them to whoever reads,
//     and forgets them at some time. It may refuse to forget them when asked to.
//
// # Recovery
//
// [Open] first looks and decides (1 to 6), and only then writes (7 to 11).
//
//  1. The directory is made if it is missing, with those above it, and their names durable.
//  2. The files are listed. No segment at all is a new log. An index whose segment is missing
//     says that there was one: in front of all others it begins the log with a hole, behind
//     all others its end is a proof.
//  3. A segment with a successor is taken as it is if its index verifies, belongs to its
//     header, ends where the file ends and the successor begins, and agrees with the batches
//     behind its last entry. Otherwise it is walked from its start, batch by batch. A batch
//     is good if it parses, both its checksums are right, its base offset is the next one,
//     its term is not below the one before, and it does not reach over the start of the
//     successor. Every bad place is a hole, up to the next good batch or the successor. A
//     header that does not verify is damage without a record; its batches are judged by
//     themselves.
//  4. What stands in it behind the start of the successor is, by its index, the segment's
//     own control batches, or what a recovery that was killed has left. Without an index, a
//     copy of the beginning of the successor is such a leftover, and what is no batch is
//     damage that cost no record.
//  5. The last segment is read past what the system has in memory, and walked from the end of
//     its index if that can be trusted, else from its start. At a bad place the walk goes on
//     behind it: where a front verifies, by its size; where not, at the next good batch that
//     the bytes hold. It ends where only zeros follow, or nothing that is good.
//  6. Bad places are judged in order. One below the highest proof is a hole. The first one
//     that is not is a torn end: the log ends there, whatever stands behind it. A log that
//     ends below the highest proof ends with a hole up to it.
//  7. The end of the log above the highest proof was seen, but may be in memory only, and
//     from here on readers will see it too. It must be on the disk first, which a sync does
//     not ensure (assumption 5). So it is copied to N.seg.tmp, N being the proven offset,
//     synced, read back and verified. The same is done, with nothing to copy, if the last
//     segment has a hole or a bad header, since neither is appended to. If N is the last
//     segment's own base, the copy is of all of it. Where there is no room for the copy, and
//     the last segment is sound, its end is instead written onto itself, synced, read back
//     and verified, and the log goes on in that segment: a full disk is no reason not to
//     serve what is on it.
//  8. N.seg.tmp is renamed to N.seg, over the last segment if that is N. Before that an index
//     notes where the old last segment is going to end.
//  9. The directory is synced.
//  10. What is torn is cut off, and so is what the old last segment holds of the copy.
//  11. Missing indexes are written, of N.seg too: what is in it is proven now.
//
// The order of 7 to 10 is what makes it safe to be killed in it. Until the rename is durable
// the old segment is whole, and the copy is a leftover or a name that is not there. Once it
// is durable the copy rules, because a segment ends where its successor begins; the same
// bytes in the old one are not read any more. They are only taken off then, so that at no
// moment are there none. Two copies that disagree cannot come to be: the copy is not appended
// to before Open returns, and Open does not return before the old bytes are gone. A second
// recovery finds the same proof or a higher one (the start of N.seg), the same batches, and
// ends the same way. What is copied is only what came after the last proof: the groups that
// were on their way, not the segment.
//
// Open refuses, with a [*CorruptError] and without having changed anything, only where
// nothing tells at which offset to go on, or which of two truths holds:
//
//   - the last segment has a header that does not verify, something behind it, and no batch
//     to be kept: it was acknowledged, and how far it went is not known;
//   - likewise, the last segment is missing and its index does not verify, or it is empty and
//     no segment is before it although its name says that there were records;
//   - two segments hold different batches for the same offsets;
//   - a bad place is followed by so many beginnings of batches that to look at all of them
//     would take no end.
//
// It refuses too, with a [*VersionError], where a newer release has written: a segment of another
// format, or a batch of a version that is not known and whose front verifies. To this release
// they would look like damage, and at the end of the log like something to cut.
//
// # After recovery
//
// A read from within a hole is a [*CorruptError] that says where to go on; [Log.Replay] goes
// over holes and tells of them; [Log.FindBack] says that what it did not find may be in one.
// A read, a replay or a [Log.Scrub] that meets a bad batch makes a hole of it, in memory: the
// next Open, or whoever comes to it then, finds it again. [Log.Remains] tells the digests of
// batches in a hole whose fronts are good. [Verify] looks at a log that is not
// open.
//
// # What is never done
//
//   - A failed sync is never tried again to acknowledge anything: the log refuses all
//     further appends and syncs, until a new Open finds what the disk really has.
//   - Nothing is deleted by inference. Recovery takes off only the end of the last segment,
//     only where nothing proves that it was acknowledged, and what is elsewhere byte by byte;
//     damaged bytes stay where they are; files that have no place here are left alone; an
//     error never makes a file go.
//   - An offset that a synced acknowledgement, a read or a look-up has told is never given to
//     another record, as far as any proof of it is left; a hole keeps its offsets for ever.
//   - A batch is never changed or renumbered, and a group never becomes visible in part.
//   - No lock is held over a write or a sync that a reader would wait for.
//
// # What it cannot do
//
// Damage of the very last batches, behind the last proof, looks like a torn end and is cut:
// only what was appended later, a roll or a clean close prove that they were synced. And
// where the front of a batch is lost, a whole batch that a producer put into one of its
// records may be taken for one of the log.
package seglog
