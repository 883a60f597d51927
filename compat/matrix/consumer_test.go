package matrix

import (
	"errors"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// A consumer of today comes upon a batch of version 3 in a strict topic of a later release. It
// gives everything in front of it, says what is the matter, and whoever chooses to do without
// reads on behind it.
func TestConsumerIsRefusedAndReadsOn(t *testing.T) {
	for _, r := range releases(t) {
		client, err := dialSDK(t, serve(t, r, laterRelease).url())
		if err != nil {
			t.Fatal(err)
		}
		consumer, err := client.Consumer("matrix").StopAtEnd().Build(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer consumer.Close()
		given := 0
		for rec, err := range consumer.Records(within(t)) {
			if err != nil {
				readOn(t, client, err)
				continue
			}
			if rec.Offset != int64(given) {
				t.Errorf("record %d has offset %d", given, rec.Offset)
			}
			given++
		}
		if given != 4 || consumer.Position(0) != 4 {
			t.Errorf("%d records came, the position is %d", given, consumer.Position(0))
		}
		for _, err := range consumer.Records(within(t)) {
			if !errors.Is(err, sdk.ErrBatchVersion) {
				t.Errorf("asked again it says %v", err)
			}
		}
	}
}

func readOn(t *testing.T, client *sdk.Client, err error) {
	t.Helper()
	var refused *sdk.ServerError
	if !errors.As(err, &refused) || !errors.Is(err, sdk.ErrBatchVersion) || refused.Code != wire.CodeVersionUnsupported ||
		refused.Topic != "matrix" || refused.Partition != 0 || refused.Expected != 6 || refused.Offset != 4 || refused.Version != 3 || refused.Retriable() {
		t.Fatalf("%+v", err)
	}
	for _, words := range []string{"BATCH_VERSION_UNSUPPORTED", "offset 4 ", "version 3,", `"matrix"`, "upgrade the reader"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in %q", words, err)
		}
	}
	behind := client.Consumer(refused.Topic).Partitions(refused.Partition).From(sdk.At(refused.Expected))
	records, err := read(t, behind)
	if err != nil || len(records) != 1 || records[0].Offset != 6 || string(records[0].Value) != "old 6" {
		t.Errorf("behind it: %+v, %v", records, err)
	}
}

// A server that hands out version 3 although the client never said that it reads it does not
// get it past the SDK: what stands before is given, of it not a record.
func TestUnaskedVersionIsNoRecord(t *testing.T) {
	for _, r := range releases(t) {
		play := laterRelease
		play.pushes = []string{"server/batches-1", "server/batches-2", "newer-server/batches-3", play.behind}
		client, err := dialSDK(t, serve(t, r, play).url())
		if err != nil {
			t.Fatal(err)
		}
		records, err := read(t, client.Consumer("matrix"))
		var corrupt *sdk.CorruptBatchError
		if !errors.As(err, &corrupt) || corrupt.Offset != 4 || !strings.Contains(err.Error(), "version") || len(records) != 4 {
			t.Errorf("%d records, then %v", len(records), err)
		}
	}
}

// An error that came later keeps its number, may not be repeated, and leaves the outcome open.
func TestUnknownErrorOfALaterRelease(t *testing.T) {
	for _, r := range releases(t) {
		client, err := dialSDK(t, serve(t, r, script{hello: "newer-server/hello-ok", topics: "newer-server/error-999", newer: true}).url())
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.DescribeTopic(within(t), "matrix")
		var refused *sdk.ServerError
		if !errors.As(err, &refused) || refused.Code != 999 || refused.Offset != -1 || refused.Version != 0 || refused.Retriable() || refused.Outcome() != wire.OutcomeUnknown ||
			!strings.Contains(err.Error(), "ERROR_999: the moon is in the wrong phase") {
			t.Errorf("%v", err)
		}
	}
}
