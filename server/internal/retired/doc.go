// Package retired keeps the rows of producers whose lanes have left a partition's memory, so
// that a retry is answered as before. It is a small log-structured merge tree of sorted
// tables (package sorttable) in the directory of the partition. What is in a row is the
// caller's business; here it is up to 256 bytes by producer id.
//
// # Nouns
//
//   - [Row]: what is kept of one producer. Named rows may not be dropped while the name
//     exists.
//   - Serial: the number that a row gets when it is put, from 1 on, never twice. It is the
//     order in which producers retired, and of two rows of one producer the higher is true.
//   - Run: one sorted table, written once. Each [Table.Put] makes one, each merge makes one
//     of several that are neighbours in age. A producer is in a run at most once.
//   - Head: the file that says which runs there are. What it does not list does not count.
//   - Generation: the number of a head. It rises with each and numbers the runs too.
//   - Forgotten: the highest producer id of which a row was dropped or lost. An id at or
//     below it that is found nowhere may have been here. It never falls.
//   - Stale: a mark of a serial and an id. A row at or below both may not be its producer's
//     last one, because a newer one was lost to damage; [Row.Stale] says so.
//
// Ids of the gateway are compared without producerstate.GatewaySpace.
//
// # The files
//
//	retired-NNNNNN.tab       a run; NNNNNN is its number
//	retired-NNNNNN.bad       a run that was found damaged, for people to look at; never read
//	retired.head             the head
//	*.tmp                    what is being written
//
// A run has the key {producer id, serial*2 + named}, and this for its meta. All integers are
// little-endian.
//
//	 0  4  magic     "QRR" and version 1
//	 4  4  zero
//	 8  8  number    of the run, as in its name
//	16  8  base      generation of the head that it was made under
//	24  8  first     no serial in it is lower
//	32  8  last      no serial in it is higher
//
// The head is 8,192 bytes: the following, zeros up to 4,096, and the same again.
//
//	 0  4  magic         "QRH" and version 1
//	 4  4  runs          how many, at most 64
//	 8  8  generation
//	16  8  serial        the next one
//	24  8  forgotten     0: nothing
//	32  8  stale serial  0: none is
//	40  8  stale id
//	48  8  vouched       the log was durable up to this offset
//	56  .  runs, 56 bytes each, by rising last serial
//	 .  8  check         XXH64 over all before
//
//	 0  8  number        at most the generation
//	 8  8  rows          1 or more
//	16  8  named         rows that were named when the run was written
//	24  8  first         serial
//	32  8  last          serial
//	40  8  highest       no producer id in it is higher
//	48  8  bytes         of the file
//
// # Writing
//
// The order of every change, put or merge:
//
//  1. write the new run, sync it, read it back, rename it, sync the directory;
//  2. write the head that lists it to a file of its own, sync it, read it back, rename it
//     over the old one, sync the directory: from here on the change is made;
//  3. show it to readers;
//  4. remove the runs that the head does not list any more.
//
// The first head is there before the first run. So a crash leaves the table before or after
// a change, and files that nothing lists, which [Open] removes. After an error in step 1 the
// new run is removed. After one in step 2 it is not known which head a crash would leave, so
// the new run stays until a later head is certain not to list it: a restart may find rows of
// a Put that failed. They were true when they were put, and the table holds what is newer.
//
// # Merging
//
// There are at most 12 runs. When there are, neighbours at the newer end are merged, back to
// the oldest one that is no larger than what is newer than it, and to no more than a quarter
// of the rows if that can be. Equal puts are so rewritten about six times on the way to a
// million rows. If merging fails, puts go on up to 32 runs.
//
// When more than MaxRows rows are not named, all runs are rewritten without their
// oldest rows, down to seven eighths. A row that a newer one of its producer makes void is
// left out first. The head of that change has the forgotten id that covers what was dropped.
//
// # Damage
//
// No damage makes a producer that was retired look new, or an old row look like its last:
//
//   - A run that the head lists and that is missing, is another one, or does not verify in
//     header, filter or fences: all ids up to its highest are forgotten, and older rows of
//     such ids are stale.
//   - A block that does not verify: Get answers [ErrDamaged] to whom it may have held. A merge
//     goes around it: the ids that it may have held are forgotten, and older rows of theirs
//     stale; the input stays as a .bad file.
//   - One copy of the head: the other one counts.
//   - Both, or the file is gone and there are runs, or a run that is not listed was made under
//     a later head or does not verify, or the generation is below the one that the caller
//     knows of: a run may be missing that nobody remembers. Then all ids that were
//     ever issued are forgotten and all rows that are there are stale.
//
// What a table without any file cannot know is that it had some; [Options.AtLeast] is for a
// caller that has written down the generation elsewhere.
//
// # What is never done
//
// A row is never dropped before a durable head covers it with its forgotten id. A run is never
// removed while the durable head may list it. A number is never used for two runs. A file
// that was damaged is never removed. No goroutine is started here: the caller's one writer
// puts and merges, and look-ups may come from anywhere at any time.
package retired
