package main

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

// follow reads partition 0 of a topic as one who knows these versions, until the test ends. It
// returns when the server has begun.
func follow(t *testing.T, url string, topic *sdk.Topic, versions ...batchfmt.Version) {
	t.Helper()
	c := rawclient.DialAs(t, url, versions...)
	stream, err := c.Conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	stream.SetDeadline(time.Now().Add(patience))
	if err := wire.Write(stream, &wire.Subscribe{TopicID: topic.ID, From: wire.FromLatest, Credit: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	m, err := wire.Read(stream)
	if _, begun := m.(*wire.Subscribed); !begun || err != nil {
		t.Fatalf("%+v, %v", m, err)
	}
}

// An operator sees whether every reader can read what he is about to write.
func TestDescribeSaysWhatReadersKnow(t *testing.T) {
	s, ctx, c := withTopic(t, 1)
	topic, err := c.DescribeTopic(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	described := func(want ...string) {
		t.Helper()
		for _, form := range []string{"tsv", "json"} {
			out, _ := ask(t, s, 0, "topic", "describe", "t", "-o", form)
			for _, text := range want {
				if isObject := strings.HasPrefix(text, `"`); isObject == (form == "json") && !strings.Contains(out, text) {
					t.Errorf("%s, want %s", out, text)
				}
			}
		}
	}
	described("\nreaders\t0\nreaders know\tno reader is connected\n", `"readers":0,"readers_know":null,`)
	follow(t, s.URL(), &topic, 1, 2)
	described("\nreaders\t1\nreaders know\tversion 2: every connected reader can read it\n", `"readers":1,"readers_know":2,`)
	follow(t, s.URL(), &topic, 1)
	described("\nreaders\t2\nreaders know\tversion 1: not every connected reader can read version 2, and it is converted for those that cannot\n",
		`"readers":2,"readers_know":1,`)
	ask(t, s, 0, "topic", "alter", "t", "--strict-batch-version")
	described("\nreaders\t2\nreaders know\tversion 1: not every connected reader can read version 2, and those that cannot are refused at it\n",
		`"strict_batch_version":true,"readers":2,"readers_know":1,`)
	if out, _ := ask(t, s, 0, "topic", "list", "-o", "json"); !strings.Contains(out, `"readers":2,"readers_know":1,`) {
		t.Errorf("listed as %s", out)
	}
	follow(t, s.URL(), &topic, 2)
	described("\nreaders\t3\nreaders know\tno version that every connected reader can read\n", `"readers":3,"readers_know":null,`)
}

// A topic whose server does not tell the versions is not called empty.
func TestUnknownBatchVersions(t *testing.T) {
	for _, row := range []struct {
		name     string
		versions []int
		p        sdk.Partition
		partial  bool
		want     string
	}{
		{"nothing is there", nil, sdk.Partition{}, false, "none"},
		{"a fence uses no offset", []int{2}, sdk.Partition{}, false, "2"},
		{"there are records of no version that is known", nil, sdk.Partition{HighWatermark: 1}, false, ""},
		{"the partition could not be opened", nil, sdk.Partition{Err: sdk.ErrClosed}, true, ""},
		{"there are both", []int{1, 2}, sdk.Partition{HighWatermark: 3}, false, "1, 2"},
		{"and a partition that could not be looked at", []int{1}, sdk.Partition{HighWatermark: 3}, true, "1, maybe others: not every partition could be looked at"},
	} {
		o := describedObjectOf(&sdk.Topic{BatchVersions: row.versions, VersionsPartial: row.partial, Partitions: []sdk.Partition{row.p}})
		if got := o.versions(); got != row.want || (o.BatchVersions == nil) != (row.want == "") {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// A reader that is refused at a batch is told which, and where it may go on.
func TestConsumeOfAVersionThatIsNotKnown(t *testing.T) {
	err := answer(damaged(&sdk.ServerError{Op: "consume", Code: wire.CodeVersionUnsupported, Topic: "t", Sequence: -1, Expected: 7,
		Detail: "the batch at offset 5 has version 3, which the reader does not know: upgrade the reader, or read on at offset 7"}))
	const want = `sdk: consume "t" partition 0: BATCH_VERSION_UNSUPPORTED: the batch at offset 5 has version 3, ` +
		`which the reader does not know: upgrade the reader, or read on at offset 7`
	if code := exitCode(err); code != exitOther || err.Error() != want {
		t.Errorf("exit code %d, %v", code, err)
	}
}
