package vfs

import (
	"math"
	"path/filepath"
	"sync"
	"syscall"
)

// Op names a kind of call that [Faulty] can make fail.
type Op string

// The calls of FS and of File.
const (
	OpCreate    Op = "create"
	OpOpen      Op = "open"
	OpRename    Op = "rename"
	OpRemove    Op = "remove"
	OpMkdirAll  Op = "mkdir"
	OpList      Op = "list"
	OpSyncDir   Op = "sync directory"
	OpStat      Op = "stat"
	OpRemoveAll Op = "remove all"
	OpRead      Op = "read"
	OpWrite     Op = "write"
	OpTruncate  Op = "truncate"
	OpSync      Op = "sync"
	OpSize      Op = "size"
	OpClose     Op = "close"
)

// Faulty is another file system with chosen faults. Without any it is that file system.
// It is safe for concurrent use, and faults may be added at any time.
type Faulty struct {
	inner FS
	mu    struct {
		sync.Mutex
		calls    int
		faults   []fault
		space    int64 // bytes that writes may still use; math.MaxInt64 without a limit
		lies     bool
		observer func(op Op, name string)
	}
}

// fault makes calls of one kind, or of all, fail: the first skip are let through, then
// times fail.
type fault struct {
	op          Op     // empty: any
	under       string // directory; empty: any
	skip, times int
	keep        int // bytes of a write that are written nevertheless
	err         error
}

// NewFaulty returns inner with no faults yet.
func NewFaulty(inner FS) *Faulty {
	f := &Faulty{inner: inner}
	f.Heal()
	return f
}

// Fail lets skip calls of a kind through and makes the times calls after them fail with
// err, without doing anything.
func (f *Faulty) Fail(op Op, skip, times int, err error) {
	f.add(fault{op: op, skip: skip, times: times, err: err})
}

// FailCall lets skip calls of all kinds through and makes the times calls after them fail
// with err. math.MaxInt is from then on. A close that fails has closed the file.
func (f *Faulty) FailCall(skip, times int, err error) { f.Fail("", skip, times, err) }

// FailUnder makes all calls for names in a directory, and for itself, fail with err.
func (f *Faulty) FailUnder(dir string, err error) {
	f.add(fault{under: filepath.Clean(dir), times: math.MaxInt, err: err})
}

// Calls is the number of calls so far, failed ones included.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.calls
}

// FailSync makes the next n syncs of files fail. What that does to a file in memory is said
// at [Mem]; elsewhere nothing is synced by them.
func (f *Faulty) FailSync(n int, err error) { f.Fail(OpSync, 0, n, err) }

// FailSyncDir makes the next n syncs of directories fail.
func (f *Faulty) FailSyncDir(n int, err error) { f.Fail(OpSyncDir, 0, n, err) }

// FailWrite makes the nth write from now on fail, 1 being the next; nothing is written.
func (f *Faulty) FailWrite(nth int, err error) { f.Fail(OpWrite, nth-1, 1, err) }

// ShortWrite makes the nth write from now on write only its first keep bytes, then fail.
func (f *Faulty) ShortWrite(nth, keep int, err error) {
	f.add(fault{op: OpWrite, skip: nth - 1, times: 1, keep: keep, err: err})
}

// LimitSpace makes writes fail with ENOSPC after n more bytes, counted over all files.
// What still fits is written.
func (f *Faulty) LimitSpace(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.space = n
}

// SyncLies makes Sync and SyncDir return nil without doing anything, as a disk does that
// promises what its cache will not keep.
func (f *Faulty) SyncLies(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.lies = on
}

// Observe has fn called before every call is carried out, in the goroutine of the
// caller; fn may block. nil ends it.
func (f *Faulty) Observe(fn func(op Op, name string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.observer = fn
}

// Observer is what Observe has set last.
func (f *Faulty) Observer() func(op Op, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.observer
}

// Heal removes all faults, the limit of space and the lies. An observer stays.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.faults, f.mu.space, f.mu.lies = nil, math.MaxInt64, false
}

func (f *Faulty) add(x fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.faults = append(f.mu.faults, x)
}

// before says what is wrong with a call, or nil.
func (f *Faulty) before(op Op, name string) error {
	_, err := f.check(op, name, 0)
	return err
}

// check looks for a fault of a call and says how many bytes of a write go through.
func (f *Faulty) check(op Op, name string, size int) (keep int, err error) {
	f.mu.Lock()
	observer := f.mu.observer
	f.mu.Unlock()
	if observer != nil {
		observer(op, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.calls++
	if x := f.strike(op, name); x != nil {
		return min(x.keep, size), pathError(string(op), name, x.err)
	}
	if op != OpWrite {
		return 0, nil
	}
	if int64(size) > f.mu.space {
		keep = int(f.mu.space)
		f.mu.space = 0
		return keep, pathError(string(op), name, syscall.ENOSPC)
	}
	if f.mu.space != math.MaxInt64 {
		f.mu.space -= int64(size)
	}
	return size, nil
}

// strike counts a call for every fault of its kind and returns the first that strikes.
func (f *Faulty) strike(op Op, name string) *fault {
	var hit *fault
	for i := range f.mu.faults {
		x := &f.mu.faults[i]
		switch {
		case x.op != "" && x.op != op || x.times == 0:
		case x.under != "" && filepath.Clean(name) != x.under && filepath.Dir(name) != x.under:
		case x.skip > 0:
			x.skip--
		case hit == nil:
			x.times--
			hit = x
		}
	}
	return hit
}

func (f *Faulty) lying() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.lies
}
