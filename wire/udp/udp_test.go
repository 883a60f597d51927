package udp

import (
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSwitchedOff(t *testing.T) {
	for value, want := range map[string]bool{
		"off": true, "OFF": true, " false ": true, "no": true, "0": true,
		"": false, "on": false, "1": false, "of": false,
	} {
		if got := switchedOff(value); got != want {
			t.Errorf("switchedOff(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestListenRefusesWhatIsNotUDP(t *testing.T) {
	for _, network := range []string{"tcp", "unixgram", "ip4:icmp", ""} {
		c, err := Listen(network, "127.0.0.1:0", Options{})
		if err == nil {
			c.Close()
			t.Errorf("Listen(%q) succeeded", network)
		}
	}
}

func TestPlainSocketWhenSwitchedOff(t *testing.T) {
	tests := []struct {
		name string
		env  string
		o    Options
	}{
		{"by the option", "", Options{PlainReceive: true}},
		{"by the environment", "off", Options{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(EnvGRO, tt.env)
			c := listen(t, "udp4", "127.0.0.1:0", tt.o)
			if _, plain := c.(*net.UDPConn); !plain || Coalesces(c) {
				t.Errorf("Listen returned %T, want a plain socket", c)
			}
		})
	}
}

func TestReadsOneDatagramAtATime(t *testing.T) {
	for _, o := range []Options{{}, {PlainReceive: true}} {
		c := listen(t, "udp4", "127.0.0.1:0", o)
		peer := listen(t, "udp4", "127.0.0.1:0", o)
		for _, text := range []string{"first", "", "third"} {
			if _, err := peer.WriteTo([]byte(text), c.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 100)
			n, from, err := c.ReadFrom(b)
			if err != nil {
				t.Fatal(err)
			}
			if string(b[:n]) != text || from.String() != peer.LocalAddr().String() {
				t.Errorf("read %q from %v, want %q from %v", b[:n], from, text, peer.LocalAddr())
			}
		}
	}
}

func TestReadEndsAtDeadlineAndAtClose(t *testing.T) {
	for _, o := range []Options{{}, {PlainReceive: true}} {
		c := listen(t, "udp4", "127.0.0.1:0", o)
		failed := make(chan error)
		read := func() {
			_, _, err := c.ReadFrom(make([]byte, 10))
			failed <- err
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		go read()
		var timeout net.Error
		if err := <-failed; !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("after the deadline: %v, want a timeout", err)
		}
		c.SetReadDeadline(time.Time{})
		go read()
		c.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v, want net.ErrClosed", err)
		}
	}
}

func TestBufferSizesFollowTheSocket(t *testing.T) {
	c := listen(t, "udp4", "127.0.0.1:0", Options{})
	const asked = 64 << 10
	if err := errors.Join(c.SetReadBuffer(asked), c.SetWriteBuffer(asked)); err != nil {
		t.Fatal(err)
	}
	got, err := BufferSizes(c)
	if err != nil {
		t.Fatal(err)
	}
	if got.Receive < asked || got.Send < asked || got.Enough() {
		t.Errorf("BufferSizes = %+v after asking for %d", got, asked)
	}
	c.Close()
	if _, err := BufferSizes(c); err == nil {
		t.Error("BufferSizes of a closed socket succeeded")
	}
}

// listen opens a socket that is closed with the test and cannot hang it.
func listen(t testing.TB, network, addr string, o Options) Conn {
	t.Helper()
	c, err := Listen(network, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}
