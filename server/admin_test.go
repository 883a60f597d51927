package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// adminGet asks the admin listener.
func adminGet(t *testing.T, url, path string) (status int, body string) {
	t.Helper()
	// No connection is kept: it would be seen as a goroutine that was left behind.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: rawclient.Patience}
	r, err := client.Get(url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// wantMetrics checks lines of a scrape.
func wantMetrics(t *testing.T, url string, want ...string) {
	t.Helper()
	_, body := adminGet(t, url, "metrics")
	for _, line := range want {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, only(body, line))
		}
	}
}

// only is what a scrape has of the metric of a line.
func only(body, line string) (have string) {
	name, _, _ := strings.Cut(line, " ")
	for l := range strings.Lines(body) {
		if strings.HasPrefix(l, name) {
			have += l
		}
	}
	return have
}

func TestNoAdminListenerUnlessAsked(t *testing.T) {
	if url := start(t, server.Config{Data: t.TempDir()}).AdminURL(); url != "" {
		t.Errorf("there is one at %s", url)
	}
}

func TestAdminListener(t *testing.T) {
	s := start(t, server.Config{Data: t.TempDir(), AdminAddr: "127.0.0.1:0"})
	if status, body := adminGet(t, s.AdminURL(), "readyz"); status != 200 || body != "ready\n" {
		t.Errorf("ready: %d %q", status, body)
	}
	wantMetrics(t, s.AdminURL(), "quoin_connections 0", "quoin_topics 0", "quoin_partitions 0")
	rawclient.Dial(t, s.URL()).CreateTopic("t", 3)
	wantMetrics(t, s.AdminURL(), "quoin_connections 1", "quoin_topics 1", "quoin_partitions 3", "quoin_stopped_partitions 0",
		"quoin_damaged_ranges 0", "quoin_damaged_records 0",
		`quoin_frame_memory_bytes{direction="in"} 0`, `quoin_frame_memory_bytes{direction="out"} 0`)
}

// While clients are told to leave the server is not ready, and the numbers can still be
// had. When Shutdown returns nobody listens any more.
func TestAdminListenerDuringShutdown(t *testing.T) {
	s := start(t, server.Config{Data: t.TempDir(), AdminAddr: "127.0.0.1:0", Drain: rawclient.Patience})
	rawclient.Dial(t, s.URL()) // Shutdown waits for it to leave
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	for end := time.Now().Add(rawclient.Patience); ; time.Sleep(time.Millisecond) { // between two looks
		status, body := adminGet(t, s.AdminURL(), "readyz")
		if status == http.StatusServiceUnavailable && body == "not ready: the server is draining\n" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("ready: %d %q", status, body)
		}
	}
	if status, body := adminGet(t, s.AdminURL(), "livez"); status != 200 || body != "alive: the server is draining\n" {
		t.Errorf("alive: %d %q", status, body)
	}
	wantMetrics(t, s.AdminURL(), "quoin_connections 1")
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.AdminURL(), "http://"), "/")); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
}

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// One partition that has stopped is told and counted, and takes nothing else along.
func TestAdminListenerTellsOfStoppedPartitions(t *testing.T) {
	addr := freeAddr(t)
	f := setUp(t, servertest.Configure(func(c *server.Config) { c.AdminAddr = addr }))
	url := "http://" + addr + "/"
	f.c.CreateTopic("others", 2)
	f.FailSync()
	f.lane.Produce(f.batch(t, 0, "a"))
	wantCode(t, f.lane.Result(), wire.CodeDurabilityUnknown)
	if status, body := adminGet(t, url, "readyz"); status != 200 || !strings.HasSuffix(body, "server is restarted: 1\norders/0\n") {
		t.Errorf("ready: %d %q", status, body)
	}
	wantMetrics(t, url, "quoin_stopped_partitions 1", "quoin_partitions 3")
	f.Restart() // on the same address, so it was given up
	if status, body := adminGet(t, url, "readyz"); status != 200 || body != "ready\n" {
		t.Errorf("ready: %d %q", status, body)
	}
}

func TestAdminAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	data := t.TempDir()
	s, err := server.Start(server.Config{Data: data, Addr: "127.0.0.1:0", AdminAddr: taken.Addr().String()})
	if !errors.Is(err, server.ErrAdminInUse) {
		t.Fatalf("started %v, %v", s, err)
	}
	start(t, server.Config{Data: data}) // the start that failed holds nothing
}

// A start that fails later takes the admin listener along.
func TestAdminListenerOfAFailedStart(t *testing.T) {
	addr := freeAddr(t)
	data := t.TempDir()
	start(t, server.Config{Data: data})
	for range 2 {
		if s, err := server.Start(server.Config{Data: data, AdminAddr: addr}); err == nil || !strings.Contains(err.Error(), "another server") {
			t.Fatalf("started %v, %v", s, err)
		}
	}
}
