//go:build planted

package planted

import "os"

// The bugs, of which the environment switches one on.
var (
	DedupOff   = os.Getenv(EnvBug) == NameDedupOff
	EarlyState = os.Getenv(EnvBug) == NameEarlyState
	EarlyAck   = os.Getenv(EnvBug) == NameEarlyAck
)
