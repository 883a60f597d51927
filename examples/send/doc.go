// Command send sends files to a topic, line by line, through an idempotent producer: each
// line becomes a record, and is stored once whatever is lost on the way.
//
//	go run ./examples/send app.log web.log        # to the topic "lines"
//	journalctl -f | go run ./examples/send        # what comes in on stdin
//	go run ./examples/send --partitions 4 --key-delim ' ' access.log
//
// The value of a record is the line without its terminator. The header "file" says which
// file it is from; the header "eol" says "crlf" or "none" where the line does not end in a
// plain line feed. With these two the command in ../tail puts the files together again,
// byte for byte. An empty file has no lines, so nothing is sent of it.
//
// All lines of a file go to one partition, in their order. With --key-delim the part of a
// line before the delimiter becomes the record's key and chooses the partition: then order
// is kept for each key, and not for a file as a whole.
//
// The last line on stdout is a summary. Every line that was read is counted once:
//
//	sent 8000, appended 8000, duplicates 0, failed 0 in 312ms
//
// A duplicate is a line that the producer had to send again, and that the server had
// stored the first time. That works within one run: a second run is another producer, and
// what it sends is appended behind what the first one sent.
//
// How to read it: main.go is the whole program from top to bottom. options.go reads the
// command line, source.go says what is read and under which name, outcome.go counts, and
// progress.go draws the bar.
package main
