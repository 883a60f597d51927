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
// BenchmarkAckOverBadLink measures the latency of acknowledgements over a link of the kernel's,
// beside the same batches over TCP with TLS. It says so if it may not make such a link. The
// variable QUOIN_NETWORK_ACK_CLIENTS spreads the partitions over several connections.
//
// The package holds no code of its own, and no test waits longer than its subject demands: times
// that are reported are measured, and only bounded generously.
package network
