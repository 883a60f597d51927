package console

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAddressInUse(t *testing.T) {
	cfg := testConfig()
	cfg.Addr = listen(t, cfg).Addr().String()
	if c, err := Listen(cfg); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), cfg.Addr) {
		t.Errorf("%v, %v", c, err)
	}
}

func TestAddressThatIsNone(t *testing.T) {
	cfg := testConfig()
	cfg.Addr = "nowhere"
	if c, err := Listen(cfg); err == nil || errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("%v, %v", c, err)
	}
}

func TestURLOfAnUnspecifiedAddress(t *testing.T) {
	cfg := testConfig()
	cfg.Addr = ":0"
	if c := listen(t, cfg); !strings.HasPrefix(c.URL(), "http://127.0.0.1:") || get(t, c, "/livez").status != 200 {
		t.Errorf("the URL is %s", c.URL())
	}
}

func dial(t *testing.T, c *Console) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// answered reports whether a connection gets an answer, and leaves it open.
func answered(conn net.Conn) bool {
	if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return false
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

func TestConnectionsAreBounded(t *testing.T) {
	c := listen(t, testConfig())
	conns := make([]net.Conn, maxConnections)
	for i := range conns {
		if conns[i] = dial(t, c); !answered(conns[i]) {
			t.Fatalf("connection %d of %d gets no answer", i+1, maxConnections)
		}
	}
	if answered(dial(t, c)) {
		t.Fatal("one more gets an answer")
	}
	conns[0].Close()
	for end := time.Now().Add(patience); !answered(dial(t, c)); {
		if time.Now().After(end) {
			t.Fatal("no room after one has gone")
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	c := listen(t, testConfig())
	r := ask(t, c, "GET", "/livez", func(r *http.Request) {
		r.Header.Set("Padding", strings.Repeat("x", maxHeaderBytes+8<<10))
	})
	if r.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", r.status)
	}
}

// Close waits for nobody: not for a client that says nothing, nor for one that keeps its
// connection, nor for one that stops in the middle of a request.
func TestCloseWithClientsThatStay(t *testing.T) {
	c := listen(t, testConfig())
	silent, kept, half := dial(t, c), dial(t, c), dial(t, c)
	if !answered(kept) {
		t.Fatal("no answer")
	}
	if _, err := io.WriteString(half, "GET /livez HTTP/1.1\r\nHost: loc"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	c.Close()
	if took := time.Since(begin); took > stopGrace+5*time.Second {
		t.Errorf("Close took %v", took)
	}
	for name, conn := range map[string]net.Conn{"silent": silent, "kept": kept, "half": half} {
		if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Close() // again is no harm
	if conn, err := net.Dial("tcp", c.Addr().String()); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
}

// pipes is a listener without a network, for tests in which time is not real.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7734} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// Whoever is slow is cut when his time is over, and not before.
func TestSlowClientsAreCut(t *testing.T) {
	const whole = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, row := range []struct {
		reason string
		send   string
		read   bool // the answer, if there is one
		want   time.Duration
	}{
		{"says nothing", "", true, headerTimeout},
		{"stops within the headers", "GET /livez HTTP/1.1\r\nHo", true, headerTimeout},
		{"keeps the connection and is quiet", whole, true, idleTimeout},
		{"does not read its answer", whole, false, writeTimeout},
		{"does not send the body that it promised", "GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", true, readTimeout},
	} {
		t.Run(row.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				c := newConsole(testConfig(), p)
				defer c.Close()
				conn := p.dial()
				defer conn.Close()
				begin := time.Now()
				if _, err := io.WriteString(conn, row.send); err != nil {
					t.Fatal(err)
				}
				if row.read {
					io.Copy(io.Discard, conn)
				} else {
					time.Sleep(writeTimeout + time.Second) // of the test's own time
					synctest.Wait()
					begin = begin.Add(time.Second)
					if n := c.open.Load(); n != 0 {
						t.Errorf("%d connections are open", n)
					}
				}
				if took := time.Since(begin); took < row.want || took > row.want+time.Second {
					t.Errorf("cut after %v, want %v", took, row.want)
				}
			})
		})
	}
}
