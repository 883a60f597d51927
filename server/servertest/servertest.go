package servertest

import (
	"context"
	"io/fs"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/hooks"
	"github.com/quoin-io/quoin/server/internal/vfs"
	"github.com/quoin-io/quoin/wire"
)

// drain is how long a server waits for clients to leave: short, as the clients of many
// tests do not care.
const drain = 200 * time.Millisecond

// shutdownTimeout bounds a clean stop.
const shutdownTimeout = 10 * time.Second

// A Server is a running server with faults. Its methods may be called from any
// goroutine, but Restart and Crash not while another of them runs. Those that name package
// vfs are for tests below server, which alone can import it.
type Server struct {
	tb    testing.TB
	cfg   server.Config
	mem   *vfs.Mem // nil with real files
	disk  *vfs.Faulty
	clock atomic.Int64 // how far the clock is ahead of the real one, nanoseconds

	begin  time.Time
	uptime atomic.Int64 // how far the uptime is ahead of the real one, nanoseconds

	snapshotBytes int
	idleEvery     time.Duration

	mu struct {
		sync.Mutex
		running *server.Server
		drops   int // acknowledgements until the one that is dropped; 0 for none
		onFrame FrameHooks
		noOpen  func(name string) bool // files that cannot be opened
	}
}

// FrameHooks watch frames of lane streams, and cut the connection at a chosen byte. See
// [Server.HookFrames].
type FrameHooks struct {
	// Start is called before a frame passes, with its size in bytes, header included. A
	// result of 0 or more cuts the connection after so many bytes of it; -1 does not.
	Start func(in bool, kind wire.Kind, size int) int
	// End is called after a frame passed as a whole; true cuts the connection there.
	End func(in bool, m wire.Message) bool
}

// An Option changes the server that Start starts.
type Option func(*Server)

// InMemory keeps the partitions in memory, in a file system that knows what is synced and
// what is not. It makes [Server.Crash] possible.
func InMemory() Option {
	return func(s *Server) { s.mem = vfs.NewMem() }
}

// Configure changes the server's configuration. Data, Addr, Log and Hooks are set
// already and may be replaced, but for Hooks.
func Configure(f func(*server.Config)) Option {
	return func(s *Server) { f(&s.cfg) }
}

// Busy makes the server write a snapshot of its producers after so many bytes of batches,
// and look for idle ones so often, which it does rarely otherwise.
func Busy(snapshotBytes int, idleEvery time.Duration) Option {
	return func(s *Server) { s.snapshotBytes, s.idleEvery = snapshotBytes, idleEvery }
}

// Start starts a server on loopback and stops it when the test ends.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, begin: time.Now()}
	s.cfg = server.Config{Data: tb.TempDir(), Addr: "127.0.0.1:0", Drain: drain, Log: testLogger(tb)}
	for _, opt := range opts {
		opt(s)
	}
	s.useDisk()
	s.cfg.Hooks = &hooks.Hooks{
		Now:           func() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) },
		SnapshotBytes: s.snapshotBytes, IdleEvery: s.idleEvery,
		Uptime:     func() time.Duration { return time.Since(s.begin) + time.Duration(s.uptime.Load()) },
		FrameStart: s.frameStart, FrameEnd: s.frameEnd, DropResult: s.dropResult,
	}
	s.start()
	s.cfg.Addr = s.server().Addr().String() // a restart keeps the address
	tb.Cleanup(s.stop)
	return s
}

// useDisk puts faults in front of the file system in use.
func (s *Server) useDisk() {
	var inner vfs.FS = vfs.OS
	if s.mem != nil {
		inner = s.mem
	}
	s.disk = vfs.NewFaulty(closedFiles{FS: inner, s: s})
}

// closedFiles is a file system in which some files cannot be opened.
type closedFiles struct {
	vfs.FS
	s *Server
}

func (c closedFiles) Open(name string) (vfs.File, error) {
	c.s.mu.Lock()
	noOpen := c.s.mu.noOpen
	c.s.mu.Unlock()
	if noOpen != nil && noOpen(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return c.FS.Open(name)
}

func (s *Server) start() {
	s.tb.Helper()
	h := *s.cfg.Hooks
	h.FS = s.disk
	cfg := s.cfg
	cfg.Hooks = &h
	srv, err := server.Start(cfg)
	if err != nil {
		s.tb.Fatalf("servertest: %v", err)
	}
	s.mu.Lock()
	s.mu.running = srv
	s.mu.Unlock()
}

func (s *Server) server() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.running
}

