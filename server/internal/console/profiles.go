package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"
)

// These profiles are not those of net/http/pprof because that package adds them to
// http.DefaultServeMux, and so to every other listener of a program that embeds the server
// and uses it. What go tool pprof and go tool trace ask for is the same.

const (
	defaultProfileSeconds = 30
	defaultTraceSeconds   = 1
	maxProfileSeconds     = 120
)

// A recording is a profile of a span of time. The runtime does one of each kind at once.
type recording struct {
	seconds int // when the request names none
	start   func(io.Writer) error
	stop    func()
}

var recordings = map[string]recording{
	"profile": {defaultProfileSeconds, pprof.StartCPUProfile, pprof.StopCPUProfile},
	"trace":   {defaultTraceSeconds, trace.Start, trace.Stop},
}

func profileIndex(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	fmt.Fprintf(&b, "profile?seconds=%d   CPU, up to %d s\ntrace?seconds=%d      execution trace\n\n",
		defaultProfileSeconds, maxProfileSeconds, defaultTraceSeconds)
	names := pprof.Profiles()
	slices.SortFunc(names, func(x, y *pprof.Profile) int { return strings.Compare(x.Name(), y.Name()) })
	for _, p := range names {
		fmt.Fprintf(&b, "%-14s %d   (?debug=1 for people)\n", p.Name(), p.Count())
	}
	text(w, http.StatusOK, b.String())
}

func serveProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	timed, isTimed := recordings[name]
	snapshot := pprof.Lookup(name)
	if !isTimed && snapshot == nil {
		http.Error(w, "no such profile", http.StatusNotFound)
		return
	}
	seconds, err := number(r, "seconds", timed.seconds, maxProfileSeconds)
	debug, err2 := number(r, "debug", 0, 2)
	switch {
	case errors.Join(err, err2) != nil:
		http.Error(w, errors.Join(err, err2).Error(), http.StatusBadRequest)
	case isTimed && seconds == 0:
		http.Error(w, "seconds: at least 1", http.StatusBadRequest)
	case !isTimed && seconds > 0:
		http.Error(w, "seconds: only profile and trace take time", http.StatusBadRequest)
	case r.Method == http.MethodHead:
		attachment(w, name, debug)
	case isTimed:
		record(w, r, name, timed, time.Duration(seconds)*time.Second)
	default:
		writeSnapshot(w, r, snapshot, debug)
	}
}

// writeSnapshot answers with a profile of the present. It is made before it is sent, as a
// client that reads slowly must not hold up what the runtime locks for it.
func writeSnapshot(w http.ResponseWriter, r *http.Request, p *pprof.Profile, debug int) {
	if p.Name() == "heap" && r.URL.Query().Get("gc") == "1" {
		runtime.GC()
	}
	var b bytes.Buffer
	if err := p.WriteTo(&b, debug); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	attachment(w, p.Name(), debug)
	w.Write(b.Bytes())
}

// record answers with what happens from now on. When the client goes, or the console is
// closed, it ends early.
func record(w http.ResponseWriter, r *http.Request, name string, rec recording, d time.Duration) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + writeTimeout))
	attachment(w, name, 0)
	if err := rec.start(w); err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, "another one is under way: "+err.Error(), http.StatusConflict)
		return
	}
	defer rec.stop()
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	<-ctx.Done()
}

func attachment(w http.ResponseWriter, name string, debug int) {
	h := w.Header()
	if debug > 0 {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		return
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// number is a parameter of a request: a whole number from 0 to limit.
func number(r *http.Request, name string, fallback, limit int) (int, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%s: a whole number from 0 to %d", name, limit)
	}
	return n, nil
}
