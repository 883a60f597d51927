// Command named counts: it sends the numbers 1, 2, 3 and so on to a topic, through a
// producer that has a name and an outbox. Kill it whenever you like, with kill -9, and
// start it again: it goes on, and in the end each number is stored once and in order.
//
//	go run ./examples/named                  # 1 to 10000, in about ten seconds
//	go run ./examples/named --to 20000       # goes on with 10001
//	go run ./examples/tail --topic numbers   # what is stored
//
// A run says what it found, where it goes on, and at the end what it reads back:
//
//	producer "counter" in epoch 1
//	outbox: 2 batches with 38 records are sent again, 0 unknown batches are settled
//	settled: sequences 4096 to 4115 are stored at offset 4096
//	settled: sequences 4116 to 4133 are stored at offset 4116
//	going on with 4135
//	sent 5866, appended 5866, duplicates 0, failed 0 in 5.87s
//	read back 10000 records: the numbers 1 to 10000, each once and in order, from 2 runs
//
// # What is guaranteed, and by what
//
//   - Named: who starts takes the name over. Whoever held it before can store nothing any
//     more, and the server answers for what it had under way before it hands out the name.
//   - Outbox: a batch is on the local disk before it is sent. A batch that a killed process
//     left without an outcome is sent again as it was, and so stored once.
//   - Neither knows the numbers that the killed process had only in memory: they are in no
//     batch yet, and gone. So where to go on is read from the topic, not from the outbox:
//     from the last record of this producer there, when the name is taken over and the
//     outbox has its outcome. From then on it is changed by this process alone: as soon as
//     somebody else takes the name over, nothing more is stored from here.
//
// The three together make each number stored once over any kill. The third works since a
// number can be made again. Of records that cannot, such as requests that came in from
// outside, those are safe whose callback or Flush said so; others may be stored or not
// when the process is killed, and none is stored twice. A source with places of its own, such
// as a file, need not be looked up like this: with [sdk.ProducerBuilder.Position] its place
// is stored beside the records.
//
// The delivery timeout could leave a hole: a batch that has no outcome by then is given up,
// and those behind it go on. For a counter there is no reason to give up, so it is set to
// its longest, seven days, and the program stops after that. It stops at once when the
// server lost what it had acknowledged. A hole would be seen by every later run, which
// reads everything back.
//
// # Two at once
//
// A second process with the same name takes over, and the first one is told: it ends with
// an error that says since when and from where. With the same outbox as well it is the
// second one that is refused, since a directory has one owner at a time.
//
// An outbox that is behind, as another one was used with the name since, goes on too if it
// holds nothing. What it has under way is settled, and then the server refuses to go on with
// it, once: PRODUCER_CLONED.
//
// How to read it: main.go is the whole program from top to bottom. options.go reads the
// command line, watch.go hears what happens behind the back of the program, next.go finds
// the number to go on with, tally.go counts outcomes, and check.go reads everything back.
package main
