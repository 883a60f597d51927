//go:build unix

package partition

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// BenchmarkServerPath is what a batch of 1 KiB costs the partition from the queue to the
// answer, on a real disk with real syncs: with an identity and without one. 16 lanes, five
// batches in flight in each. Compare cpu-ns/batch; what the clock says is the disk's.
func BenchmarkServerPath(b *testing.B) {
	for _, kind := range []string{"plain", "idempotent"} {
		b.Run(kind, func(b *testing.B) {
			p := openBench(b, filepath.Join(b.TempDir(), "partition"))
			const lanes, inFlight = 16, 5
			answers := make(sink, lanes*inFlight)
			work := make([]*benchLane, lanes)
			for i := range work {
				work[i] = newBenchLane(b, p, kind == "idempotent", batchfmt.ProducerID(1+i))
			}
			b.ReportAllocs()
			began := cpuTime()
			waiting := 0
			for i := 0; b.Loop(); i++ {
				if waiting == cap(answers) {
					if r := <-answers; r.Code != wire.CodeOK {
						b.Fatal(r.Code)
					}
					waiting--
				}
				work[i%lanes].send(b, p, answers)
				waiting++
			}
			for ; waiting > 0; waiting-- {
				<-answers
			}
			b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/batch")
			if err := p.Close(wire.Errorf(wire.CodeShutdown, "done")); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// benchLane seals batches as cheaply as it can: that is not what is measured. A batch that is
// in flight must not change, so there are more than can be.
type benchLane struct {
	opening *Opening
	pid     batchfmt.ProducerID
	builder batchfmt.Builder
	ring    [8][]byte
	next    batchfmt.Seq
}

func newBenchLane(b *testing.B, p *Partition, idempotent bool, pid batchfmt.ProducerID) *benchLane {
	l := new(benchLane)
	if err := l.builder.Add(&batchfmt.Record{Value: make([]byte, 1<<10)}); err != nil {
		b.Fatal(err)
	}
	if !idempotent {
		l.opening, _ = p.OpenPlain()
		return l
	}
	l.pid = pid
	opened := make(chan *wire.Error, 1)
	l.opening = p.OpenLane(OpenRequest{Grant: NewGrant(pid, 0), Fresh: true, Reply: func(_ *wire.LaneOpened, e *wire.Error) { opened <- e }})
	if e := <-opened; e != nil {
		b.Fatal(e)
	}
	return l
}

func (l *benchLane) send(b *testing.B, p *Partition, to Sink) {
	seal := batchfmt.Seal{Version: batchfmt.Version1}
	if l.pid != batchfmt.NoProducer {
		seal = batchfmt.Seal{Version: batchfmt.Version2, ProducerID: l.pid, BaseSequence: l.next}
	}
	slot := &l.ring[int(l.next)%len(l.ring)]
	raw, err := l.builder.Seal((*slot)[:0], seal)
	if err != nil {
		b.Fatal(err)
	}
	*slot = raw
	x, err := batchfmt.Parse(raw)
	if err != nil {
		b.Fatal(err)
	}
	l.next++
	if e := p.Produce(Produce{Opening: l.opening, Batch: x, Sink: to, Arrived: time.Now(), Confirmed: l.next - 2}); e != nil {
		b.Fatal(e)
	}
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
