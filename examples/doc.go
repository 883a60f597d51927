// Package examples holds five programs that show the product at work on something real.
//
// Whole files go in, line by line, and come out again byte for byte:
//
//	go run ./examples/send /var/log/*.log   # each line becomes a record of the topic "lines"
//	go run ./examples/tail                  # all lines on stdout
//	go run ./examples/tail --into ./back    # every file back, under ./back
//
// A producer with a name and an outbox counts, and each number is stored once, however
// often the program is killed:
//
//	go run ./examples/named
//
// A file that grows and rotates is followed line by line, each line once over any kill:
//
//	go run ./examples/tailfile /var/log/some.log
//
// A program has the server inside, sends to it, reads from it, and stops in good order:
//
//	go run ./examples/embed
//
// None needs a server: without a URL they start one in their own process, on the data
// directory ./quoin-data, and stop it when they are done. With --server or QUOIN_URL all
// but embed use the server that is named there.
//
// Begin reading at send/main.go, then tail/main.go. The package itself holds no code, only
// the tests that run the programs as they are built: files go through two of them and are
// compared with what comes back, the third is killed at random moments, the fourth is
// joined, interrupted and killed. Those of tailfile are in its own folder.
package examples
