// Package proof holds the tests behind the project's main promise: whatever is cut, lost
// or killed, every record that an idempotent producer was given is in its partition once
// and in order, and nothing that was acknowledged is missing.
//
// The tests use a real server, real QUIC and real files. Faults come by name: connections
// cut at every frame boundary and inside frames, acknowledgements lost, appends that fail,
// power cuts, a server process that is killed.
//
// A test that cannot fail proves nothing: TestPlantedBugsAreCaught builds the same tests
// with a bug planted in the server and expects them to fail.
package proof
