package servertest

import (
	"context"
	"log/slog"
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
// goroutine, but Restart and Crash not while another of them runs.
type Server struct {
	tb    testing.TB
	cfg   server.Config
	mem   *vfs.Mem // nil with real files
	disk  *vfs.Faulty
	clock atomic.Int64 // how far the clock is ahead of the real one, nanoseconds

	mu struct {
		sync.Mutex
		running *server.Server
		drops   int // acknowledgements until the one that is dropped; 0 for none
		onFrame FrameHooks
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

// Start starts a server on loopback and stops it when the test ends.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb}
	s.cfg = server.Config{Data: tb.TempDir(), Addr: "127.0.0.1:0", Drain: drain, Log: testLogger(tb)}
	for _, opt := range opts {
		opt(s)
	}
	s.useDisk()
	s.cfg.Hooks = &hooks.Hooks{
		Now:        func() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) },
		FrameStart: s.frameStart, FrameEnd: s.frameEnd, DropResult: s.dropResult,
	}
	s.start()
	s.cfg.Addr = s.server().Addr().String() // a restart keeps the address
	tb.Cleanup(s.stop)
	return s
}

// useDisk puts faults in front of the file system in use.
func (s *Server) useDisk() {
	var fs vfs.FS = vfs.OS
	if s.mem != nil {
		fs = s.mem
	}
	s.disk = vfs.NewFaulty(fs)
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
func (s *Server) Restart() {
	s.tb.Helper()
	s.stop()
	s.disk.Heal()
	s.start()
}

// Crash stops the server as a power cut does: whatever was not synced is gone. It needs
// [InMemory]. The server starts again with the same address.
func (s *Server) Crash() { s.CrashWith(nil) }

// CrashWith is Crash with release called when the power is off: what HoldSync held goes on
// then and writes to a disk that nobody will see again.
func (s *Server) CrashWith(release func()) {
	s.tb.Helper()
	if s.mem == nil {
		s.tb.Fatal("servertest: Crash needs InMemory")
	}
	s.server().Abandon(func() {
		// Only now: an acknowledgement that left after the disk was copied would be a lie.
		s.mem = s.mem.CrashClone()
		if release != nil {
			release()
		}
	})
	s.useDisk()
	s.start()
}

// FailSync lets the next sync of a log fail.
func (s *Server) FailSync() { s.disk.FailSync(1, syscall.EIO) }

// FailAppend lets the next write to a log fail, with nothing written.
func (s *Server) FailAppend() { s.disk.FailWrite(1, syscall.EIO) }

// FillDisk leaves no room for anything that is written from now on, until FreeDisk or
// Restart.
func (s *Server) FillDisk() { s.disk.LimitSpace(0) }

// FreeDisk ends FillDisk, and any fault of the disk that did not strike yet.
func (s *Server) FreeDisk() { s.disk.Heal() }

// HoldSync makes syncs of the logs wait until release is called. Batches that are sent
// meanwhile are appended and not acknowledged. The channel began is closed when the first
// sync has come and waits: then something is appended.
func (s *Server) HoldSync() (began <-chan struct{}, release func()) {
	gate, first := make(chan struct{}), make(chan struct{})
	var begin, end sync.Once
	s.disk.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync {
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

// AdvanceClock moves the server's wall clock; d may be negative.
func (s *Server) AdvanceClock(d time.Duration) { s.clock.Add(int64(d)) }

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
