// Package counters is what a server counts while it works. One [Set] belongs to the whole
// server and is handed to everything that has something to count; whoever wants to see the
// numbers reads them from the same Set at any time.
//
// The nouns: a [Counter] only grows; a [Level] goes up and down and is the sum of what its
// [Part] holders say; a [Histogram] sorts durations into a few fixed buckets.
//
// To count is an atomic addition: no lock, no allocation, no label to look up. The package
// never formats, exports or resets anything, and it has no number that depends on what
// clients choose: no topic, no producer, no address. Numbers start at 0 with the process.
package counters
