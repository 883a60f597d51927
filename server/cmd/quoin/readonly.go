package main

import (
	"io/fs"
	"os"

	"github.com/quoin-io/quoin/server/internal/vfs"
)

// files is what commands that only look get at.
var files vfs.FS = readOnly{vfs.OS}

// readOnly is the machine's file system for commands that only look: files are opened for
// reading, so nothing can be changed by mistake, and no right to write is needed.
type readOnly struct{ vfs.FS }

func (readOnly) Open(name string) (vfs.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return readOnlyFile{f}, nil
}

func (readOnly) Create(name string) (vfs.File, error) { return nil, refused("create", name) }
func (readOnly) Rename(name, _ string) error          { return refused("rename", name) }
func (readOnly) Remove(name string) error             { return refused("remove", name) }
func (readOnly) RemoveAll(name string) error          { return refused("remove", name) }
func (readOnly) MkdirAll(name string) error           { return refused("mkdir", name) }
func (readOnly) SyncDir(name string) error            { return refused("sync", name) }

func refused(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission}
}

// readOnlyFile leaves refusals to the system, which knows that it is open for reading.
type readOnlyFile struct{ *os.File }

func (f readOnlyFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
