//go:build !unix && !windows

package udp

import "errors"

func socketBuffers(uintptr) (Buffers, error) { return Buffers{}, errors.ErrUnsupported }
