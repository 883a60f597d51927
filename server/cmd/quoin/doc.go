// Command quoin is the Quoin server and the tools of who uses and operates it.
//
//	quoin serve             serve a data directory over QUIC
//	quoin topic             create, list, describe, alter and delete topics
//	quoin produce TOPIC     send what comes in, one record a line
//	quoin consume TOPIC     print records as they come
//	quoin log verify DIR    check every byte of a data directory
//	quoin batch dump PLACE  print batches field by field, of a file or at an offset
//	quoin producer list     list the producers that a topic knows; also describe, explain
//	quoin producer resolve  ask what became of a batch whose outcome was left open
//	quoin completion SHELL  print what makes a shell complete commands
//	quoin version           say which version this is
//
// Data goes to stdout; notes, logs, progress and summaries go to stderr. Lists are a table on a
// terminal and separated by tabs elsewhere; with --output json every command but serve and
// completion prints one object a line, whose keys stay. Nothing is coloured, so NO_COLOR changes
// nothing. Nobody is asked anything but on a terminal.
//
// Exit codes: 0 ok, 1 other, 2 usage, 3 not found, 4 denied, 5 unreachable or timed out,
// 6 partial, 7 verification failed, 130 interrupted. A pipe that its reader closed is no error.
//
// The commands that look at files change nothing: what they use of the server's packages
// gets a file system that opens files for reading only.
package main
