package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
)

func start(t *testing.T, cfg server.Config) *server.Server {
	t.Helper()
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	s, err := server.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

func TestAnnounce(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	if _, err := server.FindURL(); !errors.Is(err, server.ErrNoServer) {
		t.Fatalf("found a server before any was announced: %v", err)
	}
	first := start(t, server.Config{Data: t.TempDir()})
	second := start(t, server.Config{Data: t.TempDir()})
	withdrawFirst, err := first.Announce()
	if err != nil {
		t.Fatal(err)
	}
	withdrawSecond, err := second.Announce()
	if err != nil {
		t.Fatal(err)
	}
	withdrawFirst() // must not take back what the second has said since
	if url, err := server.FindURL(); err != nil || url != second.URL() {
		t.Fatalf("found %q, %v; want %q", url, err, second.URL())
	}
	withdrawSecond()
	if _, err := server.FindURL(); !errors.Is(err, server.ErrNoServer) {
		t.Fatalf("found a server after it was withdrawn: %v", err)
	}
}

func TestURLFileThatIsNotOne(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	name := filepath.Join(dir, "quoin.url")
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if url, err := server.FindURL(); err == nil {
		t.Errorf("took %d bytes for a URL", len(url))
	}
	if err := errors.Join(os.Remove(name), os.Symlink("/etc/hostname", name)); err != nil {
		t.Fatal(err)
	}
	if url, err := server.FindURL(); err == nil {
		t.Errorf("followed a link to %q", url)
	}
}

func TestSecondServerOnTheSameData(t *testing.T) {
	data := t.TempDir()
	start(t, server.Config{Data: data})
	if s, err := server.Start(server.Config{Data: data, Addr: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Fatalf("started %v, %v", s, err)
	}
}

// A catalog that is gone must not be replaced by an empty one beside the logs: it would
// give producer ids a second time.
func TestLostCatalogIsNotMadeAnew(t *testing.T) {
	data := t.TempDir()
	s := start(t, server.Config{Data: data})
	rawclient.Dial(t, s.URL()).CreateTopic("t", 1)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(data, "catalog.db")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the refused start leaves no catalog behind that the next would trust
		if _, err := server.Start(server.Config{Data: data, Addr: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "catalog is missing") {
			t.Fatalf("started with %v", err)
		}
	}
}

func TestURLOfAnUnspecifiedAddress(t *testing.T) {
	s := start(t, server.Config{Data: t.TempDir(), Addr: ":0"})
	if !strings.HasPrefix(s.URL(), "quoin://127.0.0.1:") {
		t.Errorf("the URL is %s", s.URL())
	}
	rawclient.Dial(t, s.URL())
}
