//go:build !unix

package server

import "io/fs"

// The temporary directory is the user's own here.
func ownedByUs(fs.FileInfo) bool { return true }
