//go:build !planted

package planted

// The bugs, none of which is there.
const (
	DedupOff   = false
	EarlyState = false
	EarlyAck   = false
)
