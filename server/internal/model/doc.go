// Package model holds the test that compares the server with a reference model while
// everything goes wrong at random.
//
// The nouns:
//
//   - the reference (reference_test.go) knows which batches and records exist by their
//     identities, where readers found them, and what was said about each of them to whom.
//     It decides nothing and predicts nothing: it holds every answer against what can be
//     read. It has no I/O and stays below 300 lines, so that it can be checked by eye.
//   - a world is one real server with real QUIC connections and one seed. Its steps are
//     what clients, disks, clocks and operators do.
//   - a holder is an instance that was given a producer id. It stays when it is fenced or
//     closed, and goes on trying: then it is a zombie.
//   - a stream is one opening of one lane, spoken frame by frame. Frames are left out,
//     sent twice, exchanged, sealed with other content or an epoch that nobody gave out.
//   - a crowd is a few producers and a consumer of the SDK that work beside all that.
//
// What must hold, at every answer and at the end when all is read again:
//
//   - what was acknowledged is there once, at the offset and with the bytes of the answer;
//   - what was called not stored never appears, and of a refused batch nothing is stored;
//   - what was left unknown is there at most once, and a settled answer stays true;
//   - the batches of a lane have neither hole nor overlap, and their order is that of the
//     sequences; records of a producer keep their order;
//   - a refusal is true: what is expected is the next sequence, a conflict is one, who is
//     fenced was fenced, who is forgotten could be, and a fenced stream appends nothing;
//   - readers see each offset once, in order, and nothing of it ever vanishes or changes.
//
// Run it with
//
//	go test ./server/internal/model -run TestModel -v -seconds 60
//	go test ./server/internal/model -run TestModel -v -seed 7
//
// The second repeats one world. What the steps are and what they choose follows from the
// seed; what several processes and connections do to each other within a millisecond does
// not, above all in worlds with a crowd, so a finding may take a few runs.
//
// Nothing is removed from a log by age so far, so every reader begins at offset 0. Where that
// changes, a history gets a start, and what was found below it stays found.
//
// The test never looks into the server: everything it knows came over the wire.
package model
