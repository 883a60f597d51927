// Package examples holds two programs that show the SDK at work on something real: whole
// files go in, line by line, and come out again byte for byte.
//
//	go run ./examples/send /var/log/*.log   # each line becomes a record of the topic "lines"
//	go run ./examples/tail                  # all lines on stdout
//	go run ./examples/tail --into ./back    # every file back, under ./back
//
// Neither needs a server: without a URL they start one in their own process, on the data
// directory ./quoin-data, and stop it when they are done. With --server or QUOIN_URL they
// use the server that is named there.
//
// Begin reading at send/main.go, then tail/main.go. The package itself holds no code, only
// the test that sends files through both programs and compares what comes back.
package examples
