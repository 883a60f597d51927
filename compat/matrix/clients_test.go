package matrix

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/compat/reader1"
	"github.com/quoin-io/quoin/server/servertest"
)

// Cells of a row, by column.
type cells map[string]string

const (
	served    = "served"
	converted = "converted"
	none      = "-" // what the peer has no way to ask for
)

// The columns of both tables, in their order.
var (
	clientColumns = []string{"hello", "topics", "write 1", "write 2", "read 1", "read 2", "strict 2"}
	serverColumns = []string{"hello", "topics", "write 1", "write 2", "read 1", "read 2", "read 3"}
)

// nothing is a row of one who gets no further than to the given hello.
func nothing(columns []string, hello string) cells {
	row := cells{}
	for _, column := range columns {
		row[column] = none
	}
	row["hello"] = hello
	return row
}

var advicePattern = regexp.MustCompile(`upgrade the (client|server|reader)`)

// advice is the side that a refusal says is to be upgraded.
func advice(text string) string {
	if side := advicePattern.FindString(text); side != "" {
		return side
	}
	return "without advice: " + text
}

// clients are the rows of the first table, by name; all meet a server of today.
var clients = map[string]func(t testing.TB, r release, url string) cells{
	"reads 1":          playClient(peer{hello: "client/hello-reads-1"}),
	"reads 1 and 2":    playClient(peer{hello: "client/hello-reads-1-2"}),
	"a later release":  playClient(peer{hello: "newer-client/hello", alpn: []string{alpn2, alpn1}, newer: true}),
	"reads 9 only":     playClient(peer{hello: "newer-client/hello-reads-9"}),
	"protocol 9 only":  playClient(peer{hello: "newer-client/hello-protocol-9"}),
	"protocol 0 only":  playClient(peer{hello: "older-client/hello-protocol-0"}),
	"quoin/2 only":     playClient(peer{hello: "client/hello-reads-1-2", alpn: []string{alpn2}}),
	"the SDK of today": playSDK,
}

// playClient fills the row of a client that is played with frozen bytes.
func playClient(p peer) func(testing.TB, release, string) cells {
	return func(t testing.TB, r release, url string) cells {
		c, err := connect(t, r, url, p)
		if err != nil {
			if !strings.Contains(err.Error(), "no application protocol") {
				t.Fatal(err)
			}
			return nothing(clientColumns, "no protocol")
		}
		defer c.close()
		if got := c.conn.ConnectionState().TLS.NegotiatedProtocol; got != alpn1 {
			t.Fatalf("TLS chose %q", got)
		}
		f := c.greet(p.hello)
		if f.kind == kindRefused {
			return nothing(clientColumns, refusedHello(t, f))
		}
		c.welcome(f)
		row := cells{"hello": served, "topics": served, "write 1": served, "write 2": served}
		lenient, strict := c.topic("client/create-topic", "matrix", false), c.topic("client/create-strict-topic", "strict", true)
		c.describe(lenient)
		c.fillTopic(lenient)
		c.fillTopic(strict)
		asStored := stored(t, r, url, lenient)
		row["read 1"] = c.readCell(lenient, 0, asStored)
		row["read 2"] = c.readCell(lenient, 3, asStored)
		row["strict 2"] = c.readCell(strict, 3, stored(t, r, url, strict))
		if row["strict 2"] != served && row["read 1"] == served {
			c.readsAround(strict)
		}
		c.alive()
		return row
	}
}

// refusedHello is the cell of a refusal, which also says what the server speaks.
func refusedHello(t testing.TB, f frame) string {
	r, err := f.refused()
	if err != nil || r.code != codeUnsupportedVersion || r.minProtocol != 1 || r.maxProtocol != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	return advice(r.detail)
}

func (c *client) topic(request, name string, strict bool) [16]byte {
	c.t.Helper()
	topic, err := c.request(request).created()
	if err != nil || topic.name != name || topic.strict != strict || len(topic.partitions) != 1 {
		c.t.Fatalf("%+v, %v", topic, err)
	}
	return topic.id
}

