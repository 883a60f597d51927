package network

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/compat/campaign"
	"github.com/quoin-io/quoin/sdk"
)

const (
	ackPartitions = 8
	ackRecord     = 1 << 10 // bytes
	ackPerSecond  = 400

	// envAck makes the test binary one that sends and times: the kind, the target, over how
	// many connections, and how many records.
	envAck = "QUOIN_NETWORK_ACK"
)

var (
	ackSeconds     = flag.Int("ackseconds", 15, "how long each sender of BenchmarkAckOverBadLink sends")
	ackDelay       = flag.Duration("ackdelay", 20*time.Millisecond, "how long the link of BenchmarkAckOverBadLink takes each way")
	ackLoss        = flag.Float64("ackloss", 0.01, "the share of packets that the link of BenchmarkAckOverBadLink loses")
	ackConnections = flag.String("ackconnections", "1,2,4,4once", "over how many connections BenchmarkAckOverBadLink sends, by commas; a number with once behind it is without second copies")
)

func init() { roles[envAck], roles[envTCP] = timeAcks, serveTCP }

// A timing is what a sender found.
type timing struct {
	N, Duplicates      int // Duplicates were sent again though they were stored
	P50, P90, P99, Max time.Duration
	Slowest            places // of the slowest hundredth
}

// BenchmarkAckOverBadLink measures how long after its intended moment a record of 1 KiB is
// acknowledged, 400 times a second over 8 partitions, on a link that takes 20 ms each way and
// loses 1 % each way, or as the flags say: over one connection with TCP and TLS, and over several
// numbers of Quoin's, with second copies of what is small and without. A record is a batch by
// itself, so that both sides send the same. The server of Quoin syncs to disk before it answers,
// the one of TCP answers at once.
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
		beside := runSender(b, link, "tcp "+tcp.url+" 1")
		report(b, "tcp", beside)
		run.Count("records", beside.N)
		for connections := range strings.SplitSeq(*ackConnections, ",") {
			over := runSender(b, link, "quoin "+quic.url+" "+connections)
			report(b, connections, over)
			b.ReportMetric(float64(over.P99)/float64(beside.P99), connections+"-p99-ratio")
			run.Count("records", over.N)
		}
	}
	for name, l := range map[string]*line{"up": link.up, "down": link.down} {
		c := l.counts()
		b.Logf("%s: %+v", name, c)
		if *ackLoss > 0 && c.lost == 0 || c.discards > 0 {
			b.Errorf("%s the link lost nothing, or what it should not: %+v", name, c)
		}
	}
}

func report(b *testing.B, name string, t timing) {
	b.Logf("%s: p50 %v, p90 %v, p99 %v, at most %v; %d duplicates; of the slowest hundredth were late %v",
		name, t.P50, t.P90, t.P99, t.Max, t.Duplicates, t.Slowest)
	b.ReportMetric(ms(t.P50), name+"-p50-ms")
	b.ReportMetric(ms(t.P99), name+"-p99-ms")
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
	var kind, target, connections string
	var n int
	fmt.Sscan(os.Getenv(envAck), &kind, &target, &connections, &n)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n)*time.Second/ackPerSecond+time.Minute)
	defer cancel()
	p := newPace(n)
	var err error
	if kind == "tcp" {
		err = sendTCP(ctx, target, p)
	} else {
		err = sendQuoin(ctx, target, connections, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(p.timing())
}

func sendQuoin(ctx context.Context, url, over string, p *pace) error {
	number, once := strings.CutSuffix(over, "once")
	connections, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	connected := make(chan struct{}, connections)
	c, err := sdk.Dial(ctx, url, sdk.Connections(connections), sdk.SecondCopies(!once), sdk.OnEvent(func(e sdk.Event) {
		if e.Kind == sdk.EventConnected {
			signal(connected)
		}
	}))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for range connections {
		<-connected
	}
	name := fmt.Sprint("ack-", time.Now().UnixNano())
	if _, err := c.CreateTopic(ctx, name, sdk.TopicOptions{Partitions: ackPartitions}); err != nil {
		return err
	}
	producer, err := c.Producer(name).Idempotent().BatchBytes(1).
		Partitioner(func(r *sdk.Record, n int) int { return int(r.Key[0]) % n }).Build(ctx)
	if err != nil {
		return err
	}
	value := make([]byte, ackRecord)
	return p.run(func(n int) error {
		record := sdk.Record{Key: []byte{byte(n % ackPartitions)}, Value: value}
		return producer.SendAsync(ctx, record, func(ack sdk.Ack, err error) {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			p.acknowledged(n, passage{ack.Duplicate, ack.AppendTime, ack.Timings.Append + ack.Timings.Sync})
		})
	})
}
