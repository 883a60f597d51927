package server_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server/internal/rawclient"
	"github.com/quoin-io/quoin/wire"
)

func init() {
	flag.DurationVar(&rawclient.Patience, "patience", rawclient.Patience, "how long to wait for what must come")
}

func TestMain(m *testing.M) {
	if data := os.Getenv(envCost); data != "" {
		serveForCost(data) // this process is the server of another one
		return
	}
	goleak.VerifyTestMain(m)
}

// wantStored checks that a batch was stored, now or before, at offset.
func wantStored(t *testing.T, r wire.ProduceResult, offset batchfmt.Offset, duplicate bool) {
	t.Helper()
	if r.Code != wire.CodeOK || r.BaseOffset != offset || r.Duplicate != duplicate {
		t.Fatalf("result %v (%s) at offset %d, duplicate %v; want offset %d, duplicate %v",
			r.Code, r.Detail, r.BaseOffset, r.Duplicate, offset, duplicate)
	}
}

func wantCode(t *testing.T, r wire.ProduceResult, code wire.Code) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("result %v (%s), want %v", r.Code, r.Detail, code)
	}
}

// wantError checks that a reply is a refusal with this code.
func wantError(t *testing.T, m wire.Message, code wire.Code) *wire.Error {
	t.Helper()
	e, ok := m.(*wire.Error)
	if refused, is := m.(*wire.LaneRefused); is {
		e, ok = &refused.Err, true
	}
	if !ok || e.Code != code {
		t.Fatalf("reply %v %+v, want %v", m.Kind(), m, code)
	}
	return e
}

// wantValues checks what a reader gets from a partition.
func wantValues(t *testing.T, c *rawclient.Client, topic wire.TopicInfo, partition int32, want ...string) {
	t.Helper()
	got, next := c.Subscribe(topic, partition)
	if len(got) != len(want) || int(next) != len(want) {
		t.Fatalf("read %d records, next offset %d, want %d: %q", len(got), next, len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("record %d is %q, want %q", i, got[i], want[i])
		}
	}
}
