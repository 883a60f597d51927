//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

func identityOf(info fs.FileInfo) identity {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{uint64(stat.Dev), uint64(stat.Ino)}
}
