// Package rawclient speaks the protocol frame by frame over real QUIC, for tests of the
// server: it sends what it is told, in whatever order, and hides nothing. It retries
// nothing and remembers nothing, which is the SDK's business.
package rawclient
