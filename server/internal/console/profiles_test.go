package console

import (
	"io"
	"net/http"
	"runtime/trace"
	"strings"
	"testing"
	"time"
)

func TestProfiles(t *testing.T) {
	const packed, traced = "\x1f\x8b", "go 1."
	c := listen(t, testConfig())
	for _, row := range []struct {
		path   string
		status int
		begins string
	}{
		{"heap", 200, packed},
		{"heap?gc=1", 200, packed},
		{"goroutine?debug=1", 200, "goroutine profile:"},
		{"goroutine?debug=2", 200, "goroutine "},
		{"profile?seconds=1", 200, packed},
		{"trace?seconds=1", 200, traced},
		{"profile?seconds=0", 400, "seconds: at least 1"},
		{"profile?seconds=121", 400, "seconds: a whole number from 0 to 120"},
		{"trace?seconds=x", 400, "seconds: a whole number"},
		{"heap?seconds=5", 400, "seconds: only profile and trace"},
		{"heap?debug=-1", 400, "debug: a whole number from 0 to 2"},
	} {
		r := get(t, c, "/debug/pprof/"+row.path)
		if r.status != row.status || !strings.HasPrefix(r.body, row.begins) {
			t.Errorf("%s gives %d %.60q, want %d %q", row.path, r.status, r.body, row.status, row.begins)
		}
		if text := strings.HasPrefix(r.header.Get("Content-Type"), "text/plain"); text != (row.begins != packed && row.begins != traced) {
			t.Errorf("%s: content type %q", row.path, r.header.Get("Content-Type"))
		}
	}
}

// awaitTrace waits until the runtime says whether a trace is under way.
func awaitTrace(t *testing.T, want bool) {
	t.Helper()
	for end := time.Now().Add(patience); trace.IsEnabled() != want; {
		if time.Now().After(end) {
			t.Fatalf("a trace is under way: %v", !want)
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}

func TestOneRecordingAtATime(t *testing.T) {
	c := listen(t, testConfig())
	first := make(chan reply, 1)
	go func() { first <- get(t, c, "/debug/pprof/trace?seconds=120") }()
	awaitTrace(t, true)
	if r := get(t, c, "/debug/pprof/trace?seconds=1"); r.status != http.StatusConflict || r.header.Get("Content-Disposition") != "" {
		t.Errorf("the second gives %d %q", r.status, r.body)
	}
	begin := time.Now()
	c.Close()
	if took := time.Since(begin); took > stopGrace+5*time.Second {
		t.Errorf("Close waited %v for a trace of two minutes", took)
	}
	if r := <-first; r.status != 200 || !strings.HasPrefix(r.body, "go 1.") {
		t.Errorf("the first gives %d %.60q", r.status, r.body)
	}
	awaitTrace(t, false)
}

func TestRecordingEndsWithItsClient(t *testing.T) {
	c := listen(t, testConfig())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 200 * time.Millisecond}
	r, err := client.Get(c.URL() + "debug/pprof/trace?seconds=120")
	if err == nil { // the headers came in time
		_, err = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	if err == nil {
		t.Fatal("the trace came to its end")
	}
	awaitTrace(t, false)
}