func (c *client) describe(id [16]byte) {
	c.t.Helper()
	d, err := c.request("client/describe-topics").described()
	all := d.topics
	if err != nil || len(all) != 1 || all[0].id != id || all[0].name != "matrix" || len(all[0].partitions) != 1 {
		c.t.Fatalf("%+v, %v", all, err)
	}
	if p := all[0].partitions[0]; p.start != 0 || p.end != 0 || p.bytes < 0 || p.code != 0 {
		c.t.Errorf("%+v", p)
	}
}

// fillTopic writes a plain batch, two of a producer and a plain one; see recordsOf.
func (c *client) fillTopic(topic [16]byte) {
	c.t.Helper()
	c.fill["topic"] = topic[:]
	plain := c.openLane("client/open-plain-lane")
	c.wantStored(c.produce(plain, "client/produce-1"), result{lane: 7, number: 41, offset: 0})
	p, err := c.request("client/init-producer").inited()
	if err != nil || p.id == 0 {
		c.t.Fatalf("%+v, %v", p, err)
	}
	c.fill["producer"], c.fill["key"] = binary.LittleEndian.AppendUint64(nil, p.id), p.key[:]
	c.fill["epoch"] = le32(p.epoch)
	lane := c.openLane("client/open-lane")
	c.wantStored(c.produce(lane, "client/produce-2"), result{lane: 8, number: 0, offset: 3})
	c.wantStored(c.produce(lane, "client/produce-2"), result{lane: 8, number: 0, offset: 3, duplicate: true})
	c.wantStored(c.produce(lane, "client/produce-2-gzip"), result{lane: 8, number: 2, offset: 5})
	c.wantStored(c.produce(plain, "client/produce-1"), result{lane: 7, number: 41, offset: 8})
}

func (c *client) wantStored(got, want result) {
	c.t.Helper()
	if !got.duplicate && got.appendTime <= 0 {
		c.t.Errorf("append time %d", got.appendTime)
	}
	got.appendTime, got.persisted, got.timings = 0, 0, [4]uint32{}
	if want.expected = -1; got != want {
		c.t.Fatalf("the result is %+v, want %+v", got, want)
	}
}

// Versions of the batches that fillTopic leaves, and where each begins.
var (
	versionsStored = []byte{1, 2, 2, 1}
	offsetsStored  = []int64{0, 3, 5, 8}
)

const endStored = 11

// recordsFrom are the records of fillTopic from an offset on.
func recordsFrom(offset int64) []reader1.Record {
	const base = 1_750_000_000_000
	plain := func(at int64) []reader1.Record {
		return []reader1.Record{
			{Offset: at, Timestamp: base, Key: []byte("k0"), Value: []byte("plain 0")},
			{Offset: at + 1, Timestamp: base + 250, Value: []byte{}, Headers: []reader1.Header{{Key: []byte("trace"), Value: []byte("\xde\xad\xbe\xef")}}},
			{Offset: at + 2, Timestamp: base - 40, Key: []byte{}, Headers: []reader1.Header{{Key: []byte("trace")}, {Key: []byte("trace"), Value: []byte{}}}},
		}
	}
	all := append(plain(0),
		reader1.Record{Offset: 3, Timestamp: base, Key: []byte("k3"), Value: []byte("aware 3")},
		reader1.Record{Offset: 4, Timestamp: base + 1, Value: []byte("aware 4")})
	for i := range 3 {
		value := strings.Repeat(fmt.Sprintf("packed %d, ", 5+i), 4)
		all = append(all, reader1.Record{Offset: int64(5 + i), Timestamp: base + int64(i), Key: []byte("zip"), Value: []byte(strings.TrimSuffix(value, ", "))})
	}
	return append(all, plain(8)...)[offset:]
}

// stored are the batches of a topic as they lie there, by the eyes of one who reads all.
func stored(t testing.TB, r release, url string, topic [16]byte) [][]byte {
	t.Helper()
	c := dial(t, r, url, peer{hello: "client/hello-reads-1-2"})
	defer c.close()
	batches, why := c.fetch(topic, 0)
	if why != nil {
		t.Fatalf("%+v", *why)
	}
	var versions []byte
	for _, b := range batches {
		versions = append(versions, b[offVersion])
	}
	if !bytes.Equal(versions, versionsStored) {
		t.Fatalf("the topic holds versions %v", versions)
	}
	return batches
}

