// Package golden reads the files that every later version of Quoin must read: compat/testdata.
//
// The nouns:
//
//   - A release is a folder there, named by the version that froze it. From its tag on it
//     never changes: no file of it is edited, added or removed. "next" is the folder of the
//     version to come and changes with the code; [Freeze] makes a release of it.
//   - A golden is a batch or a frame in annotated hex. What is behind a # is for people. A
//     file of the same name that ends in .json holds its meaning: what the release that froze
//     it read out of the bytes. Later versions must read the same, and may read more.
//   - A data directory is what a server of the release has left, as an archive, with the
//     records in it.
//   - The [Manifest] holds the checksum of every file that is frozen: the releases, and the
//     sources of the frozen reader. A line of it is never changed; `sha256sum -c` reads it.
//
// # What goldens are made of
//
// Nothing in a golden comes from a clock or from chance, so that it comes out the same when it
// is made anew, but for what another compressor does, and whoever reads a dump knows what is
// whose:
//
//	batches, by batchfmt             times from 1750000000000; producer 0x1122334455667788,
//	                                 epoch 3, sequence 900; stamped ones have offset 123456,
//	                                 term 7, durable offset 123400, and are appended 1 s later
//	frames, by wire                  times from 1767355200123; 16 bytes that count up: topics from
//	                                 10 or 20, requests from 30, instances from 50, keys from 70,
//	                                 sessions from a0, clusters from c0; producer 77, epoch 2,
//	                                 lanes 7 to 9, sequences about 900, offsets about 4000
//	frames of peers, in compat/matrix    times from 1750000000000, topic 10 11 12 and so on,
//	                                 or holes that are filled
//
// A data directory is the exception: a server has written it, whose ids, keys and times of
// appends are what they came to be. Records in it have timestamps from 2026-01-02 12:00 UTC.
//
// A batch has one of two kinds of timestamps, told by bit 3 of its attributes. Without the bit
// the timestamps are the producer's, record by record. With it (the goldens called append-time)
// every record has the time of the append, which stands in the front and is the server's; what
// the producer gave stays in the records, under the checksum, and is not shown to readers. A
// batch that no server has stamped has the append time 0, and so have its records then.
//
// The package serves the tests of compat and is of no use to anything else. It never looks at
// a clock, and it writes in [Freeze] and nowhere else.
package golden
