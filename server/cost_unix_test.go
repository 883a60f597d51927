//go:build unix

package server_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

// envCost makes the test binary a server of the directory that it names.
const envCost = "QUOIN_COST_SERVE"

// serveForCost is the child of BenchmarkIdentity: it serves until its input ends.
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

// BenchmarkIdentity is the CPU time that a server process takes for a batch of 1 KiB, over
// QUIC and onto a disk with syncs: 16 lanes, five batches in flight in each, with an identity
// and without one. Compare cpu-ns/batch of runs that took turns (-count 10); what the clock
// says is the disk's and the client's. Starting the process is part of it: take -benchtime
// 100000x or more.
func BenchmarkIdentity(b *testing.B) {
	for _, kind := range []string{"plain", "idempotent"} {
		b.Run(kind, func(b *testing.B) {
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
			url, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			sendAll(b, strings.TrimSpace(url), kind == "idempotent")
			in.Close()
			cmd.Wait()
			u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			b.ReportMetric(float64(u.Utime.Nano()+u.Stime.Nano())/float64(b.N), "cpu-ns/batch")
		})
	}
}

// sendAll sends b.N batches and waits for their answers.
func sendAll(b *testing.B, url string, idempotent bool) {
	defer func(before time.Duration) { rawclient.Patience = before }(rawclient.Patience)
	rawclient.Patience = time.Hour // a stream's whole life
	const lanes, inFlight = 16, 5
	c := rawclient.Dial(b, url)
	topic := c.CreateTopic("cost", 1)
	done := make(chan struct{}, lanes)
	share := func(i int) int { return (b.N + i) / lanes }
	for i := range lanes {
		p := new(wire.ProducerInited)
		if idempotent {
			p = c.NewProducer()
		}
		lane := c.Lane(p, topic, 0, -1)
		go func() {
			defer func() { done <- struct{}{} }()
			sent, answered := 0, 0
			for answered < share(i) {
				for sent < share(i) && sent-answered < inFlight {
					lane.Produce(costBatch(b, p, batchfmt.Seq(sent)))
					sent++
				}
				if r := lane.Result(); r.Code != wire.CodeOK {
					b.Errorf("%v %s", r.Code, r.Detail)
					return
				}
				answered++
			}
		}()
	}
	for range lanes {
		<-done
	}
}

func costBatch(b *testing.B, p *wire.ProducerInited, base batchfmt.Seq) []byte {
	var builder batchfmt.Builder
	if err := builder.Add(&batchfmt.Record{Timestamp: 1, Value: make([]byte, 1<<10)}); err != nil {
		b.Fatal(err)
	}
	seal := batchfmt.Seal{Version: batchfmt.Version1}
	if p.ProducerID != batchfmt.NoProducer {
		seal = batchfmt.Seal{Version: batchfmt.Version2, ProducerID: p.ProducerID, BaseSequence: base}
	}
	raw, err := builder.Seal(nil, seal)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}
