package golden

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/servertest"
)

// A dataMeaning is what a data directory holds.
type dataMeaning struct {
	Records  map[string][]dataRecord `json:"records"`  // by topic/partition
	Position Bytes                   `json:"position"` // of the producer with the name billing, in audit/0
}

// A dataRecord is a record with its sender; those of plain producers have none.
type dataRecord struct {
	Record
	Producer uint64 `json:"producer,omitempty"`
	Epoch    uint32 `json:"epoch,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`
}

// TestDataDirectory opens what servers of every release have left with the server of today.
func TestDataDirectory(t *testing.T) {
	if *rewrite {
		archive, said := record(t)
		text, err := json.MarshalIndent(said, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		write(t, dataPath(Next, "data.tar.gz"), archive)
		write(t, dataPath(Next, "data.json"), append(text, '\n'))
	}
	quoin := buildQuoin(t)
	for _, release := range releases(t) {
		t.Run(release, func(t *testing.T) { testDataDirectory(t, quoin, release) })
	}
}

func dataPath(release, name string) string { return filepath.Join(compat, Testdata, release, name) }

func testDataDirectory(t *testing.T, quoin, release string) {
	if n := len(read(t, dataPath(release, "data.tar.gz"))); n > maxArchive {
		t.Errorf("the archive has %d bytes", n)
	}
	dir := unpack(t, release)
	// What a start mends may be told of an older release, whose indexes have another form; what
	// next holds is as the code of today writes it, or it is to be recorded anew.
	if found, code := verify(t, quoin, dir); code != 0 || release == Next && found != "" {
		t.Fatalf("quoin log verify ends with %d:\n%s", code, found)
	}
	s := servertest.Start(t, servertest.Configure(func(c *server.Config) { c.Data = dir }))
	client := dial(t, s.URL())
	got := dataMeaning{Records: readTopics(t, client), Position: storedPosition(t, client)}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := Agree(read(t, dataPath(release, "data.json")), text); err != nil {
		t.Error(err)
	}
	wantMoreRecords(t, client, got)
	s.RestartWith(func() {
		if found, code := verify(t, quoin, dir); code != 0 {
			t.Errorf("behind a run of today's server quoin log verify ends with %d:\n%s", code, found)
		}
	})
}

// wantMoreRecords goes on where the old server ended: the next record has the next offset.
func wantMoreRecords(t *testing.T, client *sdk.Client, got dataMeaning) {
	t.Helper()
	p, err := client.Producer("orders").Idempotent().Partition(1).Build(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(within(t))
	ack, err := p.Send(within(t), sdk.Record{Value: []byte("one more")})
	if want := int64(len(got.Records["orders/1"])); err != nil || ack.Offset != want {
		t.Errorf("the next record is at %d, want %d: %v", ack.Offset, want, err)
	}
}

// readTopics reads all that is stored.
func readTopics(t testing.TB, client *sdk.Client) map[string][]dataRecord {
	t.Helper()
	topics, err := client.ListTopics(within(t))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]dataRecord{}
	for _, topic := range topics {
		for n := range topic.Partitions {
			records, err := readPartition(t, client, topic.Name, n)
			if err != nil {
				t.Fatal(err)
			}
			all[fmt.Sprintf("%s/%d", topic.Name, n)] = records
		}
	}
	return all
}

func readPartition(t testing.TB, client *sdk.Client, topic string, n int) (all []dataRecord, err error) {
	t.Helper()
	c, err := client.Consumer(topic).Partitions(n).StopAtEnd().Build(within(t))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for r, err := range c.Records(within(t)) {
		if err != nil {
			return all, err
		}
		rec := dataRecord{
			Record:   Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)},
			Producer: r.Producer.ID, Epoch: r.Producer.Epoch, Sequence: r.Producer.Sequence,
		}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, Header{Bytes(h.Key), slices.Clone(h.Value)})
		}
		all = append(all, rec)
	}
	return all, nil
}

