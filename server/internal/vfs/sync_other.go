//go:build !linux

package vfs

import "os"

func syncData(f *os.File) error { return f.Sync() }

// dropCache has no portable form; the caller then reads what the system remembers.
func dropCache(*os.File) error { return nil }
