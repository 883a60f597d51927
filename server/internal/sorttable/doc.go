// Package sorttable keeps rows in a file that is written once, sorted, and then only read.
// A row is a [Key] of two numbers and a short value. What the numbers and the values mean is
// the caller's business.
//
// # Nouns
//
//   - [Table]: an open table. Of the file it holds in memory what leads to a block: filter
//     and fences. It keeps no file open unless [Table.Hold] asks for it, since there may be
//     thousands of tables; every call that reads opens the file and closes it again.
//   - Meta: up to [MaxMetaBytes] that the caller puts into the header. They say whose table
//     it is, for a table does not know.
//   - Block: up to 4 KiB of rows. A look-up reads exactly one.
//   - Fence: the first key of a block, and the check of its bytes.
//   - Filter: says of nearly every A that is in no key that it is not there, without a read.
//
// # The file
//
// All integers are little-endian; a varint is an unsigned one of 7 bits a byte, lowest
// first, in as few bytes as it takes. The parts stand one behind the other and fill the file.
//
//	header      0   4  magic           "QTAB"
//	            4   4  format version  1
//	            8   4  meta size       bytes, at most 4,096
//	           12   4  filter size     bytes, a multiple of 32; 0 if there are no rows
//	           16   8  rows            at most 2^26
//	           24   8  blocks size     bytes, at most 2^22 blocks
//	           32  16  last key        A, B; zeros if there are no rows
//	           48   8  filter check    XXH64 over the filter
//	           56   8  fences check    XXH64 over the fences
//	           64   .  meta
//	            .   8  check           XXH64 over all before
//
//	block       0   2  rows            1 or more
//	            2   .  rows
//	            .   .  zeros up to 4,096 bytes; not in the last block
//
//	row         .   .  A               varint: less the A of the row before
//	            .   .  B               varint: less the B of the row before if A is the same
//	            .   .  value size      varint, at most 256
//	            .   .  value
//	           The row before the first one of a block is 0, 0.
//
//	filter      .   .  groups of eight 32-bit words, see below
//
//	fence       0   8  A               of the first key of the block
//	            8   8  B
//	           16   8  check           XXH64 over the block
//
// So the header's check covers, by the two checks in it, the fences, and they cover each
// block: a block, or a part, of another table or of an older state of this one is found out
// as surely as a flipped bit.
//
// The filter has (10 n + 255) / 256 groups for n different A. An A is mixed to 64 bits by the
// finalizer of SplitMix64:
//
//	x += 9e3779b97f4a7c15; x ^= x>>30; x *= bf58476d1ce4e5b9
//	x ^= x>>27; x *= 94d049bb133111eb; x ^= x>>31
//
// The upper 32 bits, times the number of groups, shifted right by 32, choose the group. In
// word i of it the bit is the lower 32 bits, times salt i, modulo 2^32, shifted right by 27;
// the salts are the odd numbers in filter.go. An A that is in the table has all eight bits
// set; of those that are not, about one in eighty has.
//
// # Writing
//
// [Write] puts everything into a file of the name with ".tmp" behind it: first the parts, then
// the header over the place that was left for it. It syncs, has the system forget what it
// holds in memory, reads all of it back and checks it, and only then renames. The name is
// durable once the caller has synced the directory, and whenever the name is there after a
// crash, its contents are. A ".tmp" that a crash left is replaced by the next Write of that
// name; [RemoveTemp] removes it without one.
//
// # What is never done
//
//   - A byte is never believed that no check covers. Whatever is wrong is a [*FormatError],
//     and never a row that was not written, nor a row that is missing in silence.
//   - Memory never grows with the number of rows, filter and fences aside: while a table is
//     written 8 bytes for each different A and 24 for each block, once it is open about 10
//     bits and 24 bytes.
//   - A table is never changed. Its name is not used for another one while it is in use.
package sorttable
