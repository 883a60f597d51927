package console

import (
	"io"
	"net/http"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/quoin-io/quoin/server/internal/counters"
)

// scrape asks for the metrics the way Prometheus does.
func scrape(t *testing.T, c *Console) map[string]*dto.MetricFamily {
	t.Helper()
	r := get(t, c, "/metrics")
	if r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(r.body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, r.body)
	}
	return families
}

// numbers are all values of a kind of metric that begin with quoin_, by series.
func numbers(families map[string]*dto.MetricFamily) map[string]float64 {
	all := make(map[string]float64)
	for name, f := range families {
		if !strings.HasPrefix(name, namespace+"_") {
			continue
		}
		for _, m := range f.Metric {
			series := name
			for _, l := range m.Label {
				series += " " + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case m.Counter != nil:
				all[series] = m.Counter.GetValue()
			case m.Gauge != nil:
				all[series] = m.Gauge.GetValue()
			}
		}
	}
	return all
}

// fill gives every counter and level in a struct its own number and returns the numbers,
// by field.
func fill(v reflect.Value, path string, values map[string]float64) {
	for i := range v.NumField() {
		name := path + "." + v.Type().Field(i).Name
		n := len(values) + 101
		switch f := v.Field(i).Addr().Interface().(type) {
		case *counters.Counter:
			f.Add(uint64(n))
			values[name] = float64(n)
		case *counters.Level:
			p := f.Part()
			p.Set(n)
			values[name] = float64(n)
		case *counters.Histogram:
		default:
			fill(v.Field(i), name, values)
		}
	}
}

// A number that is counted and not shown helps nobody, and one that is shown under two
// names is counted twice by whoever adds them up.
func TestEveryCounterIsShownOnce(t *testing.T) {
	cfg := testConfig()
	fields := make(map[string]float64)
	fill(reflect.ValueOf(cfg.Counters).Elem(), "Set", fields)
	if len(fields) < 30 {
		t.Fatalf("only %d counters: %v", len(fields), fields)
	}
	shown := make(map[float64][]string)
	for series, n := range numbers(scrape(t, listen(t, cfg))) {
		shown[n] = append(shown[n], series)
	}
	for field, n := range fields {
		if len(shown[n]) != 1 {
			t.Errorf("%s is shown as %v", field, shown[n])
		}
	}
	if want := len(fields) + 2; len(shown) != want { // and build info and start time
		t.Errorf("%d series, want %d: %v", len(shown), want, shown)
	}
}

func TestEveryGaugeIsShownOnce(t *testing.T) {
	c := listen(t, testConfig())
	before := numbers(scrape(t, c))
	if _, is := before["quoin_connections"]; is {
		t.Error("gauges are shown before there is anybody to ask")
	}
	var g Gauges
	v := reflect.ValueOf(&g).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(i + 101))
	}
	source := quiet()
	source.Gauges = func() Gauges { return g }
	c.Serving(source)
	c.Draining() // they are wanted most when something is going on
	shown := make(map[float64][]string)
	for series, n := range numbers(scrape(t, c)) {
		if _, is := before[series]; !is {
			shown[n] = append(shown[n], series)
		}
	}
	for i := range v.NumField() {
		if len(shown[float64(i+101)]) != 1 {
			t.Errorf("%s is shown as %v", v.Type().Field(i).Name, shown[float64(i+101)])
		}
	}
	if len(shown) != v.NumField() {
		t.Errorf("shown: %v", shown)
	}
}

func TestSyncHistogram(t *testing.T) {
	cfg := testConfig()
	for _, d := range []time.Duration{50 * time.Microsecond, 2 * time.Millisecond, time.Minute} {
		cfg.Counters.Syncs.Took.Observe(d)
	}
	h := scrape(t, listen(t, cfg))["quoin_sync_duration_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 3 || h.GetSampleSum() < 60.00204 || h.GetSampleSum() > 60.00206 {
		t.Errorf("count %d, sum %v", h.GetSampleCount(), h.GetSampleSum())
	}
	want := map[float64]uint64{1e-4: 1, 1e-3: 1, 3e-3: 2, 3: 2}
	for _, b := range h.GetBucket() {
		if n, is := want[b.GetUpperBound()]; is && n != b.GetCumulativeCount() {
			t.Errorf("up to %v s: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), n)
		}
	}
	if len(h.GetBucket()) != len(counters.Bounds)+1 {
		t.Errorf("%d buckets", len(h.GetBucket()))
	}
}

// Names, units and help texts are as Prometheus wants them.
func TestMetricsAreClean(t *testing.T) {
	c := listen(t, testConfig())
	c.Serving(quiet())
	families, err := c.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Labels have few values, all known when this was built: none comes from a client.
func TestLabels(t *testing.T) {
	c := listen(t, testConfig())
	c.Serving(quiet())
	allowed := map[string]bool{
		"outcome": true, "result": true, "cause": true, "reason": true, "direction": true,
		"version": true, "commit": true, "goversion": true,
	}
	families := scrape(t, c)
	for name, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if strings.HasPrefix(name, namespace+"_") && !allowed[l.GetName()] {
					t.Errorf("%s has a label %s", name, l.GetName())
				}
			}
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	info, _ := debug.ReadBuildInfo()
	if n := numbers(families); n["quoin_build_info commit="+commit(info)+" goversion="+runtime.Version()+" version=1.2.3"] != 1 {
		t.Errorf("no build info in %v", n)
	}
}

func TestScrapeOfOtherKinds(t *testing.T) {
	c := listen(t, testConfig())
	r := ask(t, c, "GET", "/metrics", func(r *http.Request) {
		r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	})
	d := expfmt.NewDecoder(strings.NewReader(r.body), expfmt.ResponseFormat(r.header))
	n := 0
	for ; ; n++ {
		var f dto.MetricFamily
		if err := d.Decode(&f); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 20 {
		t.Errorf("%d families", n)
	}
}

func BenchmarkScrape(b *testing.B) {
	c, err := Listen(testConfig())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	c.Serving(quiet())
	r := c.registry()
	for b.Loop() {
		if _, err := r.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
