// Package network holds the tests of what clients and servers do on networks that are bad:
// datagrams lost, late, doubled and replayed, a NAT that forgets, an address that changes, a
// server that stands still, is killed, or is not heard for a while.
//
// All of it is real QUIC between a real client and a real server. Between the two stands a
// relay, which is a UDP socket that clients talk to and one socket towards the server for each
// of them. Its nouns:
//
//   - conditions are what a direction does to datagrams: delay, loss, reordering, doubling, rate.
//   - a link decides by a seed what becomes of each datagram; it does no I/O and has no clock.
//   - a line is a link at work, with its queue of datagrams that are on their way.
//   - a path is the socket towards the server that stands for one client.
//   - the tape is what clients sent, for playing it again.
//
// The relay counts what it did, and has tests of its own: one of a bad network that was a good
// one proves nothing.
//
// Traffic is what each test sends meanwhile: several idempotent producers, and a consumer which
// follows. In the end every record must have been acknowledged, stand in the log once, in the
// order of its producer and at the place that its acknowledgement names, and have come to the
// consumer once.
//
// # Sizes
//
//	go test ./compat/network -timeout 1h -seed 7 -records 50000 -rebinds 1000 \
//		-stops 100ms,1s,5s,10s,15s -restarts 50 -hole 1m -ledger /tmp/ledger
//
// The seed repeats what the relay decides of the nth datagram, not what two processes send.
//
// # Acknowledgements over a bad link
//
// BenchmarkAckOverBadLink measures the latency of acknowledgements over a link of the kernel's,
// beside the same batches over one connection of TCP with TLS. It says so if it may not make such
// a link. It is worth something only where nothing else disturbs it:
//
//	go test -c ./compat/network && TMPDIR=/dev/shm chrt -f 5 ./network.test \
//		-test.run '^$' -test.bench AckOverBadLink -test.benchtime 1x -test.v -ackdelay 20ms
//
// With 400 records of 1 KiB a second over 8 partitions and 1 % loss each way the 99th percentile
// was, in ms, in one to five runs on two cores, with the data in memory or on disk, "once" without
// second copies:
//
//	round trip   TCP       1 connection  2          2 once   4        4 once
//	20 ms        66-95     46-49         30-37      48-50    26       53
//	40 ms        165-194   745           88-90      89-95    64-70    93-95
//	60 ms        215       seconds       374        182      123      136
//
// Three things make these numbers. First, one record in fifty loses its packet or that of its
// answer, so without copies the 99th percentile is one of those. Its sender learns of the loss a
// round trip after the next packet of the same connection, or an eighth of a round trip after the
// answer was due, whichever is later, and the repair takes another round trip: 2 1/8 round trips in
// all, and a little more over many connections, where the next packet comes later. TCP does the
// same, but all records behind the lost one wait too.
//
// Second, every loss makes a connection slower by a third, and it recovers by a packet a round
// trip. The longer the way is, the sooner it cannot carry the load any more: one connection at 40
// ms, two at 60 ms. That is what sdk.Connections is for.
//
// Third, second copies of what is small (package wire/copies) make a loss cost an eighth of a round
// trip, where the connections have room for twice the load: two at 20 ms, four at 40 ms. Where
// they have not, copies hold up what is sent for the first time, and are left out.
//
// The package holds no code of its own, and no test waits longer than its subject demands: times
// that are reported are measured, and only bounded generously.
package network
