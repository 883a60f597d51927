package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A tokenOf is what a token says, for tests that have lost no answer.
type tokenOf struct {
	producer  batchfmt.ProducerID
	key       wire.Secret
	epoch     batchfmt.Epoch
	topicID   [16]byte
	partition int32
	first     batchfmt.Seq
	records   uint32
	digest    batchfmt.Digest
}

func (t tokenOf) String() string {
	b := binary.BigEndian.AppendUint64([]byte("qt1."), uint64(t.producer))
	b = append(b, t.key[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(t.epoch))
	b = append(b, t.topicID[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(t.partition))
	b = binary.BigEndian.AppendUint64(b, uint64(t.first))
	b = binary.BigEndian.AppendUint32(b, t.records)
	b = binary.BigEndian.AppendUint64(b, uint64(t.digest))
	b = append(b, 1, 't')
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return "qt1." + base64.RawURLEncoding.EncodeToString(b[4:])
}

// A rawProducer is one whose batches a test sends itself.
type rawProducer struct {
	*wire.ProducerInited
	topic wire.TopicInfo
	lane  *rawclient.Lane
}

func newRawProducer(t *testing.T, s *servertest.Server) *rawProducer {
	t.Helper()
	c := rawclient.Dial(t, s.URL())
	p := &rawProducer{topic: c.CreateTopic("t", 1), ProducerInited: c.NewProducer()}
	p.lane = c.Lane(p.ProducerInited, p.topic, 0, -1)
	return p
}

// seal seals a batch, and returns its token too.
func (p *rawProducer) seal(t *testing.T, first batchfmt.Seq, values ...string) ([]byte, tokenOf) {
	t.Helper()
	b := rawclient.Batch(t, p.ProducerInited, first, values...)
	batch, err := batchfmt.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, tokenOf{p.ProducerID, p.Key, p.Epoch, p.topic.ID, 0, first, uint32(len(values)), batch.Digest()}
}

// store stores a batch, and returns its token.
func (p *rawProducer) store(t *testing.T, first batchfmt.Seq, values ...string) tokenOf {
	t.Helper()
	b, token := p.seal(t, first, values...)
	p.lane.Produce(b)
	if r := p.lane.Result(); r.Code != wire.CodeOK {
		t.Fatalf("produce: %+v", r)
	}
	return token
}

func TestResolve(t *testing.T) {
	s := servertest.Start(t)
	p := newRawProducer(t, s)
	stored := p.store(t, 0, "a", "b")
	_, missing := p.seal(t, 2, "c")
	change := func(token tokenOf, edit func(*tokenOf)) tokenOf {
		edit(&token)
		return token
	}
	other := change(stored, func(x *tokenOf) { x.digest++ })
	for _, row := range []struct {
		name   string
		token  tokenOf
		flags  string
		code   int
		stdout string
		stderr string
	}{
		{"stored", stored, "", 0, "outcome\tstored\noffset\t0\n", ""},
		{"stored, settled", stored, "--settle --yes", 0, "outcome\tstored\noffset\t0\n", "warning: if the batch is not stored, this fences the lane of producer "},
		{"stored, in JSON", stored, "-o json", 0, `"first":0,"last":1,"outcome":"stored","offset":0,"verified":true,"unreadable":false,"reason":"`, ""},
		{"another batch is stored there", other, "", exitNotFound, "outcome\tnot stored\noffset\t", "it is not stored and never will be"},
		{"not stored yet", missing, "", exitPartial, "outcome\tnot stored yet\noffset\t-\n", "whether it is stored is not settled: not stored yet"},
		{"the topic is gone", change(missing, func(x *tokenOf) { x.topicID[0]++ }), "", exitPartial, "outcome\ttopic gone\n", "not settled: topic gone"},
		{"no such partition is no answer", change(missing, func(x *tokenOf) { x.partition = 7 }), "", exitOther, "", "UNKNOWN_PARTITION"},
		{"nobody can be asked", missing, "--settle", exitUsage, "", "--settle needs --yes where nobody can be asked"},
		{"not the producer's key", change(missing, func(x *tokenOf) { x.key[3]++ }), "--settle --yes", exitDenied, "", "PRODUCER_KEY_MISMATCH"},
		{"settled", missing, "--settle --yes", exitNotFound, "outcome\tnot stored\noffset\t-\n", "it is not stored and never will be"},
		{"not stored, once it is settled", missing, "", exitNotFound, "outcome\tnot stored\n", ""},
		{"yes to what", stored, "--yes", exitUsage, "", "--yes goes with --settle"},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := append([]string{"producer", "resolve", row.token.String()}, strings.Fields(row.flags)...)
			stdout, stderr := ask(t, s, row.code, args...)
			if !strings.Contains(stdout, row.stdout) || row.stdout == "" && stdout != "" || !strings.Contains(stderr, row.stderr) {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}

func TestResolveInFlight(t *testing.T) {
	s := servertest.Start(t)
	p := newRawProducer(t, s)
	p.store(t, 0, "a")
	b, token := p.seal(t, 1, "b")
	began, release := s.HoldSync()
	p.lane.Produce(b)
	<-began
	stdout, _ := ask(t, s, exitPartial, "producer", "resolve", token.String())
	release()
	if !strings.Contains(stdout, "outcome\tin flight\noffset\t-\n") {
		t.Errorf("stdout %q", stdout)
	}
}

func TestResolveUnreadable(t *testing.T) {
	s := servertest.Start(t)
	p := newRawProducer(t, s)
	token := p.store(t, 0, "a")
	p.store(t, 1, "b")
	s.RestartWith(func() {
		names, err := filepath.Glob(filepath.Join(s.Data(), "topics", "*", "0", "*.seg"))
		if err != nil || len(names) != 1 {
			t.Errorf("segments %v, %v", names, err)
			return
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			t.Error(err)
			return
		}
		b[32+batchfmt.HeaderSize2] ^= 1 // behind the header of the first batch
		if err := os.WriteFile(names[0], b, 0o600); err != nil {
			t.Error(err)
		}
	})
	stdout, stderr := ask(t, s, exitVerification, "producer", "resolve", token.String())
	if !strings.Contains(stdout, "outcome\tstored, unreadable\n") || !strings.Contains(stderr, "cannot be read any more") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func TestExitCodeOfAResolution(t *testing.T) {
	for _, row := range []struct {
		r    sdk.Resolution
		want int
	}{
		{sdk.Resolution{Outcome: sdk.ResolveStored, Verified: true}, 0},
		{sdk.Resolution{Outcome: sdk.ResolveStored}, 0},
		{sdk.Resolution{Outcome: sdk.ResolveStored, Unreadable: true}, exitVerification},
		{sdk.Resolution{Outcome: sdk.ResolveInFlight}, exitPartial},
		{sdk.Resolution{Outcome: sdk.ResolveNotStoredYet}, exitPartial},
		{sdk.Resolution{Outcome: sdk.ResolveNotStored}, exitNotFound},
		{sdk.Resolution{Outcome: sdk.ResolveTopicGone}, exitPartial},
		{sdk.Resolution{Outcome: sdk.ResolveUnknowable}, exitPartial},
		{sdk.Resolution{}, exitPartial},
		{sdk.Resolution{Outcome: 200}, exitPartial},
	} {
		got := 0
		if err := resolved(row.r); err != nil {
			got = exitCode(err)
		}
		if got != row.want {
			t.Errorf("%+v: exit code %d, want %d", row.r, got, row.want)
		}
	}
}

func TestSettlingIsConfirmed(t *testing.T) {
	for _, row := range []struct {
		name     string
		yes, tty bool
		answer   string
		ok       bool
		asked    bool
	}{
		{"by a flag", true, false, "", true, false},
		{"by a flag, on a terminal", true, true, "no\n", true, false},
		{"nobody is there", false, false, "yes\n", false, false},
		{"a person", false, true, "yes\n", true, true},
		{"a person who does not", false, true, "y\n", false, true},
		{"a person who is gone", false, true, "", false, true},
	} {
		var note strings.Builder
		o := resolveOrder{settle: true, yes: row.yes}
		err := o.confirmed(&note, bufio.NewReader(strings.NewReader(row.answer)), row.tty)
		if (err == nil) != row.ok || (note.Len() > 0) != row.asked {
			t.Errorf("%s: %v, %q", row.name, err, note.String())
		}
	}
}

// makeToken sets a variable to the token of the batch of one record that producer 1 has, or
// would have, at a sequence in partition 0 of topic t: name, file with the URL, sequence.
func makeToken(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := sdk.Dial(ctx, strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	defer c.Close(ctx)
	topic, err := c.DescribeTopic(ctx, "t")
	ts.Check(err)
	lane, err := c.DescribeProducer(ctx, "t", 0, 1)
	ts.Check(err)
	token := tokenOf{producer: 1, topicID: topic.ID, first: batchfmt.Seq(toInt(ts, args[2])), records: 1}
	for _, b := range lane.Window {
		if b.First == int64(token.first) {
			token.digest = batchfmt.Digest(b.Digest)
		}
	}
	ts.Setenv(args[0], token.String())
}

// startProducer starts a producer that has sent one record to topic t, of the server whose
// URL is in a file, and lives until the script ends.
func startProducer(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := sdk.Dial(ctx, strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(ctx)
	})
	_, err = c.CreateTopic(ctx, "t", sdk.TopicOptions{})
	ts.Check(err)
	p, err := c.Producer("t").Idempotent().Build(ctx)
	ts.Check(err)
	_, err = p.Send(ctx, sdk.Record{Value: []byte("hello")})
	ts.Check(err)
}

// saveToken writes a token to a file.
func saveToken(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(args[1]+"\n"), 0o600))
}