func (s *Server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := s.server().Shutdown(ctx); err != nil {
		s.tb.Logf("servertest: shutdown: %v", err)
	}
}

// Running is the server that runs now; a restart puts another in its place.
func (s *Server) Running() *server.Server { return s.server() }

// URL is what a client dials; it stays the same over restarts.
func (s *Server) URL() string { return s.server().URL() }

// Data is the data directory.
func (s *Server) Data() string { return s.cfg.Data }

// DropAck loses the nth acknowledgement from now (1 is the next), and the connection with
// it, as that is the only way in which one gets lost.
func (s *Server) DropAck(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.drops = n
}

// CutConnection breaks every connection.
func (s *Server) CutConnection() { s.server().Cut() }

// Restart stops the server in good order and starts it again with the same address and
// data. A disk that failed is whole again.
func (s *Server) Restart() { s.tb.Helper(); s.RestartWith(nil) }

// RestartWith is Restart with between called when the server is down and its files are
// closed: it may change them.
func (s *Server) RestartWith(between func()) {
	s.tb.Helper()
	s.stop()
	s.disk.Heal()
	if between != nil {
		between()
	}
	s.start()
}

// Crash stops the server as a power cut does: whatever was not synced is gone. It needs
// [InMemory]. The server starts again with the same address.
func (s *Server) Crash() { s.CrashWith(nil) }

// CrashWith is Crash with release called when the power is off: what HoldSync held goes on
// then and writes to a disk that nobody will see again.
func (s *Server) CrashWith(release func()) { s.tb.Helper(); s.CrashKeeping(nil, release) }

// CrashKeeping is CrashWith that leaves, of what was not synced, just what keep says; nil
// is nothing.
func (s *Server) CrashKeeping(keep func(vfs.Unsynced) bool, release func()) {
	s.tb.Helper()
	s.needMem("CrashKeeping")
	s.server().Abandon(func() {
		// Only now: an acknowledgement that left after the disk was copied would be a lie.
		s.mem = s.mem.CrashCloneKeeping(keepOrNothing(keep))
		if release != nil {
			release()
		}
	})
	s.useDisk()
	s.start()
}

// CrashInStop stops the server in good order, and the power goes off in the middle of
// it: before the first call of the file system for which at is true. What was not synced
// by then is left as in CrashKeeping. It reports whether there was such a call; if not,
// the stop was one in good order. The server starts again with the same address.
func (s *Server) CrashInStop(at func(op vfs.Op, name string) bool, keep func(vfs.Unsynced) bool) bool {
	s.tb.Helper()
	s.needMem("CrashInStop")
	var off sync.Once
	var left *vfs.Mem
	mem := s.mem
	s.disk.Observe(func(op vfs.Op, name string) {
		if at(op, name) {
			off.Do(func() { left = mem.CrashCloneKeeping(keepOrNothing(keep)) })
		}
	})
	s.stop()
	if left != nil {
		s.mem = left
	}
	s.useDisk()
	s.start()
	return left != nil
}

func (s *Server) needMem(what string) {
	s.tb.Helper()
	if s.mem == nil {
		s.tb.Fatalf("servertest: %s needs InMemory", what)
	}
}

func keepOrNothing(keep func(vfs.Unsynced) bool) func(vfs.Unsynced) bool {
	if keep == nil {
		return func(vfs.Unsynced) bool { return false }
	}
	return keep
}

// FailSync lets the next sync of a log fail.
func (s *Server) FailSync() { s.disk.FailSync(1, syscall.EIO) }

// FailAppend lets the next write to a log fail, with nothing written.
func (s *Server) FailAppend() { s.disk.FailWrite(1, syscall.EIO) }

// FailReads lets all reads of the partitions' files fail from now on, until FreeDisk or
// Restart. The catalog is elsewhere and is not touched.
func (s *Server) FailReads() { s.disk.Fail(vfs.OpRead, 0, math.MaxInt, syscall.EIO) }

