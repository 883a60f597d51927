// Package compat holds the promises that reach across packages and versions.
//
//   - proof: nothing is lost and nothing is stored twice, whatever is cut or killed;
//   - network: clients and servers on networks that lose, delay, double and forget;
//   - ceiling: the product's speed against a bare prototype, in one run;
//   - campaign: the ledger of runs that last for hours;
//   - reader1: a reader of the first release, frozen, that today's batches are given to;
//   - matrix: clients and servers of different age, of which one is played by frozen bytes;
//   - golden: the files of testdata that every later version must read;
//   - the tests in this folder: topics in which both batch versions stand, bits that are
//     turned, and the shape of the tree, such as who may import whom.
//
// It holds no code of its own.
//
// # Old readers are never misled
//
// Nobody who uses Quoin has to upgrade every reader before a producer may write something
// new. An old reader keeps reading, or is told plainly why it cannot and which side to upgrade.
//
//	| a peer meets | and this happens |
//	|---|---|
//	| a batch of a version that it knows | it reads it: a version that was ever released stays readable for ever |
//	| a batch of a newer version than it reads | the server converts it on its way out: from 2 to 1 the records, offsets, timestamps and compression stay, the fields of the producer and the extensions go |
//	| the same, in a topic with `strict-batch-version` | `BATCH_VERSION_UNSUPPORTED` in front of the batch, with where that begins, its version, and the offset where the reader may go on by its own choice |
//	| a batch of an older version than it reads | the same refusal, as nothing is converted upwards: it says "upgrade the server" where that is the older side, and else which version the reader is to accept as well |
//	| a batch of a version that it does not know, all the same | an error with the number, and no record; the front, alike in every version, says where the next batch begins |
//	| an extension that it does not know | it steps over it, or refuses the batch if the extension is critical |
//	| a control batch | only servers read it, and no reader is sent one |
//	| an older peer, a protocol version in common | both speak the newest that they have in common |
//	| an older peer, none in common | `UNSUPPORTED_VERSION`, which says "upgrade the client" or "upgrade the server" |
//	| an older server that does not take its batches | `Build` fails before a record is accepted, and says "upgrade the server"; plain producers work |
//	| fields behind the last one that it knows | it ignores them; those that an older peer does not send have a default |
//	| a frame of a kind that it does not know | it steps over the frame if the kind is optional, else it refuses the stream |
//	| files of an older release | it opens them, whichever release it was |
//	| files of a newer release, in a form that it does not know | it leaves them as they are and names the version: for a catalog the server does not start, for a log it does not serve the partition |
//	| a version of batches that is to come | readers first, in two releases: one reads and converts it everywhere and writes it nowhere, the next has the switch to write it, off until somebody asks |
//	| the switch to write it | it is safe when all readers know the version: `quoin topic describe` shows which versions a topic holds, and the newest that all its connected readers know |
//	| a number of a version, codec, extension, frame or error | it means what it always meant: none is used again for something else |
//
// The same table stands in the README, and a test holds them to each other. Two releases for a
// new version of batches are so that whoever goes back by one can read all that the newer one
// wrote; the switch is on where somebody asks for it.
//
// # What is frozen
//
// With the tag of a release its folder in testdata is frozen: golden batches and frames with
// what they mean, and a data directory. No file of it is edited, added or removed from then on,
// and every later version reads all of them. So is the source of reader1. A manifest holds the
// checksums, and a test the files to the manifest. testdata/next belongs to the version to
// come; it changes with the code, and its differences are reviewed as code. A release that must
// not read a frozen file any more is another product.
package compat
