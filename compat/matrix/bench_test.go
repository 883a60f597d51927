package matrix

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
)

const (
	benchBatches = 512
	benchRecords = 63 // of 1 KiB, in a batch of 64 KiB
	benchBytes   = benchBatches * benchRecords << 10
)

// BenchmarkConvertedFetch reads a topic of producer-aware batches of 64 KiB in turn with a
// reader that knows both versions and with one for which all of it is converted. The readers
// do nothing with what comes. It reports the rate of either, and the one in percent of the
// other.
func BenchmarkConvertedFetch(b *testing.B) {
	url := servertest.Start(b, servertest.InMemory()).URL()
	topic := fillForBench(b, url)
	readers := []*benchReader{
		{client: dial(b, "next", url, peer{hello: "client/hello-reads-1-2"}), version: 2},
		{client: dial(b, "next", url, peer{hello: "client/hello-reads-1"}), version: 1},
	}
	for i := 0; b.Loop(); i++ {
		readers[i%2].fetch(topic)
		readers[1-i%2].fetch(topic)
	}
	b.SetBytes(2 * benchBytes)
	plain, conv := readers[0].rate(), readers[1].rate()
	b.ReportMetric(plain/1e6, "unconverted-MB/s")
	b.ReportMetric(conv/1e6, "converted-MB/s")
	b.ReportMetric(100*conv/plain, "%-of-unconverted")
}

func fillForBench(b *testing.B, url string) [16]byte {
	client, err := dialSDK(b, url)
	if err != nil {
		b.Fatal(err)
	}
	topic, err := client.CreateTopic(within(b), "bench", sdk.TopicOptions{})
	if err != nil {
		b.Fatal(err)
	}
	p, err := client.Producer("bench").Idempotent().BatchBytes(64 << 10).Build(within(b))
	if err != nil {
		b.Fatal(err)
	}
	records := make([]sdk.Record, benchRecords)
	for i := range records {
		records[i].Value = make([]byte, 1<<10)
	}
	for range benchBatches {
		if _, err := p.SendBatch(within(b), records); err != nil {
			b.Fatal(err)
		}
	}
	return topic.ID
}

type benchReader struct {
	*client
	version byte            // of the batches that it must get
	took    []time.Duration // one a fetch
	buf     []byte
}

// fetch reads the topic once.
func (r *benchReader) fetch(topic [16]byte) {
	r.fill["topic"] = topic[:]
	r.fill.set64("from", 0)
	subscribe := r.release.frame(r.t, "client/subscribe", r.fill)
	binary.LittleEndian.PutUint32(subscribe[len(subscribe)-4:], 256<<20) // credit for all of it
	begun := time.Now()
	s := r.open()
	defer s.Close()
	if _, err := s.Write(subscribe); err != nil {
		r.t.Fatal(err)
	}
	batches := 0
	for in := bufio.NewReaderSize(s, 64<<10); ; {
		kind, payload := r.next(in)
		switch kind {
		case kindEndReached:
			if r.took = append(r.took, time.Since(begun)); batches < benchBatches {
				r.t.Fatalf("%d batches came", batches)
			}
			return
		case kindBatches:
			for rest := payload[12:]; len(rest) > 0; rest = rest[sizeOf(rest):] {
				if batches++; rest[offVersion] != r.version {
					r.t.Fatalf("a batch of version %d came", rest[offVersion])
				}
			}
		}
	}
}

// next reads a frame into the same memory each time.
func (r *benchReader) next(in io.Reader) (kind uint16, payload []byte) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		r.t.Fatal(err)
	}
	size := int(binary.LittleEndian.Uint32(head[:]))
	if cap(r.buf) < size {
		r.buf = make([]byte, size)
	}
	if _, err := io.ReadFull(in, r.buf[:size]); err != nil {
		r.t.Fatal(err)
	}
	return binary.LittleEndian.Uint16(head[4:]), r.buf[:size]
}

// rate is that of the fetch in the middle, in bytes a second, so that a burst of other work on
// the machine does not decide.
func (r *benchReader) rate() float64 {
	slices.Sort(r.took)
	return benchBytes / r.took[len(r.took)/2].Seconds()
}
