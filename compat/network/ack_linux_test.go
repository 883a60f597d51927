package network

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/sdk"
)

const (
	ackPartitions = 8
	ackRecord     = 1 << 10 // bytes
	ackPerSecond  = 400

	// envAck makes the test binary one that sends and times: the kind, the target and how
	// many records.
	envAck = "QUOIN_NETWORK_ACK"
	// envAckClients is over how many clients it sends, each with a connection of its own;
	// 1 if it is not set.
	envAckClients = "QUOIN_NETWORK_ACK_CLIENTS"
)

var (
	ackSeconds = flag.Int("ackseconds", 15, "how long each side of BenchmarkAckOverBadLink sends")
	ackDelay   = flag.Duration("ackdelay", 20*time.Millisecond, "how long the link of BenchmarkAckOverBadLink takes each way")
	ackLoss    = flag.Float64("ackloss", 0.01, "the share of packets that the link of BenchmarkAckOverBadLink loses")
)

func init() { roles[envAck], roles[envTCP] = timeAcks, serveTCP }

// A timing is what a sender found.
type timing struct {
	N, Duplicates      int // Duplicates were sent again though they were stored
	P50, P90, P99, Max time.Duration
}

// BenchmarkAckOverBadLink measures how long after its intended moment a record of 1 KiB is
// acknowledged, 400 times a second over 8 partitions, on a link with 1 % loss and 20 ms each
// way, or as the flags say; and the same over one connection with TCP and TLS. A record is a batch by itself, so
// that both sides send the same. The server of Quoin syncs to disk before it answers, the
// one of TCP answers at once.
func BenchmarkAckOverBadLink(b *testing.B) {
	link, err := newTunLink(b, *seed)
	if err != nil {
		b.Skipf("this system allows no TUN link between two network namespaces: %v", err)
	}
	c := conditions{delay: *ackDelay, loss: *ackLoss}
	link.up.set(c)
	link.down.set(c)
	run := campaign.Start(b, *seed)
	quic := startProcessAs(b, envServe, farEnd.String()+":7733", link.far.start)
	tcp := startProcessAs(b, envTCP, farEnd.String()+":7734", link.far.start)
	for range b.N {
		over := runSender(b, link, "quoin "+quic.url)
		beside := runSender(b, link, "tcp "+tcp.url)
		b.Logf("quoin: p50 %v, p90 %v, p99 %v, at most %v; %d duplicates", over.P50, over.P90, over.P99, over.Max, over.Duplicates)
		b.Logf("tcp:   p50 %v, p90 %v, p99 %v, at most %v", beside.P50, beside.P90, beside.P99, beside.Max)
		b.ReportMetric(ms(over.P50), "p50-ms")
		b.ReportMetric(ms(over.P99), "p99-ms")
		b.ReportMetric(ms(beside.P50), "tcp-p50-ms")
		b.ReportMetric(ms(beside.P99), "tcp-p99-ms")
		b.ReportMetric(float64(over.P99)/float64(beside.P99), "p99-ratio")
		run.Count("records", over.N+beside.N)
	}
	for name, l := range map[string]*line{"up": link.up, "down": link.down} {
		c := l.counts()
		b.Logf("%s: %+v", name, c)
		if *ackLoss > 0 && c.lost == 0 || c.discards > 0 {
			b.Errorf("%s the link lost nothing, or what it should not: %+v", name, c)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// runSender sends from the near end in a process of its own.
func runSender(b *testing.B, link *tunLink, what string) (t timing) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	var out, stderr strings.Builder
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", envAck, what, *ackSeconds*ackPerSecond))
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := link.near.start(cmd); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatalf("%s: %v %s", what, err, stderr.String())
	}
	if err := json.Unmarshal([]byte(out.String()), &t); err != nil {
		b.Fatal(err)
	}
	return t
}

// timeAcks is the process that sends.
func timeAcks() {
	var kind, target string
	var n int
	fmt.Sscan(os.Getenv(envAck), &kind, &target, &n)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n)*time.Second/ackPerSecond+time.Minute)
	defer cancel()
	send := map[string]func(context.Context, string, *pace) error{"quoin": sendQuoin, "tcp": sendTCP}[kind]
	p := &pace{waits: make([]time.Duration, n)}
	p.left.Add(n)
	if err := send(ctx, target, p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	slices.Sort(p.waits)
	at := func(share int) time.Duration { return p.waits[(n-1)*share/100] }
	json.NewEncoder(os.Stdout).Encode(timing{n, int(p.duplicates.Load()), at(50), at(90), at(99), at(100)})
}

// A pace says when each record is due, and takes when it was acknowledged.
type pace struct {
	begin time.Time
	waits []time.Duration // each is written by one acknowledgement
	left  sync.WaitGroup

	duplicates atomic.Int64
}

func (p *pace) due(n int) time.Time {
	return p.begin.Add(time.Duration(n) * time.Second / ackPerSecond)
}

// run calls send for each record when it is due, and waits for all acknowledgements.
func (p *pace) run(send func(n int) error) error {
	p.begin = time.Now()
	for n := range p.waits {
		<-time.After(time.Until(p.due(n)))
		if err := send(n); err != nil {
			return err
		}
	}
	p.left.Wait()
	return nil
}

func (p *pace) acknowledged(n int) {
	p.waits[n] = time.Since(p.due(n))
	p.left.Done()
}

func sendQuoin(ctx context.Context, url string, p *pace) error {
	name := fmt.Sprint("ack-", time.Now().UnixNano())
	var over []*sdk.Producer
	for range clients() {
		c, err := sdk.Dial(ctx, url)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		if len(over) == 0 {
			if _, err := c.CreateTopic(ctx, name, sdk.TopicOptions{Partitions: ackPartitions}); err != nil {
				return err
			}
		}
		producer, err := c.Producer(name).Idempotent().BatchBytes(1).
			Partitioner(func(r *sdk.Record, n int) int { return int(r.Key[0]) % n }).Build(ctx)
		if err != nil {
			return err
		}
		over = append(over, producer)
	}
	value := make([]byte, ackRecord)
	return p.run(func(n int) error {
		partition := n % ackPartitions
		record := sdk.Record{Key: []byte{byte(partition)}, Value: value}
		return over[partition%len(over)].SendAsync(ctx, record, func(ack sdk.Ack, err error) {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			if ack.Duplicate {
				p.duplicates.Add(1)
			}
			p.acknowledged(n)
		})
	})
}

// clients is over how many clients the partitions are spread.
func clients() (n int) {
	fmt.Sscan(os.Getenv(envAckClients), &n)
	return max(n, 1)
}
