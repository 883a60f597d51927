// Package outbox keeps on disk the batches of a named idempotent producer that have no
// outcome yet. A batch is put and synced before it is handed to the network, so that
// after a crash of the application the same sealed bytes, with the same identity, can be
// sent again and are stored once.
//
// The nouns of the package:
//
//   - [Binding]: whose batches these are. One directory holds those of one producer for
//     one topic of one server; [Open] refuses any other.
//   - [Batch]: what is known of a batch without outcome: its [ID] in the outbox, its
//     identity, and its [State]. [Outbox.Load] gives the sealed bytes.
//   - an outcome ends a batch: [Outbox.Stored] or [Outbox.NotStored]. [Outbox.Unknown]
//     does not: the batch stays, is never to be sent again, and waits to be settled.
//   - [Lane]: what has to be known of a partition to open it again.
//   - [Found]: what Open found: lanes, batches in order, and the damage.
//   - a segment is one file of the log.
//
// # Promises
//
// A batch whose [Outbox.Sync] returned nil is found by every later Open until it has an
// outcome, with the bytes that were put. A batch that was put and not synced may be found
// or not, and if it is not then neither is what was put after it. Stored is
// written with the next Sync: when it is lost, the batch is found once more, and the
// server answers the resent bytes as a duplicate. Unknown and NotStored return when they
// are durable, as the application is told something that must never be followed by a
// resend. [Outbox.Replace] puts a batch that is sealed anew in the place of one proved
// not stored: after a crash exactly one of the two is found.
//
// A sync that fails is never tried again to say yes: the system may have dropped what it
// could not write. From then on the outbox answers [ErrFailed]; opening it again finds
// what the disk has. A full disk is [ErrNoSpace]: nothing is lost, and a Sync when there
// is room goes on.
//
// # Files
//
// The directory holds a file "lock" and segments, whose names are their number and a
// random salt, both in hexadecimal: 0000000000000007-9f86d081884c7d65.outbox. A process
// appends to one segment, the newest, and never to one of an earlier process.
// All integers are little-endian, ranges are half open, checks are CRC-32C.
//
//	   0  1020  segment header   see below
//	1020     4  check            of [0,1020)
//	1024    20  sync note        see below
//	2048  1024  segment header   the same again, in other sectors
//	3072    20  sync note
//	4096     .  entries          each at a multiple of 8
//
// The segment header:
//
//	 0   8  magic        "QUOINOBX"
//	 8   4  version      1
//	12   4  zero
//	16   8  number       of the segment; they grow by age
//	24   8  salt
//	32   8  producer id
//	40  16  topic id
//	56   .  server, topic, producer: a length u16 and the bytes, each
//	 .   .  zeros
//
// The sync note says up to where the segment is known to be durable. It is written after
// a sync that succeeded, by turns in one place and the other, and is itself not synced
// but when the segment ends:
//
//	 0   8  position
//	 8   8  stamp
//	16   4  check       of [0,16)
//
// An entry is a header of 96 bytes and, in a batch, the sealed bytes and zeros:
//
//	 0   4  magic        "qobe"
//	 4   1  kind         1 batch, 2 trace, 3 stored, 4 unknown, 5 not stored, 6 lane
//	 5   1  state        of a trace: 1 pending, 2 unknown
//	 6   2  zero
//	 8   8  stamp        SHA-256 over segment header [16,1020) without the producer id, cut
//	16   4  length       of the body, without the zeros behind it
//	20   4  partition
//	24   8  id           of the batch
//	32   8  place        the id of the batch in whose place it stands; its own if in none
//	40   8  replaced     id of the batch that this one replaces; 0 for none
//	48   8  base         sequence; of a lane: the highest sequence known stored, -1 for none
//	56   8  last         sequence; of a lane: that of the last acknowledged record, -1 for none
//	64   4  epoch        of a lane: the highest that was used
//	68   4  body check   of the body with the zeros; 0 without a body
//	72   8  digest       of the batch; of a lane: of the last acknowledged one
//	80   8  offset       of the record with sequence last; -1 when not known
//	88   4  zero
//	92   4  check        of [0,92)
//	96   .  body, zeros up to a multiple of 8
//
// A trace is a batch without its bytes: they are not kept when an unknown batch is moved,
// as it is never sent again, and cannot be when they are damaged. Traces, unknown, not
// stored and lanes are written twice, so that one damaged spot does not bring back what must not be
// sent again, or lose where a lane stands.
//
// # Reading
//
// Entries are read in order, and a later copy of an id takes the place of the earlier.
// Up to the sync note whatever is not an intact entry is damage: it is reported, stepped
// over by its length if its header is intact, and else by looking for the next intact
// header. Behind the sync note the first entry that is not intact is where a write was
// torn: nothing from there on was ever durable, and it is no damage. What is intact there
// is taken, and written anew to a segment of this process before Open returns, since a
// read does not show whether the disk has it.
//
// # Space
//
// Segments go in order, oldest first, as soon as no batch in the oldest is without an
// outcome. So a mark never goes before the batch that it speaks of. A batch
// that stays, such as one of a partition that cannot be reached, keeps only its own
// bytes: when the files near [Options.MaxBytes], what is without outcome in the oldest
// segment is copied to the newest, synced, and the oldest is removed. Batches without an
// outcome may take half of MaxBytes, then Put is [ErrFull]; the other half is what makes
// copying end: each byte that is put is copied once on average at the most.
//
// The package never talks to the network, never decides what is sent, never stores the
// producer key, has no goroutine of its own, and never removes anything in Open.
package outbox
