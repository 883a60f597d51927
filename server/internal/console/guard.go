package console

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard lets only those requests through that admit allows.
func (c *Console) guard(next http.Handler) http.Handler {
	loopback := c.Addr().IP.IsLoopback()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if status, why := admit(r, loopback); status != http.StatusOK {
			if status == http.StatusMethodNotAllowed {
				h.Set("Allow", "GET, HEAD")
			}
			http.Error(w, why, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit says whether a request is answered, with the status that it gets. First match wins.
//
//	another method than GET or HEAD             405  nothing here can be changed
//	a browser asks for a page of another site   403  loopback is not private to the operator:
//	                                                 pages from anywhere run on his machine
//	on loopback, under some other host's name   421  a name that was pointed here, so that
//	                                                 the page behind it counts as this site
//	otherwise                                   200
func admit(r *http.Request, loopback bool) (status int, why string) {
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return http.StatusMethodNotAllowed, "only GET and HEAD"
	case site != "" && site != "none" && site != "same-origin":
		return http.StatusForbidden, "not for pages of another site: open the address by itself"
	case loopback && !ownName(r.Host):
		return http.StatusMisdirectedRequest, "ask for localhost or for the address"
	}
	return http.StatusOK, ""
}

// ownName reports whether a Host header names this machine in a way that nobody else can
// decide about: as an address, as localhost, or not at all, which browsers never do.
func ownName(host string) bool {
	if host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost")
}
