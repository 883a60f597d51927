// Package batchfmt is the Quoin batch: the bytes that a producer seals, a server
// stores and a consumer checks. They are the same bytes all the way, so whatever a
// producer put under its checksum can be verified by whoever reads it years later.
//
// A batch is a header followed by records. Two versions exist:
//
//   - Version1, the plain batch, of producers without an identity;
//   - Version2, the producer-aware batch: the same plus producer id, producer epoch,
//     base sequence and extensions.
//
// The nouns of the package:
//
//   - [Batch] is a view of parsed bytes; it aliases them and copies nothing.
//   - [Front] is the part that every version shares, enough to step over a batch
//     that the reader cannot decode.
//   - [Stamp] is what the server writes at append; everything else is the producer's.
//   - [Record] is one message. A [Builder] collects records and seals them into a batch,
//     a [Reader] walks those of a batch, [CheckRecords] is what a server asks of them.
//   - [Seal] is what a batch is sealed with: version, codec, producer, extensions.
//   - [Extension] is an optional part of a version-2 header, such as the position that
//     an application stores with a batch.
//   - [Control] is what a server notes about a lane, in a batch without records.
//   - [FormatError] says which field is wrong, where, and why; or how many bytes lack.
//
// A batch that arrives is looked at in this order: [Parse] (layout and limits),
// [Batch.Verify] (the producer's checksum), [CheckRecords] (the records); one from disk
// also meets [Batch.VerifyFront]. [Dump] prints any of them for people.
//
// The package reads and writes memory only. It never does I/O, never looks at a
// clock, never panics on bytes from outside and never takes more memory than the
// named limits allow.
package batchfmt
