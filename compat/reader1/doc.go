// Package reader1 reads batches of version 1, as a program of the first release does. It is
// frozen: it was written once, its sources stand with their checksums in the manifest of the
// golden files, and not a byte of them is changed again, whatever the rest of the tree learns.
// Every later version of everything else is tested against it, so that whoever runs an old
// program keeps reading, or is told plainly why not.
//
// It knows version 1 and the four bytes that say which version a batch has. Of version 2 it
// knows nothing. It imports no other package of this module, since those may change.
//
// The nouns:
//
//   - a [Record] is one message with its offset;
//   - [Decode] takes one batch as a server gives it, stamped, and gives all of its records or
//     none; [All] walks batches that stand one behind the other;
//   - an [UnsupportedVersionError] is a batch of another version, a [ShortError] the beginning
//     of a batch, a [CorruptError] anything else that is no good batch.
//
// # Layout
//
// Little-endian; ranges are half open.
//
//	 0  3  magic            "QBF"
//	 3  1  version          1
//	 4  4  size             bytes of the whole batch, header included
//	 8  8  base offset      of the first record
//	16  8  append time      Unix milliseconds
//	24  4  owner term
//	28  4  front check      low half of XXH64 over [0,28) and [32,48)
//	32  8  durable offset
//	40  8  checksum         XXH64 over [48,size)
//	48  2  attributes       bits 0-2 codec: 0 none, 1 gzip, 2 snappy, 4 zstd; bit 3: the append
//	                        time is the timestamp of every record; the rest is zero
//	50  2  header length    80
//	52  4  record count     1 at least
//	56  8  base timestamp   Unix milliseconds
//	64  8  max timestamp    Unix milliseconds
//	72  4  records length   bytes of the record section after decompression
//	76  4  reserved         zero
//	80  .  records
//
// A record is a length and, behind it, attributes (one byte), timestamp delta, offset delta,
// key, value, and a number of headers with a key and a value each. Numbers are zig-zag
// varints; -1 is the length of what is null.
//
// The package reads memory and nothing else: it has no clock, no state and no goroutine. It
// gives no record of a batch before all of that batch has been checked, and does not panic,
// whatever the bytes are. Keys and values of a batch without compression alias the bytes that
// were given.
package reader1
