// Package broker is what one server holds: the catalog, the topics with their open
// partitions, the producers that may write, and the memory for frames. Whatever speaks a
// protocol (the sessions of QUIC clients, and other doors later) calls the same broker
// and reaches the same partition owners.
//
// Requests come in as messages of package wire and are answered with messages or with a
// *wire.Error, so that a refusal has its number, its subject and its text from the place
// that refused.
package broker
