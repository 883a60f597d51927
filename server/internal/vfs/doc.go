// Package vfs is the seam between the storage code and the file system. Everything
// that writes partition data does so through [FS] and [File], so that a test can run
// the same code on a disk that crashes, lies or is full.
//
// There are three file systems:
//
//   - [OS], the real one;
//   - [Mem], in memory, which knows for every sector and every directory entry whether it
//     would survive a power cut, and gives any disk that one may leave:
//     [Mem.CrashClone], [Mem.CrashCloneRandom], [Mem.CrashCloneKeeping];
//   - [Faulty], around another one, which counts calls and makes chosen ones fail.
//
// The rules of durability that all callers may rely on, and no more than these:
//
//   - what was written to a file is durable once [File.Sync] returned nil, and a length
//     set by [File.Truncate] likewise;
//   - that a name exists, was renamed or is gone is durable once [FS.SyncDir] of the
//     directory that holds the name returned nil; syncing a file says nothing about
//     its name;
//   - a rename within one directory happens as a whole or not at all;
//   - anything else may or may not be there after a crash, in any order, also in parts.
//
// The package never retries: a sync that failed is reported once, and what it means is
// for the caller to decide. It never creates what it was not asked for, and never gives
// anyone but the owner of the process access to a file.
package vfs
