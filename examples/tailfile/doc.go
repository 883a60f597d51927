// Command tailfile follows a file that grows and is rotated, line by line into a topic. Kill
// it whenever you like, with kill -9, and start it again: each line is stored once, and in
// order.
//
//	go run ./examples/tailfile app.log                # until it is interrupted
//	go run ./examples/tailfile --exit-at-end app.log  # what is there
//	go run ./examples/tail --topic lines              # what is stored
//
// It is built on package sdk/source: all that this program adds is a source, which reads the
// lines behind a position. The position is stored by the server, in the batch of the line. So
// there is no file here that says how far it came, and none that could be wrong.
//
// # Files
//
// A rotated file is followed where it goes. The family of app.log is app.log itself and what
// stands beside it as app.log.* or app.log-*, but nothing that is compressed. The first run
// reads all of it, the oldest first: by the number in the name, larger is older; else by the
// time of the last write. A file is left for the next one when that has something in it and
// all of the first is read: a writer has moved on by then.
//
// A position names a file by its device and inode, where there are any, and by a hash of its
// first bytes, so it is found under any name in the directory, and an inode that is used
// again for another file is not taken for it.
//
//   - Rename and create: nothing is lost or doubled.
//   - Truncation, by copytruncate or by hand, is seen when the file is shorter than it was, or
//     when its first bytes are others. It is told on stderr, and reading goes on at the
//     beginning. What was written and not read by then is gone from the file.
//   - A file that was deleted while nobody read it is told too, and reading goes on with those
//     that were written to after what is stored.
//
// # Lines
//
// The value of a record is the line without its terminator; the headers are those of ../send,
// so that ../tail can put a file together again. A last line without a line feed waits until
// it has one, or until its file is left; with --exit-at-end it is left for the next run. A line longer than --max-line comes as several
// records, each but the last with the header "eol" of "none".
//
// How to read it: main.go connects and runs, follow.go is the source, cursor.go reads one
// file, family.go finds the files and position.go says where they are left. options.go reads
// the command line.
package main
