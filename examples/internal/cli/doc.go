// Package cli is what the example programs share besides lines: how they end, and how
// they reach a server.
//
// The nouns of the package:
//
//   - [Streams] are where a program reads and writes, so that a test can run it in process.
//   - [Server] is what the flags --server and --data and the variable QUOIN_URL say.
//   - a [Session] is a connected client, and the server behind it if this process had to
//     start one.
//   - the exit code of a program follows from its error alone, see [ExitCode].
//   - [NewLimiter] is for a pace, [Outlive] for what is under way when an interrupt comes.
//
// The package never sends or reads a record: that is what the examples are there to show.
package cli
