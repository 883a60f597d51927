// Command quoin is the Quoin server and, with time, the tools of its operator.
//
//	quoin serve             serve a data directory over QUIC
//	quoin log verify DIR    check every byte of a data directory
//	quoin batch dump PLACE  print batches field by field, of a file or at an offset
//	quoin producer list     list the producers that a topic knows; also describe, explain
//	quoin producer resolve  ask what became of a batch whose outcome was left open
//	quoin version           say which version this is
//
// Data goes to stdout; notes, logs and progress go to stderr. Exit codes: 0 ok, 1 other,
// 2 usage, 3 not found, 4 denied, 5 unreachable or timed out, 6 partial, 7 verification
// failed, 130 interrupted.
//
// The commands that look at files change nothing: what they use of the server's packages
// gets a file system that opens files for reading only.
package main
