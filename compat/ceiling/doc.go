// Package ceiling measures the least that an acknowledged, durable record can cost on this
// machine: a bare client and a bare server that do what every such system has to do, and
// nothing else. What Quoin does on top (a batch format, producer state, a log, an SDK) is
// judged by how close it comes. Absolute numbers differ from machine to machine and from
// hour to hour; the ratio of two contenders in one run is what counts, so all of them
// belong in this one package.
//
// The prototype: client and server are two processes, connected by one QUIC connection
// with one stream. The client fills frames of up to 64 records of 1 KiB, hashes them and
// keeps a fixed number of frames in flight. The server checks each frame's hash and writes
// the frame to a file that was filled with zeros before; one goroutine syncs whatever was
// written meanwhile (group commit), and one acknowledges, cumulatively, what was synced.
//
// The nouns of the package:
//
//   - a frame is a header and its records, the unit of sending, writing and acknowledging;
//   - a role is what the test binary does when it runs as somebody's child, see startChild;
//   - a round is a stretch of work that ends when its next function says so, and its
//     outcome is what was measured;
//   - a contender is whoever can do rounds; two of them take turns in versus.
//
// Saturated rounds send as fast as acknowledgements allow. Paced rounds start records at
// fixed times and measure each from the moment it should have started, so that a stall
// counts for every record that it held up.
//
// Run it with
//
//	go test -run xxx -bench . ./compat/ceiling
//
// where TMPDIR says which disk is measured. Plain go test sends a few hundred records and
// compares the file. Everything is in test files: nothing can import the prototype, and it
// is never a second implementation of anything.
package ceiling
