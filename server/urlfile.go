package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxURL bounds what FindURL reads.
const maxURL = 4 << 10

// urlFile is where the URL of the last server that was started by this user stands.
func urlFile() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("quoin-%d", os.Getuid()))
	}
	return filepath.Join(dir, "quoin.url")
}

// Announce writes the server's URL to a file that FindURL finds, so that a second
// terminal needs no copying. The function that it returns takes the announcement back,
// unless another server has announced itself since.
func (s *Server) Announce() (withdraw func(), err error) {
	name := urlFile()
	if err := ownDir(filepath.Dir(name)); err != nil {
		return nil, err
	}
	line := s.URL() + "\n"
	temp := fmt.Sprintf("%s.%d", name, os.Getpid())
	if err := os.WriteFile(temp, []byte(line), 0o600); err != nil {
		return nil, fmt.Errorf("announce the URL: %w", err)
	}
	if err := os.Rename(temp, name); err != nil {
		return nil, fmt.Errorf("announce the URL: %w", err)
	}
	return func() {
		if have, err := os.ReadFile(name); err == nil && string(have) == line {
			os.Remove(name)
		}
	}, nil
}

// ownDir makes a directory that belongs to this user alone: somebody else's URL, with
// somebody else's pin, must not be followed.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("announce the URL: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("announce the URL: %w", err)
	}
	if !info.IsDir() || !ownedByUs(info) {
		return fmt.Errorf("announce the URL: %s belongs to somebody else", dir)
	}
	return nil
}

// ErrNoServer says that no server of this user has announced itself.
var ErrNoServer = errors.New("no server is announced on this machine: give its URL")

// FindURL returns the URL that a server of this user on this machine has announced.
func FindURL() (string, error) {
	name := urlFile()
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", ErrNoServer
	case err != nil:
		return "", fmt.Errorf("find the server: %w", err)
	case !info.Mode().IsRegular() || !ownedByUs(info):
		return "", fmt.Errorf("find the server: %s belongs to somebody else", name)
	case info.Size() > maxURL:
		return "", fmt.Errorf("find the server: %s is not a URL", name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("find the server: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