// readCell reads from where a batch begins, and says what became of this batch. Whatever
// comes is held to what is stored, byte for byte, and record for record.
func (c *client) readCell(topic [16]byte, from int64, stored [][]byte) string {
	c.t.Helper()
	batches, why := c.fetch(topic, from)
	if len(batches) == 0 {
		c.wantRefusal(why, topic, from)
		return advice(why.detail)
	}
	first := slices.Index(offsetsStored, from)
	cell, err := deliveryOf(batches, stored[first:first+len(batches)])
	if err == nil {
		err = checkRecords(batches, from)
	}
	if err != nil {
		c.t.Error(err)
	}
	return cell
}

func (c *client) wantRefusal(why *refusal, topic [16]byte, at int64) {
	c.t.Helper()
	if why == nil || why.code != codeBatchVersionUnsupported || why.topicID != topic || why.topic == "" || why.partition != 0 || why.expected <= at {
		c.t.Fatalf("%+v", why)
	}
	i := slices.Index(offsetsStored, at)
	if why.offset != at || why.version != versionsStored[i] {
		c.t.Errorf("it is about version %d at offset %d, not %d at %d", why.version, why.offset, versionsStored[i], at)
	}
	if words := fmt.Sprintf("at offset %d has version %d,", at, versionsStored[i]); !strings.Contains(why.detail, words) {
		c.t.Errorf("%q is not in %q", words, why.detail)
	}
}

// deliveryOf says how the first batch came, and holds all of them to what is stored: as it is,
// or converted.
func deliveryOf(batches, stored [][]byte) (string, error) {
	cell := ""
	for i, b := range batches {
		how := served
		switch {
		case bytes.Equal(b, stored[i]):
		case b[offVersion] == 1 && bytes.Equal(b, toVersion1(stored[i])):
			how = converted
		default:
			return "", fmt.Errorf("the batch at offset %d is neither what is stored nor converted from it:\n%x\n%x", baseOffset(stored[i]), b, stored[i])
		}
		if i == 0 {
			cell = how
		}
	}
	return cell, nil
}

// checkRecords reads batches with the frozen reader.
func checkRecords(batches [][]byte, from int64) error {
	var all []reader1.Record
	for _, b := range batches {
		records, _, err := reader1.Decode(toVersion1(b))
		if err != nil {
			return err
		}
		all = append(all, records...)
	}
	want := recordsFrom(from)
	if len(all) > len(want) || !reflect.DeepEqual(all, want[:len(all)]) {
		return fmt.Errorf("got  %+v\nwant %+v", all, want)
	}
	return nil
}

// readsAround reads a strict topic with a reader of version 1: it has all that stands in front
// of what it is refused, is told where to go on, and has the rest.
func (c *client) readsAround(strict [16]byte) {
	c.t.Helper()
	front, why := c.fetch(strict, 0)
	if len(front) != 1 || baseOffset(front[0]) != 0 {
		c.t.Errorf("%d batches came in front of the refusal", len(front))
	}
	c.wantRefusal(why, strict, 3)
	if _, second := c.fetch(strict, 5); why.expected != 8 || second == nil || second.expected != 8 {
		c.t.Fatalf("it may read on behind %+v and %+v", why, second)
	}
	rest, why := c.fetch(strict, why.expected)
	if why != nil || len(rest) != 1 {
		c.t.Fatalf("%d batches behind the refusal, %+v", len(rest), why)
	}
	if err := checkRecords(rest, 8); err != nil {
		c.t.Error(err)
	}
}

// TestReader1AloneIsEnough: what a reader of version 1 is sent needs no conversion of its own.
func TestReader1AloneIsEnough(t *testing.T) {
	for _, r := range releases(t) {
		s := servertest.Start(t, servertest.InMemory())
		c := dial(t, r, s.URL(), peer{hello: "client/hello-reads-1"})
		topic := c.topic("client/create-topic", "matrix", false)
		c.fillTopic(topic)
		batches, why := c.fetch(topic, 0)
		var all []reader1.Record
		for rec, err := range reader1.All(bytes.Join(batches, nil)) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rec)
		}
		if want := recordsFrom(0); why != nil || !reflect.DeepEqual(all, want) || len(all) != endStored {
			t.Errorf("%v\ngot  %+v\nwant %+v", why, all, want)
		}
	}
}