// FailOpen lets the files that match, by their whole name, fail to open; nil ends it. Those
// that are open stay so.
func (s *Server) FailOpen(match func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.noOpen = match
}

// TearAppend lets the next write to a log fail when its first keep bytes are written.
func (s *Server) TearAppend(keep int) { s.disk.ShortWrite(1, keep, syscall.EIO) }

// UseUpQuota lets the next write to a log fail for the quota of its owner.
func (s *Server) UseUpQuota() { s.disk.FailWrite(1, syscall.EDQUOT) }

// FillDisk leaves no room for anything that is written from now on, until FreeDisk or
// Restart.
func (s *Server) FillDisk() { s.disk.LimitSpace(0) }

// FreeDisk ends FillDisk, and any fault of the disk that did not strike yet.
func (s *Server) FreeDisk() { s.disk.Heal() }

// HoldSync makes syncs of the logs wait until release is called. Batches that are sent
// meanwhile are appended and not acknowledged. The channel began is closed when the first
// sync has come and waits: then something is appended.
func (s *Server) HoldSync() (began <-chan struct{}, release func()) {
	return s.HoldDisk(func(op vfs.Op, _ string) bool { return op == vfs.OpSync })
}

// HoldAppend is HoldSync for the writes of the logs: what is sent meanwhile queues.
func (s *Server) HoldAppend() (began <-chan struct{}, release func()) {
	return s.HoldDisk(func(op vfs.Op, _ string) bool { return op == vfs.OpWrite })
}

// HoldDisk is HoldSync for any calls of the file system. It takes the place of what was
// held or observed before.
func (s *Server) HoldDisk(at func(op vfs.Op, name string) bool) (began <-chan struct{}, release func()) {
	gate, first := make(chan struct{}), make(chan struct{})
	var begin, end sync.Once
	s.disk.Observe(func(op vfs.Op, name string) {
		if at(op, name) {
			begin.Do(func() { close(first) })
			<-gate
		}
	})
	disk := s.disk // a crash puts another in its place
	release = func() {
		end.Do(func() {
			disk.Observe(nil)
			close(gate)
		})
	}
	s.tb.Cleanup(release) // before the server stops, which syncs
	return first, release
}

// ObserveDisk has fn called before each call of the file system, in the goroutine of the
// caller; fn may block. It takes the place of what was held or observed before; nil ends it.
func (s *Server) ObserveDisk(fn func(op vfs.Op, name string)) { s.disk.Observe(fn) }

// AdvanceClock moves the server's wall clock; d may be negative.
func (s *Server) AdvanceClock(d time.Duration) { s.clock.Add(int64(d)) }

// AdvanceUptime moves the server's uptime, by which it counts how long producers are idle.
func (s *Server) AdvanceUptime(d time.Duration) { s.uptime.Add(int64(d)) }

// Kill stops the server as the end of its process does: nothing more is answered or
// written on purpose, and what was written stays. It starts again with the same address.
func (s *Server) Kill() {
	s.tb.Helper()
	s.server().Abandon(nil)
	s.useDisk()
	s.start()
}

// HookFrames sets the frame hooks; the zero FrameHooks takes them away. They are called
// from the server's goroutines.
func (s *Server) HookFrames(h FrameHooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.onFrame = h
}

func (s *Server) frameHooks() FrameHooks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.onFrame
}

func (s *Server) frameStart(in bool, kind wire.Kind, size int) int {
	if f := s.frameHooks().Start; f != nil {
		return f(in, kind, size)
	}
	return -1
}

func (s *Server) frameEnd(in bool, m wire.Message) bool {
	f := s.frameHooks().End
	return f != nil && f(in, m)
}

func (s *Server) dropResult(r *wire.ProduceResult) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.drops == 0 || r.Code != wire.CodeOK {
		return false
	}
	s.mu.drops--
	return s.mu.drops == 0
}

// testLogger logs to the test, and to nowhere once the test has ended: a log line of a
// goroutine that is still on its way out must not crash the run.
func testLogger(tb testing.TB) *slog.Logger {
	w := &testWriter{tb: tb}
	tb.Cleanup(w.end)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu sync.Mutex
	tb testing.TB
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tb != nil {
		w.tb.Logf("server: %s", b)
	}
	return len(b), nil
}

func (w *testWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tb = nil
}
