// Package hooks holds the places where the server's own tests reach into it: the file
// system, the clock, and what happens to frames. A server that serves has none of them
// set; servertest sets them.
package hooks
