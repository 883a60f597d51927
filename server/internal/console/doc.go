// Package console is the admin listener of a server: plain HTTP over TCP for whoever runs
// it, apart from what clients use.
//
//	GET /livez          200 as long as the process answers, and what it is at
//	GET /readyz         200 when clients are served; 503 and the reason while it is not
//	GET /metrics        everything that is counted, for Prometheus
//	GET /debug/pprof/   profiles of the running process, for go tool pprof
//
// A [Console] is there from [Listen], which comes first in a server's start, to Close, which
// comes last in its stop, so that both can be watched. [Console.Serving] and
// [Console.Draining] say how far the server is. A [Source] gives what is there now, package
// counters what has happened since the start.
//
// A partition that has stopped does not make the server unready: all others go on, its
// readers too, and taking the server out of service would cost more than that partition. It
// is listed by /readyz as degraded, and metrics count it. It does not fail /livez either: a
// restart does help, but not one after the other, and a disk that is broken needs a person.
//
// Metrics have no label for topics, partitions, producers or addresses. How many of those
// there are is up to clients, and each would be a series in somebody's memory for months.
// What is wanted about one of them is asked for by name elsewhere.
//
// There is no authentication and no encryption: whoever reaches the address may read all of
// it and may cost the process the time of a profile. So it belongs on loopback or into a
// network of operators. It only ever reads: no request changes anything, and other methods
// than GET and HEAD are refused. Web pages of others that a browser on this machine shows
// cannot use it. Connections, headers and times are bounded; a client that is slow is cut.
//
// The package registers nothing anywhere: neither in http.DefaultServeMux, as net/http/pprof
// does for the whole program, nor in Prometheus's default registry.
package console
