// Package matrix holds what clients and servers of different age do with each other: either
// side may be the older one, and each pair is served as negotiated, or refused with an error
// that says which side to upgrade.
//
// The peers of today are real: the server that is in the tree, and the SDK. Those of other
// ages are not played by the code of today, but by bytes that were written down once. The
// nouns:
//
//   - a frozen frame is a file in testdata/<release>/: annotated hex, what is behind a # is
//     for people. <name:bytes> is a hole, for what nobody can know before, such as the id
//     of a topic. "client" and "server" are what peers of that release say; "older-" and
//     "newer-" what others might. Releases never change, "next" does until its tag;
//   - the frozen decoder reads answers, and what the SDK asks for, the way that the first
//     release does, by offsets. It has no line in common with package wire;
//   - a peer plays frozen frames on a QUIC connection: a client to the server of today, a
//     server to the SDK of today;
//   - a cell is what became of one thing that a peer asked for.
//
// # Clients and the server of today
//
// 1 and 2 are versions of batches; "strict 2" is a batch of version 2 in a topic whose owner
// wants it converted for nobody.
//
//	client            hello               topics  write 1  write 2  read 1              read 2              strict 2
//	reads 1           served              served  served   served   served              converted           upgrade the reader
//	reads 1 and 2     served              served  served   served   served              served              served
//	the SDK of today  served              served  served   served   served              served              served
//	a later release   served              served  served   served   served              served              served
//	reads 9 only      served              served  served   served   upgrade the server  upgrade the server  upgrade the server
//	protocol 9 only   upgrade the server  -       -        -        -                   -                   -
//	protocol 0 only   upgrade the client  -       -        -        -                   -                   -
//	quoin/2 only      no protocol         -       -        -        -                   -                   -
//
// # The SDK of today and servers
//
//	server              hello               topics  write 1             write 2             read 1  read 2  read 3
//	accepts 1           served              served  served              upgrade the server  served  -       -
//	accepts 1 and 2     served              served  served              served              served  served  -
//	a later release     served              served  served              served              served  served  upgrade the reader
//	accepts 9 only      served              served  upgrade the client  upgrade the client  served  served  -
//	protocols 7 to 8    upgrade the client  -       -                   -                   -       -       -
//	protocol 0 only     upgrade the server  -       -                   -                   -       -       -
//	chooses protocol 9  upgrade the client  -       -                   -                   -       -       -
//	quoin/2 only        no protocol         -       -                   -                   -       -       -
//
// What the cells say:
//
//   - served: done as asked, with all that was asked for. A batch comes byte for byte as it
//     is stored;
//   - converted: the batch comes as one of version 1, with the same records at the same
//     offsets, compressed as it was;
//   - upgrade the ...: refused with an error that has a code and says so in its text: which
//     side is the older one. A reader is refused in front of the batch and has had everything
//     before it. The error holds where the batch begins, its version, and where the reader may
//     go on behind it;
//   - no protocol: TLS found none in common and says so, but cannot tell who is the older one;
//   - "-": it does not come to that, or there is nothing of the kind.
//
// A later release is one that speaks protocol 1 among others: its frames have fields behind
// those that are known, its lists have longer items, it knows features and batch versions that
// the other side does not, and sends frames of unknown kinds that may be stepped over.
//
// No release has an older form of a message yet: the older peers here are those that know less
// batch versions, or another protocol, and the server of protocol 0, whose errors end in front
// of the offset. When a message gets fields, the frozen frames of the releases before it are
// its older form.
//
// The tables are held to what happens by TestMatrix, cell by cell. The package has no code of
// its own besides tests.
package matrix
