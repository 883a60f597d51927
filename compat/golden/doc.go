// Package golden reads the files that every later version of Quoin must read: compat/testdata.
//
// The nouns:
//
//   - A release is a folder there, named by the version that froze it. From its tag on it
//     never changes: no file of it is edited, added or removed. "next" is the folder of the
//     version to come and changes with the code; [Freeze] makes a release of it.
//   - A golden is a batch or a frame in annotated hex. What is behind a # is for people. A
//     file of the same name that ends in .json holds its meaning: what the release that froze
//     it read out of the bytes. Later versions must read the same, and may read more.
//   - A data directory is what a server of the release has left, as an archive, with the
//     records in it.
//   - The [Manifest] holds the checksum of every file that is frozen: the releases, and the
//     sources of the frozen reader. A line of it is never changed; `sha256sum -c` reads it.
//
// The package serves the tests of compat and is of no use to anything else. It never looks at
// a clock, and it writes in [Freeze] and nowhere else.
package golden
