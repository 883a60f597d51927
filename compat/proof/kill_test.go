package proof

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
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

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

const (
	// envServe makes the test binary a server of this directory, on the address behind it.
	envServe = "QUOIN_PROOF_SERVE"
	// envLogs names real log files (a pattern) whose lines are sent; without it the lines
	// are made up.
	envLogs = "QUOIN_PROOF_LOGS"
)

// perSender is how many records a second each producer sends.
const perSender = 2000

var kills = flag.Int("kills", 30, "how often TestKilledServer kills the server")

// serveProcess is the child: it serves until it is killed. What it prints is the URL.
func serveProcess() {
	data, addr, _ := strings.Cut(os.Getenv(envServe), "|")
	srv, err := server.Start(server.Config{Data: data, Addr: addr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.URL())
	select {}
}

// A process is a server in a process of its own.
type process struct {
	cmd    *exec.Cmd
	url    string
	stderr bytes.Buffer
}

func startProcess(t *testing.T, data, addr string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), envServe+"="+data+"|"+addr)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		t.Fatalf("the server did not start: %v %s", err, p.stderr.String())
	}
	p.url = strings.TrimSpace(line)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// freeAddr finds a UDP port that every start of the server can have.
func freeAddr(t *testing.T) string {
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

// TestKilledServer kills the server process again and again while four producers send, and
// checks after each restart what is there against what was acknowledged by then.
func TestKilledServer(t *testing.T) {
	data, addr := t.TempDir(), freeAddr(t)
	text := lines(t)
	srv := startProcess(t, data, addr)
	defer func() { srv.kill() }()
	client := dial(t, srv.url)
	createTopic(t, client, "kills", 3)

	sending, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var senders []*sender
	for i := range 4 {
		s := newSender(t, client, "kills", fmt.Sprintf("p%d", i), batchSize(i))
		s.keyed = true
		senders = append(senders, s)
		// A steady stream, so that there is always something in flight, and not so much
		// that checking all of it becomes the larger part of the test.
		pace := rate.NewLimiter(perSender, perSender/10)
		running.Go(func() {
			for pace.Wait(sending) == nil {
				s.send(text[s.sent%len(text)])
			}
		})
	}
	rng := rand.New(rand.NewPCG(cutSeed, 1))
	soFar := newLedger("kills")
	for range *kills {
		// How long the server lives is chance, and not something that is waited for.
		time.Sleep(time.Duration(20+rng.IntN(130)) * time.Millisecond)
		srv.kill()
		srv = startProcess(t, data, addr)
		soFar.checkSoFar(t, srv.url, senders...)
	}
	stop()
	running.Wait()
	total := 0
	for _, s := range senders {
		s.finish()
		total += s.sent
	}
	verify(t, srv.url, "kills", senders...)
	t.Logf("%d records over %d kills", total, *kills)
	if total < 1000 {
		t.Errorf("only %d records were sent: the kills met nothing", total)
	}
}

// batchSize lets one producer send a record a batch, and the others larger ones.
func batchSize(i int) func(*sdk.ProducerBuilder) *sdk.ProducerBuilder {
	return func(b *sdk.ProducerBuilder) *sdk.ProducerBuilder {
		return b.BatchBytes(1 << (4 * i)).MaxBuffered(1 << 20)
	}
}
