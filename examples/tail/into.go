package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// maxOpen is how many files are open at the same time.
	maxOpen = 64
	// maxFiles bounds the files of one run: names come from outside.
	maxFiles = 1 << 20
)

// An into puts files together under a directory. It reaches no file outside of it.
type into struct {
	root   *os.Root
	dir    string
	follow bool
	report io.Writer
	open   map[string]*output
	begun  map[string]bool // files that were emptied already
	lines  int64
}

// An output is an open file.
type output struct {
	file *os.File
	buf  *bufio.Writer
}

func newInto(dir string, follow bool, report io.Writer) (*into, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &into{root: root, dir: dir, follow: follow, report: report,
		open: make(map[string]*output), begun: make(map[string]bool)}, nil
}

func (d *into) write(file, line []byte) error {
	out := d.open[string(file)]
	if out == nil {
		var err error
		if out, err = d.openFile(string(file)); err != nil {
			return err
		}
	}
	d.lines++
	if _, err := out.buf.Write(line); err != nil || !d.follow {
		return err
	}
	return out.buf.Flush()
}

// openFile opens a file: to begin it, or to go on with it when it had to be closed.
func (d *into) openFile(name string) (*output, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if len(d.open) >= maxOpen {
		if err := d.closeFiles(); err != nil {
			return nil, err
		}
	}
	mode := os.O_APPEND
	if !d.begun[name] {
		if len(d.begun) >= maxFiles {
			return nil, fmt.Errorf("more than %d files", maxFiles)
		}
		if err := d.root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return nil, err
		}
		mode = os.O_TRUNC
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|mode, 0o666)
	if err != nil {
		return nil, err
	}
	d.begun[name] = true
	d.open[name] = &output{file: f, buf: bufio.NewWriterSize(f, printBytes)}
	return d.open[name], nil
}

// checkName refuses what is not the plain relative path of a file, so that no two names
// mean the same file. What a link makes of a name os.Root sees, and refuses likewise.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New(`no header "file" says where the line belongs: send did not write it`)
	case path.IsAbs(name), !filepath.IsLocal(filepath.FromSlash(name)):
		return fmt.Errorf("file %.100q leads out of the directory, refused", name)
	case path.Clean(name) != name, name == ".", strings.ContainsRune(name, 0):
		return fmt.Errorf("file %.100q is not a plain path, refused", name)
	}
	return nil
}

func (d *into) closeFiles() error {
	var errs []error
	for name, out := range d.open {
		errs = append(errs, out.buf.Flush(), out.file.Close())
		delete(d.open, name)
	}
	return errors.Join(errs...)
}

// close finishes the files and says how many there are.
func (d *into) close() error {
	err := errors.Join(d.closeFiles(), d.root.Close())
	fmt.Fprintf(d.report, "%d lines in %d files under %s\n", d.lines, len(d.begun), d.dir)
	return err
}
