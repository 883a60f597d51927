package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const dumpFile = "testdata/dump.txt"

// TestDump holds both forms of the dump of every sample, and of damaged frames, to a
// file that people review.
func TestDump(t *testing.T) {
	var out bytes.Buffer
	for _, s := range slices.Concat(wholeFrames(t), damagedFrames(t)) {
		fmt.Fprintf(&out, "## %s\n%s\n%s\n", s.name, DumpLine(s.frame), Dump(s.frame))
	}
	if *rewrite {
		writeFile(t, dumpFile, out.Bytes())
	}
	want, err := os.ReadFile(dumpFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%s differs; -rewrite writes it anew, for a review of the diff. Now it is\n%s", dumpFile, out.Bytes())
	}
}

type dumpSample struct {
	name  string
	frame []byte
}

func wholeFrames(t testing.TB) []dumpSample {
	var list []dumpSample
	for _, s := range samples(t) {
		list = append(list, dumpSample{s.name, Append(nil, s.m)})
	}
	return list
}

func damagedFrames(t testing.TB) []dumpSample {
	produce := Append(nil, &Produce{Lane: 7, Durability: 9, FirstSend: -5, Batch: sealed(t, 0, "x")})
	flipped := bytes.Clone(produce)
	flipped[len(flipped)-2] ^= 0xff
	newer := bytes.Clone(produce)
	newer[HeaderSize+ProduceHead+3] = 9
	cut := Append(nil, &Batches{Batches: stamped(t, 5, "x", "y")[:100]})
	results := Append(nil, &ProduceResults{Results: make([]ProduceResult, 20)})
	badText := Append(nil, &CreateTopic{Name: "line\nbreak \x1b[31m \u202e", Partitions: 1})
	long := Append(nil, &TopicCreated{Topic: TopicInfo{Name: strings.Repeat("x", 300)}})
	ping := Append(nil, &Ping{Nonce: 9})
	appended := append(header(11, KindPing, 0), "12345678new"...)
	return []dumpSample{
		{"nothing", nil},
		{"part of a header", ping[:5]},
		{"header alone", ping[:HeaderSize]},
		{"cut off inside of a field", ping[:HeaderSize+3]},
		{"fields of a newer peer", appended},
		{"unknown kind", append(header(4, 999, 0), "1234"...)},
		{"unknown optional kind, then a Ping", append(append(header(4, KindOptional|999, 0), "1234"...), ping...)},
		{"unknown flags", append(header(8, KindPing, 0x10), ping[HeaderSize:]...)},
		{"over the limit", append(header(300, KindPing, 0), ping[HeaderSize:]...)},
		{"two frames and a bit", slices.Concat(ping, ping, ping[:9])},
		{"key cut off", Append(nil, &OpenLane{Lane: 7, ProducerID: 77, Key: id16('K')})[:HeaderSize+20]},
		{"damaged batch", flipped},
		{"batch of an unknown version", newer},
		{"batch cut off", cut},
		{"no batch", Append(nil, &Produce{Batch: []byte("GET / HTTP/1.1")})},
		{"more names than a line shows", Append(nil, &DescribeTopics{Names: make([]string, 12)})},
		{"results cut off", results[:HeaderSize+4+resultBytes+12]},
		{"items of a newer peer", newerItems()},
		{"item of a newer peer cut off", newerItems()[:HeaderSize+4+2+resultBytes]},
		{"text that would act on a terminal", badText},
		{"name over its limit", long},
		{"list that lies", append(header(7, KindDescribeTopics, 0), 0xff, 0xff, 0xff, 0xff, 1, 0, 'x')},
		{"subscription from the end", Append(nil, &Subscribe{From: FromLatest})},
	}
}

