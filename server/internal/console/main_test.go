package console

import (
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/server/internal/counters"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; a test that passes never reaches it.
const patience = 20 * time.Second

func testConfig() Config {
	return Config{Addr: "127.0.0.1:0", Version: "1.2.3", Counters: new(counters.Set), Log: slog.New(slog.DiscardHandler)}
}

func listen(t *testing.T, cfg Config) *Console {
	t.Helper()
	c, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A reply is what came back for a request.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; change may be nil.
func ask(t *testing.T, c *Console, method, path string, change func(*http.Request)) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.URL()+path[1:], nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{r.StatusCode, r.Header, string(b)}
}

func get(t *testing.T, c *Console, path string) reply {
	t.Helper()
	return ask(t, c, http.MethodGet, path, nil)
}

// quiet is a source with nothing in it.
func quiet() Source {
	return Source{Gauges: func() Gauges { return Gauges{} }, Stopped: func() []string { return nil }}
}
