package console

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/quoin-io/quoin/server/internal/counters"
)

const namespace = "quoin"

// registry makes a registry of the console's own with everything that it shows.
func (c *Console) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(c.cfg.Counters, c.cfg.Version, func() *Gauges {
			source := c.state.Load().source
			if source.Gauges == nil {
				return nil
			}
			g := source.Gauges()
			return &g
		}),
	)
	return r
}

// A collector reads the counters when it is asked, and only then.
type collector struct {
	samples []sample
	gauges  []gauge
	sync    *prometheus.Desc
	set     *counters.Set
	now     func() *Gauges // nil before there is anything to ask
}

// A sample is one series whose value is always there.
type sample struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string // values
	load   func() float64
}

// A gauge is one series that the source knows.
type gauge struct {
	desc   *prometheus.Desc
	labels []string
	of     func(*Gauges) float64
}

func newCollector(set *counters.Set, version string, now func() *Gauges) *collector {
	c := &collector{set: set, now: now}
	c.describeWork(set)
	c.describeFailures(set)
	c.describePresent(set)
	c.describeProcess(version)
	return c
}

// A value is one counter of a family and its label.
type value struct {
	label string
	from  *counters.Counter
}

// family adds counters that differ in one label.
func (c *collector) family(name, help, label string, values ...value) {
	desc := prometheus.NewDesc(namespace+"_"+name, help, []string{label}, nil)
	for _, v := range values {
		load := func() float64 { return float64(v.from.Load()) }
		c.samples = append(c.samples, sample{desc, prometheus.CounterValue, []string{v.label}, load})
	}
}

func (c *collector) counter(name, help string, from *counters.Counter) {
	c.single(name, help, prometheus.CounterValue, func() float64 { return float64(from.Load()) })
}

func (c *collector) level(name, help string, from *counters.Level) {
	c.single(name, help, prometheus.GaugeValue, func() float64 { return float64(from.Load()) })
}

func (c *collector) single(name, help string, kind prometheus.ValueType, load func() float64) {
	c.samples = append(c.samples, sample{desc: prometheus.NewDesc(namespace+"_"+name, help, nil, nil), kind: kind, load: load})
}

func (c *collector) gauge(name, help string, of func(*Gauges) float64) {
	c.gauges = append(c.gauges, gauge{desc: prometheus.NewDesc(namespace+"_"+name, help, nil, nil), of: of})
}

func (c *collector) describeWork(s *counters.Set) {
	b, l := &s.Batches, &s.LookUps
	c.family("batches_total", "Batches of producers by the answer that they got.", "outcome",
		value{"appended", &b.Appended}, value{"duplicate", &b.Duplicate}, value{"gap", &b.Gap},
		value{"fenced", &b.Fenced}, value{"conflict", &b.Conflict}, value{"rejected", &b.Rejected},
		value{"unknown", &b.Unknown})
	c.counter("provisional_batches_total", "Batches that were answered as stored before their sync, as their senders had asked for.", &b.Provisional)
	c.counter("appended_records_total", "Records that were appended to logs.", &s.Appended.Records)
	c.counter("appended_bytes_total", "Bytes of batches that were appended to logs.", &s.Appended.Bytes)
	c.family("lookups_total", "Searches in logs for a batch that memory has forgotten, by how they ended.", "result",
		value{"found", &l.Found}, value{"removed", &l.Removed}, value{"damaged", &l.Damaged},
		value{"nothing", &l.Nothing}, value{"failed", &l.Failed}, value{"throttled", &l.Throttled})
	c.family("snapshots_total", "Snapshots of producer states, by whether they were written.", "result",
		value{"written", &s.Snapshots.Written}, value{"failed", &s.Snapshots.Failed})
	c.family("frame_copies_total", "Second copies of frames, for links that lose packets: of answers, of what clients said, and of that what came before the frame itself.", "result",
		value{"sent", &s.Copies.Sent}, value{"received", &s.Copies.Received}, value{"used", &s.Copies.Used})
	c.counter("lane_evictions_total", "Lanes that left memory to make room for others.", &s.Producers.Evictions)
	c.counter("lane_retirements_total", "Lanes that were moved to a retired table.", &s.Producers.Retirements)
	c.sync = prometheus.NewDesc(namespace+"_sync_duration_seconds",
		"How long syncs of logs took; each covers everything appended before it.", nil, nil)
}

func (c *collector) describeFailures(s *counters.Set) {
	x, f := &s.Conflicts, &s.Appended.Failures
	c.family("conflicts_total", "Batches whose sequences hold another batch, by what differs.", "cause",
		value{"digest", &x.Digest}, value{"range", &x.Range}, value{"overlap", &x.Overlap})
	c.family("append_failures_total", "Appends that failed, by reason; one may hold many batches.", "reason",
		value{"disk_full", &f.DiskFull}, value{"io", &f.IO}, value{"broken", &f.Broken})
	c.counter("sync_failures_total", "Syncs that failed; each has stopped a partition.", &s.Syncs.Failed)
	c.counter("producer_limit_refusals_total", "Lanes that were not opened as their partition had no room for producers.", &s.Producers.Refusals)
	c.counter("damaged_ranges_found_total", "Damaged parts of logs that were found since the start.", &s.Damage.Ranges)
	c.counter("damaged_records_found_total", "Records in damaged parts of logs that were found since the start.", &s.Damage.Records)
}

func (c *collector) describePresent(s *counters.Set) {
	c.level("lanes", "Lanes of producers in memory.", &s.Producers.Lanes)
	c.level("retired_lanes", "Lanes in retired tables.", &s.Producers.Retired)
	c.gauge("connections", "Clients that are connected.", func(g *Gauges) float64 { return float64(g.Connections) })
	c.gauge("topics", "Topics.", func(g *Gauges) float64 { return float64(g.Topics) })
	c.gauge("partitions", "Partitions that are open, stopped ones included.", func(g *Gauges) float64 { return float64(g.Partitions) })
	c.gauge("stopped_partitions", "Partitions that take no writes until the server is restarted.",
		func(g *Gauges) float64 { return float64(g.StoppedPartitions) })
	c.gauge("damaged_ranges", "Damaged parts of logs that are known.", func(g *Gauges) float64 { return float64(g.DamagedRanges) })
	c.gauge("damaged_records", "Records in damaged parts of logs that are known.", func(g *Gauges) float64 { return float64(g.DamagedRecords) })
	frames := prometheus.NewDesc(namespace+"_frame_memory_bytes", "Memory that batches on their way take up.", []string{"direction"}, nil)
	c.gauges = append(c.gauges,
		gauge{frames, []string{"in"}, func(g *Gauges) float64 { return float64(g.FrameBytesIn) }},
		gauge{frames, []string{"out"}, func(g *Gauges) float64 { return float64(g.FrameBytesOut) }})
}

func (c *collector) describeProcess(version string) {
	info, _ := debug.ReadBuildInfo()
	build := prometheus.NewDesc(namespace+"_build_info", "Always 1; the labels say what is running.",
		[]string{"version", "commit", "goversion"}, nil)
	c.samples = append(c.samples, sample{build, prometheus.GaugeValue,
		[]string{version, commit(info), runtime.Version()}, func() float64 { return 1 }})
	started := float64(time.Now().UnixMilli()) / 1e3
	c.single("start_time_seconds", "When the server started, seconds since 1970.", prometheus.GaugeValue, func() float64 { return started })
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, s := range c.samples {
		to <- s.desc
	}
	for _, g := range c.gauges {
		to <- g.desc
	}
	to <- c.sync
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.samples {
		to <- prometheus.MustNewConstMetric(s.desc, s.kind, s.load(), s.labels...)
	}
	took := c.set.Syncs.Took.Load()
	upTo := make(map[float64]uint64, len(counters.Bounds))
	for i, bound := range counters.Bounds {
		upTo[bound.Seconds()] = took.UpTo[i]
	}
	to <- prometheus.MustNewConstHistogram(c.sync, took.Count, took.Sum.Seconds(), upTo)
	if now := c.now(); now != nil {
		for _, g := range c.gauges {
			to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.of(now), g.labels...)
		}
	}
}
