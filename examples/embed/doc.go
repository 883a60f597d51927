// Command embed is a program that has the server inside: it starts one in its own process
// by package server, measures itself, sends what it measures to a topic, and prints what it
// reads back from there.
//
//	go run ./examples/embed                          # ten measurements, one each 100 ms
//	go run ./examples/embed --count 0                # until an interrupt
//	go run ./examples/embed --listen 127.0.0.1:7733  # other programs may join, see stderr
//
// On stdout there is a line for each measurement of this run, and a summary:
//
//	0 heap 1843 KiB, 21 goroutines
//	1 heap 1851 KiB, 21 goroutines
//	stored 2, read 2, 0 from earlier runs
//
// The data directory, ./quoin-data, stays. The next run finds there what this one stored,
// and counts it. One process at a time has a data directory open.
//
// # Who stops first
//
// A program that embeds the server is a client of itself, so it must stop in order, from
// the source to the disk:
//
//  1. nothing is measured any more
//  2. the producer is closed: everything that it accepted has its outcome
//  3. the consumer has read as far as the last acknowledgement, and is closed
//  4. the client is closed
//  5. the server is shut down: it syncs, closes its files, and gives the address free
//
// Each step has a time within which it ends. An interrupt begins with step 1, and nothing
// that was acknowledged is lost; nor would it be by a kill, which the next start recovers
// from.
//
// How to read it: main.go starts and stops, loop.go is the loop that measures and prints,
// options.go reads the command line.
package main
