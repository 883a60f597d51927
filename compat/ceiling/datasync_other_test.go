//go:build !linux

package ceiling

import "os"

// datasync waits until the file's bytes are on disk.
func datasync(f *os.File) error { return f.Sync() }
