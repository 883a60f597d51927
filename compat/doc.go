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
//	a peer meets                        and this happens
//	----------------------------------  ------------------------------------------------------
//	a batch of a version that it knows  it reads it; a version is readable for ever
//	a session that does not read the    the server converts the batch on its way out, if there
//	batch's version                     is a way: 2 to 1 drops the producer's fields and the
//	                                    extensions, and keeps offsets, timestamps and records
//	the same, in a topic that is        BATCH_VERSION_UNSUPPORTED before any byte of the batch;
//	strict about versions               the reader may go on behind it by its own choice
//	a batch of a version that it does   an error with the number and no record; the front, the
//	not know                            same in every version, says where the next batch begins
//	an extension that it does not know  it steps over it, or refuses the batch if it is critical
//	a control batch                     only the server does; none is sent to a reader
//	an older peer, a protocol version   the newest that both speak
//	in common
//	an older peer, none in common       UNSUPPORTED_VERSION, which says which side is to be
//	                                    upgraded
//	an older server that does not take  BATCH_VERSION_UNSUPPORTED from the SDK when a producer
//	the batches of a producer           is built, before a record is accepted
//	fields behind the last one that it  it ignores them; in a message of an older peer a newer
//	knows, in a message                 one takes their absence for a default
//	a frame of a kind that it does not  it steps over the frame if the kind is optional, else
//	know                                refuses the stream
//	a catalog in a format that it does  the server does not open the data directory, and
//	not know                            changes nothing in it
//	a data directory of an older        it opens it
//	server
//
// How a new batch version comes in, in two releases. The first one reads it everywhere, in the
// server, the SDK and the tools, converts it for sessions that do not, and writes it nowhere.
// The second one has the switch to write it, off at first and on where somebody asks for it. So
// whoever goes back by one release can read all that the newer one wrote. A number of a
// version, a codec, an extension, a kind of frame or an error code is never used for something
// else, also when nothing writes it any more.
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
