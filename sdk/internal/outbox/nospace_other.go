//go:build !windows && !plan9

package outbox

import "syscall"

// noSpace are the errors of a write that say that there is no room.
var noSpace = []error{syscall.ENOSPC, syscall.EDQUOT}
