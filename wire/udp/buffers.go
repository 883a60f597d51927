package udp

import (
	"fmt"
	"syscall"
)

// WantedBuffer is the size in bytes that the QUIC library asks for on each side of a
// socket. With less, bursts are dropped by the kernel and look like loss on the network.
// About 1 MiB still carries full load on one machine; 200 KiB, a usual default, does not.
const WantedBuffer = 7 << 20

// Buffers are the sizes of a socket's kernel buffers in bytes, as the kernel counts them.
// Linux reports twice what was set, as it charges its own bookkeeping to the same budget;
// the library compares this same figure with [WantedBuffer].
type Buffers struct {
	Receive int
	Send    int
}

// Enough reports whether both buffers are as large as the QUIC library wants.
func (b Buffers) Enough() bool {
	return b.Receive >= WantedBuffer && b.Send >= WantedBuffer
}

// BufferSizes asks the kernel for the buffer sizes that c has now. The QUIC library
// enlarges them when it first uses the socket, so ask after the first listen or dial to
// learn what was granted. The error is [errors.ErrUnsupported] on systems that do not tell.
func BufferSizes(c syscall.Conn) (Buffers, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Buffers{}, fmt.Errorf("read UDP buffer sizes: %w", err)
	}
	var sizes Buffers
	var failed error
	err = raw.Control(func(fd uintptr) { sizes, failed = socketBuffers(fd) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return Buffers{}, fmt.Errorf("read UDP buffer sizes: %w", err)
	}
	return sizes, nil
}
