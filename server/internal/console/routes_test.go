package console

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	c := listen(t, testConfig())
	want := func(when, path string, status int, body string) {
		t.Helper()
		if r := get(t, c, path); r.status != status || r.body != body {
			t.Errorf("%s: %s gives %d %q, want %d %q", when, path, r.status, r.body, status, body)
		}
	}
	want("before it serves", "/livez", 200, "alive: the server is starting\n")
	want("before it serves", "/readyz", 503, "not ready: the server is starting\n")

	var stopped []string
	source := quiet()
	source.Stopped = func() []string { return stopped }
	c.Serving(source)
	want("serving", "/livez", 200, "alive: the server is serving\n")
	want("serving", "/readyz", 200, "ready\n")
	stopped = []string{"orders/0", "orders/3"}
	want("with stopped partitions", "/readyz", 200,
		"ready\ndegraded: partitions that take no writes until the server is restarted: 2\norders/0\norders/3\n")
	want("with stopped partitions", "/livez", 200, "alive: the server is serving\n")

	c.Draining()
	want("draining", "/livez", 200, "alive: the server is draining\n")
	want("draining", "/readyz", 503, "not ready: the server is draining\n")
}

func TestDegradedIsBounded(t *testing.T) {
	var many []string
	for n := range maxListed + 7 {
		many = append(many, fmt.Sprintf("t/%d", n))
	}
	s := degraded(many)
	if lines := strings.Count(s, "\n"); lines != maxListed+2 || !strings.HasSuffix(s, "\nand 7 more\n") {
		t.Errorf("%d lines: %s", lines, s)
	}
}

func TestRoutes(t *testing.T) {
	c := listen(t, testConfig())
	for _, row := range []struct {
		path   string
		status int
		body   string // a part of it
	}{
		{"/", 200, "/readyz"},
		{"/metrics", 200, "quoin_build_info"},
		{"/nothing", 404, ""},
		{"/livez/more", 404, ""},
		{"/debug/pprof/", 200, "goroutine"},
		{"/debug/pprof/nothing", 404, "no such profile"},
		{"/debug/pprof/cmdline", 404, "no such profile"},
		{"/debug/vars", 404, ""},
	} {
		r := get(t, c, row.path)
		if r.status != row.status || !strings.Contains(r.body, row.body) {
			t.Errorf("%s gives %d %.200q, want %d %q", row.path, r.status, r.body, row.status, row.body)
		}
		if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: header %v", row.path, r.header)
		}
	}
}

// What other listeners of the program serve is not ours to change.
func TestDefaultServeMuxHasNoProfiles(t *testing.T) {
	req, err := http.NewRequest(http.MethodGet, "http://localhost/debug/pprof/profile", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, pattern := http.DefaultServeMux.Handler(req); pattern != "" {
		t.Errorf("http.DefaultServeMux has %q", pattern)
	}
}

func TestCommit(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, row := range []struct {
		reason string
		info   *debug.BuildInfo
		want   string
	}{
		{"built without modules", nil, "unknown"},
		{"built outside of a repository", &debug.BuildInfo{}, "unknown"},
		{"a clean tree", &debug.BuildInfo{Settings: []debug.BuildSetting{
			setting("vcs.revision", "abc"), setting("vcs.modified", "false")}}, "abc"},
		{"a tree with changes", &debug.BuildInfo{Settings: []debug.BuildSetting{
			setting("vcs.modified", "true"), setting("vcs.revision", "abc")}}, "abc+modified"},
	} {
		if got := commit(row.info); got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}
