// Command quoin is the Quoin server and, with time, the tools of its operator.
//
//	quoin serve             serve a data directory over QUIC
//	quoin log verify DIR    check every byte of a data directory
//	quoin batch dump FILE   print batches field by field
//	quoin version           say which version this is
//
// Data goes to stdout; notes, logs and progress go to stderr. Exit codes: 0 ok, 1 other,
// 2 usage, 3 not found, 7 verification failed,
// 130 interrupted.
package main
