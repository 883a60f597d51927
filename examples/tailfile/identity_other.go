//go:build !unix

package main

import "io/fs"

// identityOf has nothing to say here: a file is known by its first bytes alone.
func identityOf(fs.FileInfo) identity { return identity{} }
