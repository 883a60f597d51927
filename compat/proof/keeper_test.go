//go:build linux

package proof

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// envKeeper makes the test binary the keeper of a small disk at this directory.
const envKeeper = "QUOIN_PROOF_KEEPER"

func init() { roles[envKeeper] = keepDisk }

// The disk is small enough to be full at once. An era of a campaign ends when there is not
// enough left of it.
const (
	diskSize     = "size=24m,nr_inodes=1024,mode=0700"
	enoughBytes  = 12 << 20
	enoughInodes = 512
)

// smallSegments makes the server need new files often, which is where inodes matter.
const smallSegments = 64 << 10

// keepDisk is the keeper: a process with a mount namespace of its own, in which a tmpfs
// stands at the directory. It starts and kills the server, which is its child and sees that
// disk, and fills and frees it. When the test ends, the keeper does, then the
// server, and then the disk is gone, whatever happens.
//
// A command is one line on stdin, its answer one line on stdout: "ok" and what was found, or
// "error" and why.
func keepDisk() {
	dir := os.Getenv(envKeeper)
	os.Unsetenv(envKeeper) // the server must not become a keeper
	k := &keeper{dir: dir}
	if err := mountDisk(dir); err != nil {
		answer("", fmt.Errorf("mount: %w", err))
		os.Exit(1)
	}
	answer("", nil)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		answer(k.obey(in.Text()))
	}
	k.kill()
}

func answer(found string, err error) {
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	fmt.Println("ok", found)
}

func mountDisk(dir string) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, diskSize)
}

// A keeper is the state of the keeper's process.
type keeper struct {
	dir    string
	server *exec.Cmd
}

func (k *keeper) obey(command string) (string, error) {
	verb, rest, _ := strings.Cut(command, " ")
	switch verb {
	case "start":
		return k.start(rest)
	case "kill":
		k.kill()
		return "", nil
	case fillBytes:
		return k.takeBytes()
	case fillInodes:
		return k.takeInodes()
	case "free":
		return k.free()
	case "topics":
		return k.topics()
	}
	return "", fmt.Errorf("no command %q", command)
}

func (k *keeper) data() string   { return filepath.Join(k.dir, "data") }
func (k *keeper) filler() string { return filepath.Join(k.dir, "filler") }

// start starts the server on the address and finds out its URL.
func (k *keeper) start(addr string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	k.server = exec.Command(exe)
	k.server.Env = append(os.Environ(), serveEnv(k.data(), addr, smallSegments))
	k.server.Stderr = io.MultiWriter(&stderr, os.Stderr)
	out, err := k.server.StdoutPipe()
	if err != nil {
		return "", err
	}
	if _, err := k.server.StdinPipe(); err != nil {
		return "", err
	}
	if err := k.server.Start(); err != nil {
		return "", err
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		k.kill()
		return "", fmt.Errorf("the server did not start: %s", strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(url), nil
}

// kill is kill -9.
func (k *keeper) kill() {
	if k.server != nil {
		k.server.Process.Kill()
		k.server.Wait()
		k.server = nil
	}
}

// takeBytes takes every byte that is free, and says how many there were.
func (k *keeper) takeBytes() (string, error) {
	f, err := os.OpenFile(k.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	block := make([]byte, 64<<10)
	taken := 0
	for len(block) > 0 && err == nil {
		var n int
		n, err = f.Write(block)
		taken += n
		if errors.Is(err, syscall.ENOSPC) {
			block, err = block[:len(block)/2], nil // the last pages one by one
		}
	}
	return fmt.Sprint(taken), errors.Join(err, f.Close())
}

// takeInodes makes files until there can be no more, and says how many that took.
func (k *keeper) takeInodes() (string, error) {
	err := os.MkdirAll(k.filler(), 0o700)
	for n := 0; ; n++ {
		if errors.Is(err, syscall.ENOSPC) {
			return fmt.Sprint(n), nil
		}
		if err != nil {
			return "", err
		}
		var f *os.File
		if f, err = os.CreateTemp(k.filler(), ""); err == nil {
			err = f.Close()
		}
	}
}

// free gives back what was taken, and says how many bytes and inodes there are now.
func (k *keeper) free() (string, error) {
	if err := os.RemoveAll(k.filler()); err != nil {
		return "", err
	}
	var s syscall.Statfs_t
	err := syscall.Statfs(k.dir, &s)
	return fmt.Sprint(int64(s.Bavail)*s.Bsize, s.Ffree), err
}

// topics lists the directories of topics, separated by blanks.
func (k *keeper) topics() (string, error) {
	names, err := topicDirs(k.data())
	return strings.Join(names, " "), err
}

// A disk is a small disk with a server on it, as the test sees it.
type disk struct {
	tb     testing.TB
	addr   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr tail
}

// newDisk starts a keeper that lives as long as the test. The error says that the system
// does not allow it.
func newDisk(tb testing.TB) (*disk, error) {
	tb.Helper()
	d := &disk{tb: tb, addr: freeAddr(tb)}
	flags := []uintptr{syscall.CLONE_NEWNS, syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER}
	if os.Geteuid() != 0 {
		flags = flags[1:]
	}
	var refused error
	for _, f := range flags {
		if refused = d.startKeeper(tb.TempDir(), f); refused == nil {
			return d, nil
		}
	}
	return nil, refused
}

func (d *disk) startKeeper(dir string, flags uintptr) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	d.cmd = exec.Command(exe)
	d.cmd.Env = append(os.Environ(), envKeeper+"="+dir)
	d.cmd.Stderr = &d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags&syscall.CLONE_NEWUSER != 0 {
		d.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		d.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.out = bufio.NewReader(out)
	if _, err := d.reply(); err != nil {
		d.end()
		return err
	}
	d.tb.Cleanup(func() {
		d.end()
		if d.tb.Failed() {
			d.tb.Logf("the end of what the server said:\n%s", d.stderr.String())
		}
	})
	return nil
}

func (d *disk) end() {
	d.in.Close()
	d.cmd.Wait()
}

func (d *disk) reply() (string, error) {
	line, err := d.out.ReadString('\n')
	if err != nil {
		return "", err
	}
	verdict, found, _ := strings.Cut(strings.TrimSpace(line), " ")
	if verdict != "ok" {
		return "", errors.New(found)
	}
	return found, nil
}

// tell gives a command to the keeper, which must be able to do it.
func (d *disk) tell(command string) string {
	d.tb.Helper()
	_, err := fmt.Fprintln(d.in, command)
	if err == nil {
		var found string
		if found, err = d.reply(); err == nil {
			return found
		}
	}
	d.tb.Fatalf("%s: %v", command, err)
	return ""
}

func (d *disk) start() (url string) { d.tb.Helper(); return d.tell("start " + d.addr) }
func (d *disk) kill()               { d.tb.Helper(); d.tell("kill") }
func (d *disk) topicDirs() []string { d.tb.Helper(); return strings.Fields(d.tell("topics")) }

// free gives back what was taken. enough says that there is room for a good deal more.
func (d *disk) free() (enough bool) {
	d.tb.Helper()
	found := d.tell("free")
	var bytes, inodes int
	if _, err := fmt.Sscan(found, &bytes, &inodes); err != nil {
		d.tb.Fatalf("free: %q: %v", found, err)
	}
	return bytes > enoughBytes && inodes > enoughInodes
}

// tail is the end of what was written to it.
type tail struct{ b []byte }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 2*tailBytes {
		t.b = append(t.b[:0], t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }
