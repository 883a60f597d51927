package ceiling

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies collects durations between 1 µs and 60 s to three digits. The zero value is
// ready. Safe for several goroutines.
type latencies struct {
	mu struct {
		sync.Mutex
		h *hdrhistogram.Histogram
	}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

// record counts what is out of range as the nearest value in it.
func (l *latencies) record(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.h == nil {
		l.mu.h = newHistogram()
	}
	// RecordValue refuses only what is out of range.
	_ = l.mu.h.RecordValue(max(1, min(d.Microseconds(), time.Minute.Microseconds())))
}

func (l *latencies) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.h = nil
}

// snapshot is what was recorded since reset.
func (l *latencies) snapshot() *hdrhistogram.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := newHistogram()
	if l.mu.h != nil {
		h.Merge(l.mu.h)
	}
	return h
}

// outcome is what a round, or several, came to.
type outcome struct {
	records int           // acknowledged
	elapsed time.Duration // from the first send to the last ack
	cpu     time.Duration // of both ends; 0 where it is not known
	batch   *hdrhistogram.Histogram
	record  *hdrhistogram.Histogram // from the intended start; empty in saturated rounds
}

func (o outcome) perSecond() float64 { return float64(o.records) / o.elapsed.Seconds() }
func (o outcome) megabytes() float64 { return float64(o.records) * recordBytes / 1e6 }

// plus adds up two rounds.
func (o outcome) plus(p outcome) outcome {
	sum := outcome{
		records: o.records + p.records,
		elapsed: o.elapsed + p.elapsed,
		cpu:     o.cpu + p.cpu,
		batch:   newHistogram(),
		record:  newHistogram(),
	}
	for _, part := range []outcome{o, p} {
		if part.batch != nil {
			sum.batch.Merge(part.batch)
		}
		if part.record != nil {
			sum.record.Merge(part.record)
		}
	}
	return sum
}

// report adds the outcome to the benchmark's result line, each unit after the prefix.
func (o outcome) report(b *testing.B, prefix string) {
	b.ReportMetric(o.perSecond(), prefix+"msgs/s")
	b.ReportMetric(o.megabytes()/o.elapsed.Seconds(), prefix+"MB/s")
	if o.cpu > 0 {
		b.ReportMetric(o.megabytes()/o.cpu.Seconds(), prefix+"MB/cpu-s")
		b.ReportMetric(o.cpu.Seconds()/o.elapsed.Seconds(), prefix+"cores")
	}
	reportLatency(b, o.batch, prefix+"ack")
	reportLatency(b, o.record, prefix+"msg")
}

func reportLatency(b *testing.B, h *hdrhistogram.Histogram, name string) {
	if h == nil || h.TotalCount() == 0 {
		return
	}
	for _, percentile := range []float64{50, 99} {
		us := float64(h.ValueAtPercentile(percentile))
		b.ReportMetric(us, fmt.Sprintf("p%v-%s-us", percentile, name))
	}
}

// watch measures the time and the processor time of a round.
type watch struct {
	server *child
	began  time.Time
	cpu    time.Duration
}

func startWatch(server *child) (*watch, error) {
	cpu, err := server.cpu()
	return &watch{server: server, began: time.Now(), cpu: cpu}, err
}

func (w *watch) stop() (outcome, error) {
	elapsed := time.Since(w.began)
	cpu, err := w.server.cpu()
	return outcome{elapsed: elapsed, cpu: cpu - w.cpu}, err
}

// pace calls start once for every time that next says yes, perSecond times a second. It
// never waits for work to be done: after a pause it starts at once all that should have
// been started, and tells each when that was, so that latency can be counted from there.
// A wait is as fine as the system's timers, about 1 ms, and so comes in small bursts.
func pace(next func() bool, perSecond int, start func(intended time.Time) error) error {
	interval := time.Second / time.Duration(perSecond)
	intended := time.Now()
	for next() {
		time.Sleep(time.Until(intended))
		if err := start(intended); err != nil {
			return err
		}
		intended = intended.Add(interval)
	}
	return nil
}

// times is a next function that says yes n times.
func times(n int) func() bool {
	return func() bool {
		n--
		return n >= 0
	}
}

// lasting is a next function that says yes for d from now.
func lasting(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().Before(end) }
}

// contender does a round that lasts as long as next says yes.
type contender func(next func() bool) (outcome, error)

// versus lets two contenders take turns of half a second, so that both meet the same
// moods of the machine, and reports the subject's outcome, the other's with "bare-" before
// each unit, and the ratios: of records a second, and of bytes a second of processor time.
// Above 1 the subject is better.
func versus(b *testing.B, subject, bare contender) {
	const turn = 500 * time.Millisecond
	var ours, theirs outcome
	for b.Loop() {
		o, err := subject(lasting(turn))
		if err != nil {
			b.Fatal("subject:", err)
		}
		t, err := bare(lasting(turn))
		if err != nil {
			b.Fatal("bare:", err)
		}
		ours, theirs = ours.plus(o), theirs.plus(t)
	}
	ours.report(b, "")
	theirs.report(b, "bare-")
	b.ReportMetric(ours.perSecond()/theirs.perSecond(), "ratio")
	if ours.cpu > 0 && theirs.cpu > 0 {
		efficiency := ours.megabytes() / ours.cpu.Seconds()
		b.ReportMetric(efficiency/(theirs.megabytes()/theirs.cpu.Seconds()), "cpu-ratio")
	}
}
