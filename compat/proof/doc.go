// Package proof holds the tests behind the project's main promise: whatever is cut, lost
// or killed, every record that an idempotent producer was given is in its partition once
// and in order, and nothing that was acknowledged is missing.
//
// The tests use a real server, real QUIC and real files. Faults come by name: connections
// cut at every frame boundary and inside frames, acknowledgements lost, appends that fail,
// power cuts, a server process that is killed, a disk without room or without inodes.
//
// A test that cannot fail proves nothing: TestPlantedBugsAreCaught builds the same tests
// with a bug planted in the server and expects them to fail.
//
// # Campaigns
//
// Some tests take a size and a seed, and write a line into a ledger (package campaign):
//
//	go test ./compat/proof -run TestKilledServer -timeout 3h -kills 10000 -seed 7 -ledger /tmp/ledger
//	go test ./compat/proof -run 'TestDiskFillsUp|TestKilledOnAFullDisk' -timeout 2h -fills 1000
//
// A campaign is divided into eras, each with a new data directory, so that memory and disk do
// not grow with it. The seed repeats what the test chooses: when it kills, what it creates.
// What two processes do to each other in a millisecond it does not repeat.
//
// "make campaign SECONDS=3600 LEDGER=file" runs these and those of the server's packages in
// a loop, with new seeds in each round, until the time is over or something is found.
//
// The full disk is a tmpfs in a mount namespace of a child process, the keeper; it is gone
// when the test is, however that ends. This takes Linux and a kernel that lets the user have
// such a namespace.
package proof
