// Command tail reads a topic that the command in ../send wrote: it prints the lines, or
// puts the files together again.
//
//	go run ./examples/tail                        # all lines on stdout
//	go run ./examples/tail --follow --from end    # the new ones, as they come
//	go run ./examples/tail --into ./back          # every file, under ./back
//
// Each value is followed by the terminator that its "eol" header names, a line feed
// without one. With --into, the "file" header says which file a line belongs to. A file is
// emptied when the first record of it comes, and what was sent comes back byte for byte;
// what was sent twice is there twice. An empty file has no lines, so it does not come back.
//
// Records of one partition come in their order, and between partitions there is none. So a
// file comes back whole if all its lines went to one partition, as they do unless send was
// given --key-delim and the topic has several.
//
// The header is text that somebody else wrote. A name that leads out of the directory, by
// "..", as an absolute path or over a symbolic link, is refused and ends the program.
//
// How to read it: main.go is the whole program from top to bottom. options.go reads the
// command line, print.go and into.go are the two things that can be done with a line.
package main
