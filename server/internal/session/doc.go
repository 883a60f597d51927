// Package session is one QUIC connection seen from the server: it accepts streams, reads
// frames, hands the work to the broker and its partitions, and writes the answers.
//
// A stream is named by its first frame. The control stream lives as long as the
// connection. A request stream carries one request and one reply. A lane stream carries
// the batches of one lane or a few; one goroutine reads it and one writes all results
// that have queued, several a frame. A subscription stream pushes batches, under a credit
// in bytes that the reader renews.
//
// The package never leaves a stream unread to hold a client back, as two unread streams
// can freeze a whole QUIC connection: what there is no room for is read and answered
// with THROTTLED. It decides nothing about batches: it checks bytes, and the partition's
// owner decides.
package session
