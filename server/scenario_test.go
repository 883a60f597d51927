package server_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/wire"
)

// A scenario is one thing that happens to producers in the field, with the one answer
// that is right. The numbers are those by which people speak of them; they have gaps.
type scenario struct {
	row     int
	name    string
	outcome string   // for SCENARIOS.md
	bugs    []string // planted bugs under each of which the story must fail
	story   func(t *testing.T)
}

func (s scenario) String() string { return fmt.Sprintf("%02d-%s", s.row, s.name) }

// scenarios are all of them by number. Their stories stand in the files of their subject.
func scenarios() []scenario {
	all := slices.Concat(retryScenarios, conflictScenarios, rightScenarios, crashScenarios, diskScenarios,
		limitScenarios, resolveScenarios, writtenScenarios)
	slices.SortFunc(all, func(a, b scenario) int { return a.row - b.row })
	return all
}

func TestScenario(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			s.story(t)
		})
	}
}

var rewrite = flag.Bool("rewrite", false, "write SCENARIOS.md anew")

const scenariosFile = "SCENARIOS.md"

const scenariosHead = `# Scenarios

What happens to producers in the field, and the one right answer. Each row is a test with a real server, real QUIC and
real files (or a disk in memory where the power goes off): ` + "`go test ./server -run TestScenario/NN`" + `. Under each of the
planted bugs that it names the test fails; ` + "`TestPlantedBugsBreakScenarios`" + ` shows that. This file is written by
` + "`go test ./server -run TestScenariosFile -rewrite`" + `.

| # | test | outcome | fails under |
|---|---|---|---|
`

func TestScenariosFile(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(scenariosHead)
	last := 0
	for _, s := range scenarios() {
		if s.row == last {
			t.Errorf("there are two rows %d", s.row)
		}
		if len(s.bugs) == 0 || s.outcome == "" {
			t.Errorf("%v names no bug, or no outcome", s)
		}
		last = s.row
		fmt.Fprintf(&b, "| %d | `%v` | %s | %s |\n", s.row, s, s.outcome, strings.Join(s.bugs, ", "))
	}
	if *rewrite {
		if err := os.WriteFile(scenariosFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(scenariosFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Error("SCENARIOS.md is not what the tests say: run this test with -rewrite")
	}
}

// two are the values of a batch of two records.
func two(base batchfmt.Seq) []string {
	return []string{fmt.Sprintf("v%d", base), fmt.Sprintf("v%d", base+1)}
}

// stored sends batches of two records each, one after the other from sequence base on, and
// waits for each. The lane must be all that there is in the partition.
func (f *fixture) stored(t *testing.T, base batchfmt.Seq, n int) (batches [][]byte) {
	t.Helper()
	for i := range n {
		seq := base + batchfmt.Seq(2*i)
		b := f.batch(t, seq, two(seq)...)
		batches = append(batches, b)
		f.lane.Produce(b)
		wantStored(t, f.lane.Result(), batchfmt.Offset(seq), false)
	}
	return batches
}

// wantRetries sends batches again that stand at the offsets 0, 2, 4 and so on.
func (f *fixture) wantRetries(t *testing.T, batches [][]byte) {
	t.Helper()
	for i, b := range batches {
		f.lane.Produce(b)
		r := f.lane.Result()
		wantStored(t, r, batchfmt.Offset(2*i), true)
		if !r.Verified {
			t.Errorf("the duplicate of batch %d was not compared", i)
		}
	}
}

// wantLog checks that the partition holds the records of n batches of two, and no more.
func (f *fixture) wantLog(t *testing.T, n int) {
	t.Helper()
	var want []string
	for i := range n {
		want = append(want, two(batchfmt.Seq(2*i))...)
	}
	wantValues(t, f.c, f.topic, 0, want...)
}

// arrived waits until all batches that were sent on the lane are in the partition's queue:
// the stream refuses a lane that it does not have when it has read what stands before it.
// Answers of the partition that came earlier are returned.
func (f *fixture) arrived(t *testing.T) (before []wire.ProduceResult) {
	t.Helper()
	f.lane.Send(&wire.Produce{Lane: 99, Durability: wire.Synced, Batch: f.batch(t, 0, "probe")})
	for {
		r := f.lane.Result()
		if r.Lane == 99 {
			wantCode(t, r, wire.CodeInvalidLane)
			return before
		}
		before = append(before, r)
	}
}

// appended waits until what was sent on the lane is appended or refused, without waiting
// for a sync: gap is a sequence that cannot be next. Nothing may be answered before.
func (f *fixture) appended(t *testing.T, gap batchfmt.Seq) {
	t.Helper()
	f.lane.Produce(f.batch(t, gap, "gap"))
	r := f.lane.Result()
	wantCode(t, r, wire.CodeOutOfOrder)
	if r.BaseSequence != gap {
		t.Fatalf("sequence %d was answered before its sync: %v", r.BaseSequence, r.Code)
	}
}

// fiveWithoutAcks stores five batches whose acknowledgements are lost with the connection.
func (f *fixture) fiveWithoutAcks(t *testing.T) (batches [][]byte) {
	t.Helper()
	_, release := f.HoldSync()
	for i := range 5 {
		b := f.batch(t, batchfmt.Seq(2*i), two(batchfmt.Seq(2*i))...)
		batches = append(batches, b)
		f.lane.Produce(b)
	}
	if before := f.arrived(t); len(before) > 0 {
		t.Fatalf("answered before the sync: %+v", before[0])
	}
	f.DropAck(1)
	release()
	<-f.c.Conn.Context().Done()
	return batches
}

// restart stops the server in good order, lets between change its files, and starts it
// again; the client has left before, so that nobody waits for it.
func (f *fixture) restart(t *testing.T, sent batchfmt.Seq, between func()) {
	t.Helper()
	f.c.Conn.CloseWithError(0, "")
	f.RestartWith(between)
	f.reconnect(t, sent)
}

// openLane asks for the fixture's lane with another request than usual.
func (f *fixture) openLane(edit func(*wire.OpenLane)) wire.Message {
	m := &wire.OpenLane{Lane: 1, ProducerID: f.p.ProducerID, Key: f.p.Key, Epoch: f.p.Epoch, TopicID: f.topic.ID}
	edit(m)
	l, reply := f.c.OpenLane(m)
	f.lane = l
	return reply
}

func seqPtr(s batchfmt.Seq) *batchfmt.Seq { return &s }

// reseal gives changed bytes of a batch a checksum that is right.
func reseal(b []byte) []byte {
	binary.LittleEndian.PutUint64(b[40:], xxhash.Sum64(b[48:]))
	return b
}