// The secrets are set to bytes that appear in no other field, so they must appear in no
// dump. Tokens show their first four bytes, e0 to e3.
func TestDumpsKeepSecrets(t *testing.T) {
	key := id16(0xe0)
	for _, k := range sortedKinds() {
		m := kinds[k].make()
		hide(reflect.ValueOf(m).Elem(), key)
		frame := Append(nil, m)
		for n := range len(frame) + 1 {
			for _, text := range []string{Dump(frame[:n]), DumpLine(frame[:n])} {
				if strings.Contains(strings.ToLower(text), "e4") {
					t.Fatalf("%v shows a secret:\n%s", k, text)
				}
			}
		}
		if strings.Contains(DumpMessage(m), "e4e5") {
			t.Errorf("%v shows a secret: %s", k, DumpMessage(m))
		}
	}
}

// Keys stay hidden however a message is printed.
func TestKeysCannotBePrinted(t *testing.T) {
	inited, open := &ProducerInited{Key: id16(0xe0)}, &OpenLane{Key: id16(0xe0)}
	bump, shut, resolve := &BumpEpoch{Key: id16(0xe0)}, &CloseProducer{Key: id16(0xe0)}, &Resolve{Key: id16(0xe0)}
	for _, m := range []any{inited, *inited, open, *open, bump, *bump, shut, *shut, resolve, *resolve} {
		json, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{fmt.Sprint(m), fmt.Sprint(inited.Key), fmt.Sprintf("%+v", m), fmt.Sprintf("%#v", m), fmt.Sprintf("%x", m), string(json)} {
			if !strings.Contains(text, "(16 bytes, hidden)") || strings.Contains(text, "225") || strings.Contains(text, "e1e2") || strings.Contains(text, "0xe1") {
				t.Errorf("the key is not hidden: %s", text)
			}
		}
	}
}

// hide sets what is secret to key, by the names that secrets have.
func hide(v reflect.Value, key [16]byte) {
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "Key", "Instance", "Session":
			v.Field(i).Set(reflect.ValueOf(key))
		}
	}
}

func TestDumpMessage(t *testing.T) {
	tests := []struct {
		m    Message
		want string
	}{
		{nil, "no message"},
		{&Ping{Nonce: 9}, "Ping (8 bytes) nonce=9"},
		{&ProducerInited{ProducerID: 77, Epoch: 2, Key: id16(1)}, "ProducerInited (28 bytes) producer-id=77 epoch=2 key=(16 bytes, hidden)"},
		{&Drain{Reason: strings.Repeat("é", maxDetail)}, "Drain (2054 bytes) retry-after=0s reason=\"" + strings.Repeat("é", maxDetail/2) + "\""},
	}
	for _, test := range tests {
		if got := DumpMessage(test.m); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

func TestDumpLineIsOneLineAFrame(t *testing.T) {
	for _, s := range slices.Concat(wholeFrames(t), damagedFrames(t)) {
		if s.name == "unknown optional kind, then a Ping" || s.name == "two frames and a bit" {
			continue
		}
		if got := DumpLine(s.frame); got == "" || strings.Contains(got, "\n") {
			t.Errorf("%s: %q", s.name, got)
		}
	}
}

// Lists that a frame may hold are longer than anybody wants to read.
func TestDumpBoundsLists(t *testing.T) {
	topics := make([]TopicInfo, 3000)
	for i := range topics {
		topics[i].Partitions = make([]PartitionInfo, 10)
	}
	topics[0].Partitions = make([]PartitionInfo, 2000)
	frame := Append(nil, &TopicsDescribed{Topics: topics, More: true})
	text := Dump(frame)
	if n := strings.Count(text, "topic id: "); n != dumpItems {
		t.Errorf("%d topics are shown", n)
	}
	if n := strings.Count(text, "log start: "); n != dumpItems+10*(dumpItems-1) {
		t.Errorf("%d partitions are shown", n)
	}
	for _, want := range []string{"… and 1000 more\n", "… and 2000 more\n", "  flags: more\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(text, want))
		}
	}
	line := DumpLine(frame)
	if len(line) > 16<<10 || !strings.HasSuffix(line, "(… and 2992 more) flags=more") {
		t.Errorf("%d bytes: …%s", len(line), line[max(0, len(line)-100):])
	}
	if open, shut := strings.Count(line, "["), strings.Count(line, "]"); open != shut {
		t.Errorf("%d [, %d ]", open, shut)
	}
}
