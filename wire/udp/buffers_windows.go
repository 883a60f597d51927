package udp

import "syscall"

func socketBuffers(fd uintptr) (Buffers, error) {
	receive, err := syscall.GetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	if err != nil {
		return Buffers{}, err
	}
	send, err := syscall.GetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	return Buffers{Receive: receive, Send: send}, err
}
