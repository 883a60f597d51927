package ceiling

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndToEnd sends a few hundred records in both ways and compares the server's file.
func TestEndToEnd(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := settings{Dir: t.TempDir(), StoreBytes: 1 << 20, Plain: plain}
		server := startChild(t, "ceiling", s)
		c := startClient(t, server, 5)
		full, err := c.saturate(times(6))
		if err != nil {
			t.Fatal(err)
		}
		few, err := c.paced(times(100), 2000)
		if err != nil {
			t.Fatal(err)
		}
		if full.records != 6*recordsMax || few.records != 100 {
			t.Errorf("acknowledged %d and %d records", full.records, few.records)
		}
		if n := few.record.TotalCount(); n != 100 {
			t.Errorf("%d record latencies, want 100", n)
		}
		if full.batch.TotalCount() != 6 || full.elapsed <= 0 || (cpuTime() > 0 && full.cpu <= 0) {
			t.Errorf("outcome %+v", full)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
		if err := server.stop(); err != nil {
			t.Error(err)
		}
		stored, err := os.ReadFile(filepath.Join(s.Dir, storeName))
		if err != nil {
			t.Fatal(err)
		}
		checkStore(t, stored, full.records+few.records)
	}
}

// checkStore wants records 0 to n-1 in frames that follow each other, and zeros behind.
func checkStore(t *testing.T, stored []byte, n int) {
	t.Helper()
	var records []byte
	for last := uint64(0); len(records) < n*recordBytes; last++ {
		h, err := parseHeader(stored[:headerBytes])
		if err != nil {
			t.Fatalf("after frame %d: %v", last, err)
		}
		end := headerBytes + h.records*recordBytes
		if err := h.check(last, stored[headerBytes:end]); err != nil {
			t.Fatal(err)
		}
		records = append(records, stored[headerBytes:end]...)
		stored = stored[end:]
	}
	var want []byte
	for i := range n {
		want = appendRecord(want, uint64(i))
	}
	if !bytes.Equal(records, want) {
		t.Errorf("%d bytes of records in the file differ from the %d sent", len(records), len(want))
	}
	if zeros := bytes.Count(stored, []byte{0}); zeros != len(stored) {
		t.Errorf("%d bytes behind the last frame", len(stored)-zeros)
	}
}

// loop is a stream in memory.
type loop struct {
	frames io.Reader
	acks   bytes.Buffer
}

func (l *loop) Read(b []byte) (int, error)  { return l.frames.Read(b) }
func (l *loop) Write(b []byte) (int, error) { return l.acks.Write(b) }

func TestServerStopsAtWhatWasNotSent(t *testing.T) {
	good := func(number uint64) []byte {
		f := newFrame()
		f.add(number)
		f.seal(number)
		return f.buf
	}
	spoiled := good(2)
	spoiled[headerBytes+100]++
	huge := header{records: recordsMax + 1, number: 2}
	empty := header{records: 0, number: 2}
	tests := []struct {
		name   string
		second []byte
		want   string
	}{
		{"nothing more", nil, ""},
		{"a second frame", good(2), ""},
		{"a spoiled record", spoiled, "hash differs"},
		{"a frame missing", good(3), "frame 3 after frame 1"},
		{"too many records", put(huge), "65 records"},
		{"no records", put(empty), "0 records"},
		{"cut off in the header", good(2)[:10], "unexpected EOF"},
		{"cut off in a record", good(2)[:100], "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file, err := zeroFilled(filepath.Join(t.TempDir(), "f"), 4096)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			stream := &loop{frames: bytes.NewReader(append(good(1), tt.second...))}
			err = storeFrames(stream, &ring{file: file, size: 4096}, func() {})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
			acks := stream.acks.Bytes()
			if tt.want == "" && binary.LittleEndian.Uint64(acks[len(acks)-8:]) != uint64(1+min(1, len(tt.second))) {
				t.Errorf("acks %x", acks)
			}
		})
	}
}

func put(h header) []byte {
	b := make([]byte, headerBytes)
	h.put(b)
	return b
}

func TestRingStartsOver(t *testing.T) {
	file, err := zeroFilled(filepath.Join(t.TempDir(), "f"), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := &ring{file: file, size: 10}
	for _, piece := range []string{"aaaa", "bbbb", "cccc"} {
		if err := r.write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file.Name())
	if err != nil || string(got) != "ccccbbbb\x00\x00" {
		t.Errorf("file holds %q, %v", got, err)
	}
}

func TestLatestKeepsTheLastNumber(t *testing.T) {
	l := newLatest()
	l.set(1)
	l.set(7)
	l.close()
	var got []uint64
	if err := l.each(func(n uint64) error { got = append(got, n); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != 7 {
		t.Errorf("taken %v, want 7 once", got)
	}
}

// TestPaceCountsFromTheIntendedStart holds up one start: those behind it keep the times at
// which they should have happened.
func TestPaceCountsFromTheIntendedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var intended, actual []time.Duration
		err := pace(times(5), 1000, func(at time.Time) error {
			intended = append(intended, at.Sub(began))
			actual = append(actual, time.Since(began))
			if len(actual) == 2 {
				time.Sleep(2500 * time.Microsecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{0, 1000, 3500, 3500, 4000} {
			want *= time.Microsecond
			if intended[i] != time.Duration(i)*time.Millisecond || actual[i] != want {
				t.Errorf("start %d intended at %v, done at %v, want %v", i, intended[i], actual[i], want)
			}
		}
	})
}

func TestPaceEndsWithAnError(t *testing.T) {
	failure := errors.New("no more")
	err := pace(times(5), 1_000_000, func(time.Time) error { return failure })
	if err != failure {
		t.Errorf("pace returned %v", err)
	}
}

func TestBacklogIsBounded(t *testing.T) {
	q := newBacklog()
	for range backlogMax {
		if err := q.put(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.put(time.Time{}); err != errTooSlow {
		t.Errorf("put into a full backlog: %v", err)
	}
	if got := q.take(nil, 10); len(got) != 10 {
		t.Errorf("took %d", len(got))
	}
	if err := q.put(time.Time{}); err != nil {
		t.Errorf("put after take: %v", err)
	}
}

func TestOutcomesAddUp(t *testing.T) {
	var l latencies
	l.record(0)
	l.record(time.Hour) // out of range, counted at its end
	a := outcome{records: 10, elapsed: time.Second, batch: l.snapshot()}
	l.reset()
	l.record(time.Millisecond)
	sum := outcome{}.plus(a).plus(outcome{records: 30, elapsed: time.Second, record: l.snapshot()})
	if sum.perSecond() != 20 || sum.batch.TotalCount() != 2 || sum.record.TotalCount() != 1 {
		t.Errorf("sum %+v", sum)
	}
	if got := sum.batch.Max(); got < time.Minute.Microseconds()*99/100 {
		t.Errorf("longest latency %d µs", got)
	}
}
