package network

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/server"
)

// envServe makes the test binary a server, of a directory and on an address.
const envServe = "QUOIN_NETWORK_SERVE"

// serveProcess serves until it is killed, and not longer than its parent lives. What it
// prints is the URL.
func serveProcess() {
	data, addr, _ := strings.Cut(os.Getenv(envServe), "|")
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	srv, err := server.Start(server.Config{Data: data, Addr: addr, Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.URL())
	io.Copy(io.Discard, os.Stdin) // ends when the process is gone that started this one
	os.Exit(1)
}

// A process is a server in a process of its own, which can be killed and started again.
type process struct {
	tb         testing.TB
	role       string // the variable of the environment
	data, addr string
	url        string
	launch     func(*exec.Cmd) error // starts its process
	cmd        *exec.Cmd
	stderr     bytes.Buffer
}

// startProcess starts a server that ends with the test.
func startProcess(tb testing.TB) *process {
	tb.Helper()
	return startProcessAs(tb, envServe, freeAddr(tb), (*exec.Cmd).Start)
}

// startProcessAs is startProcess for any role that prints a line when it is ready, at an
// address, and with a way of its own to be launched.
func startProcessAs(tb testing.TB, role, addr string, launch func(*exec.Cmd) error) *process {
	tb.Helper()
	p := &process{tb: tb, role: role, data: tb.TempDir(), addr: addr, launch: launch}
	p.start()
	tb.Cleanup(func() {
		p.kill()
		if tb.Failed() {
			tb.Logf("the server said: %s", p.stderr.String())
		}
	})
	return p
}

// start starts the server, with the data and at the address that it always has.
func (p *process) start() {
	p.tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		p.tb.Fatal(err)
	}
	p.cmd = exec.Command(exe)
	p.cmd.Env = append(os.Environ(), p.role+"="+p.data+"|"+p.addr)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.tb.Fatal(err)
	}
	if _, err := p.cmd.StdinPipe(); err != nil {
		p.tb.Fatal(err)
	}
	if err := p.launch(p.cmd); err != nil {
		p.tb.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		p.tb.Fatalf("the server did not start: %v %s", err, p.stderr.String())
	}
	p.url = strings.TrimSpace(line)
}

// kill is kill -9.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// freeAddr finds a UDP port that every start of the server can have.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}
