package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/server"
)

// The banner leads to the admin listener, which is gone when serve returns.
func TestServeHasAnAdminListener(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	served := make(chan error, 1)
	go func() {
		cfg := server.Config{
			Data: t.TempDir(), Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0",
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		served <- serve(ctx, cfg, in)
		in.Close()
	}()
	url := bannerURL(t, out)
	for path, want := range map[string]string{
		"livez": "alive: the server is serving\n", "readyz": "ready\n", "metrics": "\nquoin_connections 0\n",
	} {
		if body := fetch(t, url+path); !strings.Contains(body, want) {
			t.Errorf("%s says %.200q, want %q", path, body, want)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(url + "livez"); err == nil {
		t.Error("the admin listener is still there")
	}
}

// bannerURL reads the banner up to the line with the admin URL.
func bannerURL(t *testing.T, banner io.Reader) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^Health, metrics and profiles: (http://127\.0\.0\.1:\d+/)\n`)
	var all []byte
	for b := make([]byte, 1024); ; {
		n, err := banner.Read(b)
		all = append(all, b[:n]...)
		if m := line.FindSubmatch(all); m != nil {
			return string(m[1])
		}
		if err != nil {
			t.Fatalf("no admin URL in %q: %v", all, err)
		}
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	// No connection is kept: it would be seen as a goroutine that was left behind.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, r.Status, err, body)
	}
	return string(body)
}

func TestServeSaysThatTheAdminAddressIsInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var stdout, stderr bytes.Buffer
	code := run([]string{"serve", "--data", t.TempDir(), "--addr", "127.0.0.1:0", "--admin-addr", taken.Addr().String()}, &stdout, &stderr)
	want := "quoin: the admin address is in use: " + taken.Addr().String()
	if code != exitOther || !strings.HasPrefix(stderr.String(), want) || !strings.Contains(stderr.String(), "--admin-addr=off") || stdout.Len() > 0 {
		t.Errorf("exit code %d, stderr %q, stdout %q", code, stderr.String(), stdout.String())
	}
}
