package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The two ends of a TUN link.
var (
	nearEnd = netip.MustParseAddr("10.77.0.1")
	farEnd  = netip.MustParseAddr("10.77.0.2")
)

// A tunLink is a wire between two network namespaces, on which this process carries every
// IP packet through a line in each direction.
type tunLink struct {
	near, far *end
	up, down  *line // from near to far, and back
	running   sync.WaitGroup
}

// An end is a network namespace with one interface. Its goroutine has a thread of its own
// that lives in there, and dies with it.
type end struct {
	do     chan func()
	thread sync.WaitGroup
	device *os.File
}

// newTunLink makes a link that ends with the test. The error says that the system does not
// allow it.
func newTunLink(tb testing.TB, seed uint64) (*tunLink, error) {
	tb.Helper()
	near, err := newEnd(nearEnd)
	if err != nil {
		return nil, err
	}
	far, err := newEnd(farEnd)
	if err != nil {
		near.close()
		return nil, err
	}
	l := &tunLink{near: near, far: far}
	l.up, l.down = newLine(newLink(seed, 1), far.deliver), newLine(newLink(seed, 2), near.deliver)
	l.running.Go(l.up.run)
	l.running.Go(l.down.run)
	l.running.Go(func() { near.carry(l.up) })
	l.running.Go(func() { far.carry(l.down) })
	tb.Cleanup(func() {
		near.close()
		far.close()
		close(l.up.stop)
		close(l.down.stop)
		l.running.Wait()
	})
	return l, nil
}

func newEnd(addr netip.Addr) (*end, error) {
	e := &end{do: make(chan func())}
	e.thread.Go(func() {
		runtime.LockOSThread() // never unlocked: nobody else may get this thread
		for fn := range e.do {
			fn()
		}
	})
	err := e.in(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a network namespace: %w", err)
		}
		e.device, err = openTun(addr)
		return err
	})
	if err != nil {
		close(e.do)
		e.thread.Wait()
		return nil, err
	}
	return e, nil
}

// in runs fn in the namespace; processes that it starts are there too.
func (e *end) in(fn func() error) error {
	result := make(chan error)
	e.do <- func() { result <- fn() }
	return <-result
}

func (e *end) start(cmd *exec.Cmd) error { return e.in(cmd.Start) }

func (e *end) close() {
	e.device.Close()
	close(e.do)
	e.thread.Wait()
}

func (e *end) deliver(d datagram) bool {
	_, err := e.device.Write(d.bytes)
	return err == nil
}

// carry hands every packet that leaves here to the line, until the device is closed.
func (e *end) carry(l *line) {
	b := make([]byte, maxDatagram)
	for {
		n, err := e.device.Read(b)
		if err != nil {
			return
		}
		l.take(nil, append([]byte(nil), b[:n]...))
	}
}

// openTun makes the interface of the namespace that the thread is in.
func openTun(addr netip.Addr) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq("quoin0")
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = setUp("quoin0", addr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("a TUN device: %w", err)
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// setUp gives an interface its address, in a network of 256, and switches it on.
func setUp(name string, addr netip.Addr) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	address, err1 := unix.NewIfreq(name)
	mask, err2 := unix.NewIfreq(name)
	flags, err3 := unix.NewIfreq(name)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if err := errors.Join(address.SetInet4Addr(addr.AsSlice()), mask.SetInet4Addr([]byte{255, 255, 255, 0})); err != nil {
		return err
	}
	flags.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return errors.Join(
		unix.IoctlIfreq(s, unix.SIOCSIFADDR, address),
		unix.IoctlIfreq(s, unix.SIOCSIFNETMASK, mask),
		unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, flags),
	)
}
