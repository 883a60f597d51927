// Command quoin is the Quoin server and, with time, the tools of its operator.
//
//	quoin serve     serve a data directory over QUIC
//	quoin version   say which version this is
//
// Data goes to stdout; notes, logs and progress go to stderr. Exit codes: 0 ok, 1 other,
// 2 usage, 130 interrupted.
package main
