// Package servertest gives tests a real server in process: real QUIC on loopback, real
// files in the test's own directory, and faults by name.
//
//	s := servertest.Start(t)
//	client, err := sdk.Dial(ctx, s.URL())
//	...
//	s.DropAck(3)       // the third acknowledgement from now is lost with its connection
//	s.CutConnection()  // every connection breaks
//	s.Restart()        // the server stops in good order and starts again, same address
//	s.FailSync()       // the next sync fails, as a dying disk's does
//
// The server stops when the test ends; what it logs appears with the test's own output
// when the test fails.
package servertest
