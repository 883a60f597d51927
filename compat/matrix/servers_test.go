package matrix

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/sdk"
)

// servers are the rows of the second table, by name; all meet the SDK of today.
var servers = map[string]script{
	"accepts 1": {hello: "older-server/hello-ok-accepts-1", topics: "server/topics-described",
		results: "server/produce-results", pushes: []string{"server/batches-1"}, end: 2},
	"accepts 1 and 2": {hello: "server/hello-ok", topics: "server/topics-described",
		results: "server/produce-results", pushes: []string{"server/batches-1", "server/batches-2"}, end: 4},
	"a later release": laterRelease,
	"accepts 9 only": {hello: "newer-server/hello-ok-accepts-9", topics: "newer-server/topics-described",
		pushes: []string{"server/batches-1", "server/batches-2"}, end: 4, newer: true},
	"protocols 7 to 8":   {hello: "newer-server/refused", newer: true},
	"protocol 0 only":    {hello: "older-server/refused"},
	"chooses protocol 9": {hello: "newer-server/hello-ok-protocol-9", newer: true},
	"quoin/2 only":       {alpn: alpn2},
}

// laterRelease speaks this protocol and has more to say. Its topic holds a batch of version 3
// and is strict.
var laterRelease = script{hello: "newer-server/hello-ok", topics: "newer-server/topics-described",
	results: "newer-server/produce-results", pushes: []string{"server/batches-1", "server/batches-2", errorVersion3},
	behind: "newer-server/batches-6", end: 7, newer: true}

// dialSDK connects the SDK of today.
func dialSDK(t testing.TB, url string) (*sdk.Client, error) {
	t.Helper()
	client, err := sdk.Dial(within(t), url)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return client, nil
}

// playServer fills the row of a server that is played with frozen bytes.
func playServer(t testing.TB, r release, play script) cells {
	client, err := dialSDK(t, serve(t, r, play).url())
	if err != nil {
		return nothing(serverColumns, dialCell(t, err))
	}
	row := cells{"hello": served}
	described, err := client.DescribeTopic(within(t), "matrix")
	if err != nil || described.ID != topicID || len(described.Partitions) != 1 || described.Partitions[0].HighWatermark != play.end {
		t.Fatalf("%+v, %v", described, err)
	}
	row["topics"] = served
	row["write 1"] = sendOne(t, client.Producer("matrix"), -1)
	row["write 2"] = sendOne(t, client.Producer("matrix").Idempotent(), 0)
	readColumns(t, client, play, row)
	return row
}

// dialCell is the cell of a failed dial: which side to upgrade, if the versions were the
// reason.
func dialCell(t testing.TB, err error) string {
	t.Helper()
	var de *sdk.DialError
	if !errors.As(err, &de) {
		t.Fatal(err)
	}
	switch de.Stage {
	case sdk.StageVersion:
		return advice(err.Error())
	case sdk.StageALPN:
		return "no protocol"
	}
	t.Fatal(err)
	return ""
}

// sendOne sends a record, which all scripts store at offset 40.
func sendOne(t testing.TB, b *sdk.ProducerBuilder, sequence int64) string {
	t.Helper()
	p, err := b.Build(within(t))
	if errors.Is(err, sdk.ErrBatchVersion) && strings.Contains(err.Error(), "BATCH_VERSION_UNSUPPORTED") {
		return advice(err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	ack, err := p.Send(within(t), sdk.Record{Key: []byte("k"), Value: []byte("v")})
	if err != nil || ack.Offset != 40 || ack.Sequence != sequence || ack.Duplicate || ack.AppendTime != time.UnixMilli(1_750_000_001_000) {
		t.Fatalf("%+v, %v", ack, err)
	}
	return served
}

// readColumns reads the topic to its end, or to where it is refused.
func readColumns(t testing.TB, client *sdk.Client, play script, row cells) {
	t.Helper()
	row["read 1"], row["read 2"], row["read 3"] = none, none, none
	records, err := read(t, client.Consumer("matrix"))
	for i, rec := range records {
		want := []string{"old 0", "old 1", "aware 2", "aware 3"}[i]
		if rec.Offset != int64(i) || string(rec.Value) != want {
			t.Errorf("record %d is %+v", i, rec)
		}
		column, producer := "read 1", sdk.ProducerRef{}
		if i >= 2 {
			column, producer = "read 2", sdk.ProducerRef{ID: 7, Epoch: 1, Sequence: int64(900 + i - 2)}
		}
		if rec.Producer != producer {
			t.Errorf("record %d is of %+v", i, rec.Producer)
		}
		row[column] = served
	}
	if err != nil {
		row["read 3"] = advice(err.Error())
	}
	if want := min(play.end, 4); int64(len(records)) != want {
		t.Errorf("%d records came, not %d", len(records), want)
	}
}

// read gives the records up to the end or an error.
func read(t testing.TB, b *sdk.ConsumerBuilder) (all []*sdk.Record, err error) {
	t.Helper()
	consumer, err := b.StopAtEnd().Build(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	for rec, err := range consumer.Records(within(t)) {
		if err != nil {
			return all, err
		}
		all = append(all, rec)
	}
	return all, nil
}

// playSDK fills the row of the SDK of today in the table of clients.
func playSDK(t testing.TB, _ release, url string) cells {
	client, err := dialSDK(t, url)
	if err != nil {
		t.Fatal(err)
	}
	row := cells{"hello": served}
	for name, columns := range map[string][2]string{"matrix": {"read 1", "read 2"}, "strict": {"", "strict 2"}} {
		if _, err := client.CreateTopic(within(t), name, sdk.TopicOptions{StrictBatchVersion: name == "strict"}); err != nil {
			t.Fatal(err)
		}
		for _, b := range []*sdk.ProducerBuilder{client.Producer(name), client.Producer(name).Idempotent()} {
			p, err := b.Build(within(t))
			if err == nil {
				_, err = p.Send(within(t), sdk.Record{Value: []byte(name)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		records, err := read(t, client.Consumer(name))
		if err != nil || len(records) != 2 || records[0].Producer.ID != 0 || records[1].Producer.ID == 0 {
			t.Fatalf("%+v, %v", records, err)
		}
		for _, column := range columns {
			if column != "" {
				row[column] = served
			}
		}
	}
	row["topics"], row["write 1"], row["write 2"] = served, served, served
	return row
}
