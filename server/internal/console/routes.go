package console

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxListed bounds how many stopped partitions /readyz names.
const maxListed = 100

// maxScrapes bounds the scrapes that are answered at once; more get status 503.
const maxScrapes = 4

const index = `quoin: admin listener

/livez          the process answers
/readyz         clients are served
/metrics        for Prometheus
/debug/pprof/   profiles, for go tool pprof
`

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, index) })
	mux.HandleFunc("GET /livez", c.livez)
	mux.HandleFunc("GET /readyz", c.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.registry(), promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(c.cfg.Log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
	}))
	mux.HandleFunc("GET /debug/pprof/{$}", profileIndex)
	mux.HandleFunc("GET /debug/pprof/{name}", serveProfile)
	return mux
}

// livez says that the process answers, which is all that a restart could mend.
func (c *Console) livez(w http.ResponseWriter, _ *http.Request) {
	text(w, http.StatusOK, "alive: the server is "+c.state.Load().name+"\n")
}

func (c *Console) readyz(w http.ResponseWriter, _ *http.Request) {
	s := c.state.Load()
	if !s.ready {
		text(w, http.StatusServiceUnavailable, "not ready: the server is "+s.name+"\n")
		return
	}
	text(w, http.StatusOK, "ready\n"+degraded(s.source.Stopped()))
}

// degraded says what does not work of a server that is ready.
func degraded(stopped []string) string {
	if len(stopped) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "degraded: partitions that take no writes until the server is restarted: %d\n", len(stopped))
	for _, name := range stopped[:min(len(stopped), maxListed)] {
		b.WriteString(name + "\n")
	}
	if more := len(stopped) - maxListed; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}

func text(w http.ResponseWriter, status int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, s)
}

// commit is the commit that the program was built from, as far as it was told.
func commit(info *debug.BuildInfo) string {
	revision, modified := "unknown", ""
	if info == nil {
		return revision
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+modified"
		}
	}
	return revision + modified
}
