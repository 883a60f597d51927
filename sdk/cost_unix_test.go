//go:build unix

package sdk_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

// envCost makes the test binary a server of the directory that it names.
const envCost = "QUOIN_SDK_COST_SERVE"

func init() { children[envCost] = serveForCost }

// serveForCost is the child of BenchmarkCost: it serves until its input ends.
func serveForCost(data string) {
	srv, err := server.Start(server.Config{Data: data, Addr: "127.0.0.1:0"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.URL())
	bufio.NewReader(os.Stdin).ReadString('\n')
	srv.Cut()
	os.Exit(0)
}

// BenchmarkCost is the CPU time that the client's process takes for a record of 100 B, sent
// asynchronously to a server in another process: see cpu-ns/record. Handshake and the rest of
// the beginning are part of it: take -benchtime 1000000x.
func BenchmarkCost(b *testing.B) {
	for _, kind := range []string{"idempotent", "plain"} {
		b.Run(kind, func(b *testing.B) {
			url, stop := costServer(b)
			defer stop()
			before := cpuTime(b)
			sendForCost(b, url, kind == "idempotent")
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/record")
		})
	}
}

// BenchmarkDiscard is BenchmarkCost without a network, its encryption and its system calls: what
// the SDK itself costs. Batches are dropped where the stream of QUIC would take them, and their
// answers come after a pause. With none at all, batches are as small as they ever get.
func BenchmarkDiscard(b *testing.B) {
	for _, pause := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond} {
		b.Run(pause.String(), func(b *testing.B) {
			p, stop := sdk.DiscardingProducer(4, pause)
			defer stop()
			before := cpuTime(b)
			sendAsyncForCost(b, p)
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/record")
			sdk.StopSenders(p)
		})
	}
}

func costServer(b *testing.B) (url string, stop func()) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envCost+"="+b.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line), func() {
		in.Close()
		cmd.Wait()
	}
}

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func sendForCost(b *testing.B, url string, idempotent bool) {
	ctx := context.Background()
	c, err := sdk.Dial(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.CreateTopic(ctx, "t", sdk.TopicOptions{Partitions: 4}); err != nil {
		b.Fatal(err)
	}
	builder := c.Producer("t")
	if idempotent {
		builder.Idempotent()
	}
	p, err := builder.Build(ctx)
	if err != nil {
		b.Fatal(err)
	}
	sendAsyncForCost(b, p)
}

func sendAsyncForCost(b *testing.B, p *sdk.Producer) {
	ctx := context.Background()
	failed := func(_ sdk.Ack, err error) {
		if err != nil {
			b.Error(err)
		}
	}
	record := sdk.Record{Value: make([]byte, 100)}
	b.SetBytes(100)
	b.ReportAllocs()
	for range b.N {
		if err := p.SendAsync(ctx, record, failed); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		b.Fatal(err)
	}
}
