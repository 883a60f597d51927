package outbox

import "golang.org/x/sys/windows"

// noSpace are the errors of a write that say that there is no room.
var noSpace = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL}
