package console

import (
	"net/http"
	"testing"
)

func TestAdmit(t *testing.T) {
	for _, row := range []struct {
		reason             string
		method, host, site string
		loopback           bool
		want               int
	}{
		{"a scrape by address", "GET", "127.0.0.1:7734", "", true, 200},
		{"a look at the headers alone", "HEAD", "127.0.0.1:7734", "", true, 200},
		{"an address of version 6", "GET", "[::1]:7734", "", true, 200},
		{"the same without a port", "GET", "[::1]", "", true, 200},
		{"the name of this machine for itself", "GET", "LocalHost:7734", "", true, 200},
		{"a forwarded port", "GET", "localhost:9000", "", true, 200},
		{"a probe that names no host", "GET", "", "", true, 200},
		{"a name that was pointed here", "GET", "evil.example:7734", "", true, 421},
		{"a name that ends like this machine's", "GET", "localhost.evil.example", "", true, 421},
		{"a name in a network of operators", "GET", "quoin-0.quoin.svc:7734", "", false, 200},
		{"typed into a browser", "GET", "localhost:7734", "none", true, 200},
		{"a link on a page of ours", "GET", "localhost:7734", "same-origin", true, 200},
		{"a page from anywhere", "GET", "localhost:7734", "cross-site", true, 403},
		{"a page of another port", "GET", "localhost:7734", "same-site", true, 403},
		{"a page from anywhere, in a network of operators", "GET", "quoin:7734", "cross-site", false, 403},
		{"a change", "POST", "localhost:7734", "", true, 405},
		{"an unknown method", "QUOIN", "localhost:7734", "", false, 405},
		{"a method in small letters", "get", "localhost:7734", "", true, 405},
		{"a change from another page", "POST", "evil.example", "cross-site", true, 405},
	} {
		r := &http.Request{Method: row.method, Host: row.host, Header: http.Header{}}
		if row.site != "" {
			r.Header.Set("Sec-Fetch-Site", row.site)
		}
		if got, why := admit(r, row.loopback); got != row.want || (why == "") != (got == 200) {
			t.Errorf("%s: %d %q, want %d", row.reason, got, why, row.want)
		}
	}
}

func TestOnlyReads(t *testing.T) {
	c := listen(t, testConfig())
	c.Serving(quiet())
	paths := []string{"/", "/livez", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/heap", "/nothing"}
	for _, path := range paths {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUOIN"} {
			if r := ask(t, c, method, path, nil); r.status != 405 || r.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s gives %d, Allow %q", method, path, r.status, r.header.Get("Allow"))
			}
		}
		if r, g := ask(t, c, "HEAD", path, nil), get(t, c, path); r.status != g.status || r.body != "" {
			t.Errorf("HEAD %s gives %d %q, GET gives %d", path, r.status, r.body, g.status)
		}
	}
}

func TestForeignNameIsRefused(t *testing.T) {
	c := listen(t, testConfig())
	if r := ask(t, c, "GET", "/metrics", func(r *http.Request) { r.Host = "evil.example" }); r.status != 421 {
		t.Errorf("status %d", r.status)
	}
}
