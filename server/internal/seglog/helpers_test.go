package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testDir  = "/data/7/0"
	testTime = 1_700_000_000_000 // Unix milliseconds
)

var errTest = errors.New("test fault")

// small makes many segments and many index entries out of few batches.
func small() Config {
	return Config{SegmentBytes: 2000, IndexEvery: 400, MaxOpenFiles: 2, Now: func() time.Time { return time.UnixMilli(testTime) }}
}

// filled is as small, with one segment and a fill.
func filled() Config {
	c := small()
	c.SegmentBytes, c.FillBytes = 1<<20, 4096
	return c
}

// maker makes batches that follow on.
type maker struct {
	next    Offset
	term    batchfmt.Term
	durable Offset
	made    int
	builder batchfmt.Builder
}

func newMaker() *maker { return &maker{term: 1} }

// batch makes one of count records with values of valueBytes bytes.
func (m *maker) batch(t testing.TB, count, valueBytes int) batchfmt.Batch {
	t.Helper()
	m.builder.Reset()
	for i := range count {
		value := bytes.Repeat([]byte{byte('a' + (m.made+i)%26)}, valueBytes)
		must(t, m.builder.Add(&batchfmt.Record{Timestamp: testTime, Value: value}))
	}
	raw, err := m.builder.Seal(nil, batchfmt.Seal{ProducerID: 9, BaseSequence: batchfmt.Seq(m.next)})
	must(t, err)
	return m.stamped(t, raw)
}

// control makes one that uses no offset.
func (m *maker) control(t testing.TB) batchfmt.Batch {
	t.Helper()
	raw := batchfmt.AppendControl(nil, 9, 1, batchfmt.Control{Kind: batchfmt.ControlFence, MinEpoch: 1, Last: -1})
	return m.stamped(t, raw)
}

func (m *maker) stamped(t testing.TB, raw []byte) batchfmt.Batch {
	t.Helper()
	b := parse(t, raw)
	m.made++
	b.Stamp(batchfmt.Stamp{BaseOffset: m.next, AppendTime: testTime + int64(m.made), Term: m.term, Durable: m.durable})
	m.next = b.NextOffset()
	return b
}

func parse(t testing.TB, raw []byte) batchfmt.Batch {
	t.Helper()
	b, err := batchfmt.Parse(raw)
	must(t, err)
	return b
}

// stamp returns a copy of b with some of its stamp changed.
func stamp(t testing.TB, b batchfmt.Batch, change func(s *batchfmt.Stamp)) batchfmt.Batch {
	t.Helper()
	c := parse(t, bytes.Clone(b.Bytes()))
	s := batchfmt.Stamp{BaseOffset: b.BaseOffset(), AppendTime: b.AppendTime(), Term: b.Term(), Durable: b.Durable()}
	change(&s)
	c.Stamp(s)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func wantCorrupt(t testing.TB, err error) *CorruptError {
	t.Helper()
	var c *CorruptError
	if !errors.As(err, &c) {
		t.Fatalf("error is %v, want a *CorruptError", err)
	}
	return c
}

func mustOpen(t testing.TB, fs vfs.FS, c Config) (*Log, Recovery) {
	t.Helper()
	l, info, err := Open(fs, testDir, c)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l, info
}

func mustSync(t testing.TB, l *Log) Offset {
	t.Helper()
	end, err := l.Sync()
	must(t, err)
	return end
}

// scanAll returns copies of all batches of a log.
func scanAll(t testing.TB, l *Log) []batchfmt.Batch {
	t.Helper()
	var all []batchfmt.Batch
	must(t, l.Scan(l.Start(), func(b batchfmt.Batch) error {
		all = append(all, parse(t, bytes.Clone(b.Bytes())))
		return nil
	}))
	return all
}

// readAll reads a log from its start as a consumer does.
func readAll(t testing.TB, l *Log, maxBytes int) []batchfmt.Batch {
	t.Helper()
	var all []batchfmt.Batch
	for from := l.Start(); from < l.End(); {
		raw, next, err := l.Read(nil, from, l.End(), maxBytes)
		must(t, err)
		if next <= from {
			t.Fatalf("a read from %d came to %d", from, next)
		}
		for len(raw) > 0 {
			b := parse(t, raw)
			all = append(all, b)
			raw = raw[b.Size():]
		}
		from = next
	}
	return all
}

func wantBatches(t testing.TB, got, want []batchfmt.Batch) {
	t.Helper()
	if err := sameBatches(got, want); err != nil {
		t.Fatal(err)
	}
}

func sameBatches(got, want []batchfmt.Batch) error {
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i].Bytes(), want[i].Bytes()) {
			return fmt.Errorf("batch %d, offset %d, is not the one of offset %d", i, got[i].BaseOffset(), want[i].BaseOffset())
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d batches are there, want %d", len(got), len(want))
	}
	return nil
}

func withoutControl(all []batchfmt.Batch) []batchfmt.Batch {
	return slices.DeleteFunc(slices.Clone(all), batchfmt.Batch.IsControl)
}

// content reads a file; edit changes one, durably.
func content(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(filepath.Join(testDir, name))
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	must(t, readFull(f, b, 0))
	return b
}

func edit(t testing.TB, fs vfs.FS, name string, change func(b []byte) []byte) {
	t.Helper()
	b := change(content(t, fs, name))
	f, err := fs.Open(filepath.Join(testDir, name))
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(0))
	_, err = f.WriteAt(b, 0)
	must(t, err)
	must(t, f.Sync())
}

// files returns the whole directory, to see whether anything was changed.
func files(t testing.TB, fs vfs.FS) map[string]string {
	t.Helper()
	names, err := fs.List(testDir)
	must(t, err)
	all := map[string]string{}
	for _, name := range names {
		all[name] = string(content(t, fs, name))
	}
	return all
}