// storedPosition is where the producer with a name goes on.
func storedPosition(t testing.TB, client *sdk.Client) Bytes {
	t.Helper()
	p, err := billing(client, func(*sdk.Record) []byte { return nil }).Build(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(within(t))
	return slices.Clone(p.Position())
}

// TestDataDirectoryHoldsEverything looks into the segments: without all kinds of batches the
// directory would prove little.
func TestDataDirectoryHoldsEverything(t *testing.T) {
	for _, release := range releases(t) {
		counts, versions := map[string]int{}, map[string]bool{}
		for _, name := range segments(t, unpack(t, release)) {
			counts["segments"]++
			before := ""
			for _, b := range batchesOf(t, read(t, name)) {
				kind := fmt.Sprintf("version %d", b.Version())
				if c, err := b.Control(); err == nil {
					kind = c.Kind.String()
				}
				counts[kind]++
				counts[b.Codec().String()]++
				versions[before+" then "+kind] = true
				before = kind
			}
		}
		t.Logf("%s: %v, %d ways to follow each other", release, counts, len(versions))
		for _, what := range []string{"segments", "version 1", "version 2", "fence", "close", "none", "snappy", "zstd"} {
			if counts[what] < 4 {
				t.Errorf("%s: the logs hold %d of %s", release, counts[what], what)
			}
		}
		for _, what := range []string{"version 1 then version 2", "close then version 1", "close then version 2", "fence then version 2"} {
			if !versions[what] {
				t.Errorf("%s: nowhere stands %s", release, what)
			}
		}
	}
}

// segmentHeader is what stands in front of the batches of a segment, in bytes.
const segmentHeader = 32

// batchesOf are the batches of a segment, up to the zeros behind them.
func batchesOf(t testing.TB, segment []byte) (all []batchfmt.Batch) {
	t.Helper()
	for rest := segment[segmentHeader:]; len(rest) > 0 && rest[0] != 0; {
		b, err := batchfmt.Parse(rest)
		if err == nil {
			err = errors.Join(b.Verify(), b.VerifyFront())
		}
		if err != nil {
			t.Fatal(err)
		}
		all, rest = append(all, b), rest[b.Size():]
	}
	return all
}

// TestDamagedDataIsReported is the control: a bit that is turned in a log, wherever it is, is
// found by quoin log verify, and no reader is given anything that was not stored.
func TestDamagedDataIsReported(t *testing.T) {
	quoin, dir := buildQuoin(t), unpack(t, Next)
	for i, name := range segments(t, dir) {
		b := read(t, name)
		batches := batchesOf(t, b)
		if len(batches) == 0 {
			continue
		}
		first := batches[0]
		at := segmentHeader + i*977%first.Size()
		b[at] ^= 1 << (i % 8)
		write(t, name, b)
		if found, code := verify(t, quoin, dir); code != 7 || !strings.Contains(found, filepath.Base(name)) {
			t.Errorf("byte %d of %s: quoin log verify ends with %d:\n%s", at, filepath.Base(name), code, found)
		}
		b[at] ^= 1 << (i % 8)
		write(t, name, b)
	}
}

// TestDamagedDataIsNotServed turns a bit in the records of an uncompressed batch of each
// partition. Whoever reads gets what was stored in front of it, and then an error.
func TestDamagedDataIsNotServed(t *testing.T) {
	dir := unpack(t, Next)
	damaged := map[string]batchfmt.Offset{} // by segment, where a batch was hit
	for _, name := range segments(t, dir) {
		b := read(t, name)
		batches := batchesOf(t, b)
		if len(batches) < 2 || binary.LittleEndian.Uint64(b[8:]) != 0 {
			continue // not the first segment of its partition
		}
		hit := batches[1]
		b[segmentHeader+batches[0].Size()+hit.Size()-1] ^= 0x20
		write(t, name, b)
		damaged[name] = hit.BaseOffset()
	}
	if len(damaged) != 3 {
		t.Fatalf("%d partitions were damaged", len(damaged))
	}
	s := servertest.Start(t, servertest.Configure(func(c *server.Config) { c.Data = dir }))
	client := dial(t, s.URL())
	var said struct{ Records map[string][]json.RawMessage }
	if err := json.Unmarshal(read(t, dataPath(Next, "data.json")), &said); err != nil {
		t.Fatal(err)
	}
	for place, want := range said.Records {
		topic, n, _ := strings.Cut(place, "/")
		got, err := readPartition(t, client, topic, int(n[0]-'0'))
		if err == nil || len(got) >= len(want) {
			t.Errorf("%s: %d records of %d could be read: %v", place, len(got), len(want), err)
			continue
		}
		for i := range got {
			text, err := json.Marshal(got[i])
			if err == nil {
				err = Agree(want[i], text)
			}
			if err != nil {
				t.Errorf("%s: in front of the damage stands what was never stored: %v", place, err)
			}
		}
	}
}

// quoinBinary builds the program, once.
var quoinBinary = sync.OnceValues(func() (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "quoin.exe") // a name that every system runs
	if out, err := exec.Command("go", "build", "-o", name, "../../server/cmd/quoin").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return name, nil
})

func buildQuoin(t testing.TB) string {
	t.Helper()
	name, err := quoinBinary()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// verify runs quoin log verify, and gives what it found.
func verify(t testing.TB, quoin, dir string) (found string, code int) {
	t.Helper()
	cmd := exec.CommandContext(within(t), quoin, "log", "verify", dir)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
