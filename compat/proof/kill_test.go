package proof

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

const (
	// envServe makes the test binary a server: of a directory, on an address, with segments
	// of a size.
	envServe = "QUOIN_PROOF_SERVE"
	// envLogs names real log files (a pattern) whose lines are sent; without it the lines
	// are made up.
	envLogs = "QUOIN_PROOF_LOGS"
)

// perSender is how many records a second each producer sends.
const perSender = 2000

// maxWaiting is how many records of a producer may be without an outcome.
const maxWaiting = 300

var kills = flag.Int("kills", 30, "how often TestKilledServer kills the server")

// serveProcess is the child: it serves until it is killed, and not longer than its parent
// lives. What it prints is the URL.
func serveProcess() {
	var segment int64
	data, addr, _ := strings.Cut(os.Getenv(envServe), "|")
	addr, size, _ := strings.Cut(addr, "|")
	fmt.Sscan(size, &segment)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	srv, err := server.Start(server.Config{Data: data, Addr: addr, SegmentBytes: segment, Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.URL())
	io.Copy(io.Discard, os.Stdin) // ends when the process is gone that started this one
	os.Exit(1)
}

// serveEnv is what makes a process a server; segment is 0 for segments of the usual size.
func serveEnv(data, addr string, segment int64) string {
	return fmt.Sprintf("%s=%s|%s|%d", envServe, data, addr, segment)
}

// topicDirs lists the directories of topics in a data directory, sorted.
func topicDirs(data string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(data, "topics"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// A process is a server in a process of its own.
type process struct {
	cmd    *exec.Cmd
	url    string
	stderr bytes.Buffer
}

func startProcess(t *testing.T, data, addr string) *process {
	t.Helper()
	p, out := spawn(t, data, addr)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		t.Fatalf("the server did not start: %v %s", err, p.stderr.String())
	}
	p.url = strings.TrimSpace(line)
	return p
}

// spawn does not wait until the server serves.
func spawn(t *testing.T, data, addr string) (*process, io.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), serveEnv(data, addr, 0))
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p, out
}

// kill is kill -9.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// freeAddr finds a UDP port that every start of the server can have.
func freeAddr(t testing.TB) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// lines are what is sent: real logs if they are named, else lines of our own.
func lines(t *testing.T) []string {
	t.Helper()
	var all []string
	files, err := filepath.Glob(os.Getenv(envLogs))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.SplitAfter(string(b), "\n")...)
	}
	for i := 0; len(all) < 2000; i++ {
		all = append(all, fmt.Sprintf("line %d of our own, %s", i, strings.Repeat("x", i%200)))
	}
	return all
}

// killsPerEra bounds what one data directory and one set of producers live through: nothing
// is ever removed from the log, and the check remembers all of it.
const killsPerEra = 500

// TestKilledServer kills the server process again and again while four producers send and
// topics are made and deleted, and checks after each restart what is there against what was
// answered by then.
func TestKilledServer(t *testing.T) {
	t.Parallel() // most of it is waiting, for the moment to kill and for syncs
	run := campaign.Start(t, *seed)
	for done := 0; done < *kills && !t.Failed(); {
		n := min(killsPerEra, *kills-done)
		t.Run(fmt.Sprintf("from %d", done), func(t *testing.T) { killEra(t, run, uint64(done), n) })
		done += n
	}
}

func killEra(t *testing.T, run *campaign.Run, first uint64, n int) {
	data, addr := t.TempDir(), freeAddr(t)
	srv := startProcess(t, data, addr)
	defer func() { srv.kill() }()
	client := dial(t, srv.url)
	createTopic(t, client, "kills", 3)
	admin := newTopicAdmin(t, run, client, *seed+first)

	working, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	stop := func() { cancel(); running.Wait() }
	defer stop()
	running.Go(func() { admin.work(working) })
	senders := startSenders(working, &running, t, client)
	rng := rand.New(rand.NewPCG(*seed+first, 1))
	soFar := newLedger("kills")
	for range n {
		// How long the server lives is chance, and not something that is waited for.
		time.Sleep(time.Duration(20+rng.IntN(130)) * time.Millisecond)
		srv.kill()
		run.Count("kills", 1)
		if rng.IntN(4) == 0 { // and again, somewhere in the recovery
			srv, _ = spawn(t, data, addr)
			time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
			srv.kill()
			run.Count("kills while starting", 1)
		}
		srv = startProcess(t, data, addr)
		soFar.checkSoFar(t, srv.url, senders...)
		admin.check(t, srv.url, data, "kills")
		if t.Failed() {
			return // what comes later is no news
		}
	}
	stop()
	total := 0
	for _, s := range senders {
		s.finish()
		total += s.sent
	}
	verify(t, srv.url, "kills", senders...)
	admin.finish(t, srv.url, data, "kills")
	run.Count("records", total)
	t.Logf("%d records over %d kills, %d topics", total, n, len(admin.given))
	if total < 1000 || len(admin.given) < n/3 {
		t.Errorf("only %d records and %d topics: the kills met nothing", total, len(admin.given))
	}
}

// startSenders starts four producers that send until ctx ends.
func startSenders(ctx context.Context, running *sync.WaitGroup, t *testing.T, client *sdk.Client) (senders []*sender) {
	text := lines(t)
	for i := range 4 {
		s := newSender(t, client, "kills", fmt.Sprintf("p%d", i), batchSize(i))
		s.keyed = true
		senders = append(senders, s)
		running.Go(func() {
			s.keepSending(ctx, perSender, func(n int) string { return text[n%len(text)] })
		})
	}
	return senders
}

// keepSending sends until ctx ends. It is a steady stream, so that there is always something
// in flight, and not so much that checking all of it becomes the larger part of the test. A
// server that is down or full most of the time stores less: what waits must not become so
// much that it is not delivered in time.
func (s *sender) keepSending(ctx context.Context, perSecond int, text func(n int) string) {
	pace := rate.NewLimiter(rate.Limit(perSecond), perSecond/10)
	room := make(chan struct{}, maxWaiting)
	for n := 0; pace.Wait(ctx) == nil; n++ {
		select {
		case room <- struct{}{}:
			s.sendThen(text(n), func() { <-room })
		case <-ctx.Done():
		}
	}
}

// batchSize lets one producer send a record a batch, and the others larger ones.
func batchSize(i int) func(*sdk.ProducerBuilder) *sdk.ProducerBuilder {
	return func(b *sdk.ProducerBuilder) *sdk.ProducerBuilder {
		return b.BatchBytes(1 << (4 * i)).MaxBuffered(1 << 20)
	}
}
