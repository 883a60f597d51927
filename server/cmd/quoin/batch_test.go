package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quoin-io/quoin/batchfmt"
)

func sealed(t *testing.T, s batchfmt.Seal) []byte {
	t.Helper()
	var b batchfmt.Builder
	if err := b.Add(&batchfmt.Record{Timestamp: 1000, Value: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	raw, err := b.Seal(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// dumped is what batch dump makes of a file with these bytes.
func dumped(t *testing.T, b []byte, code int, flags ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "batches")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	if got := run(append([]string{"batch", "dump", name}, flags...), &out, &stderr); got != code {
		t.Fatalf("exit code %d, want %d: %s%s", got, code, &out, &stderr)
	}
	return out.String()
}

// What a batch does not have is null, and what it has is in its object.
func TestDumpObject(t *testing.T) {
	const producer = `"producer":7,"epoch":3,"first":20,"last":20,`
	stamped := sealed(t, batchfmt.Seal{AppendTime: true})
	b, err := batchfmt.Parse(stamped)
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(batchfmt.Stamp{BaseOffset: 5, AppendTime: 2000, Term: 4, Durable: 5})
	for _, row := range []struct {
		name  string
		batch []byte
		want  string // in the object
	}{
		{"no server has stamped it", sealed(t, batchfmt.Seal{}), `"from":0,"next":1,"error":null,"torn":false,"batch":{"version":1,"header_bytes":80,"append_time":null,"term":null,"durable":null,`},
		{"it is plain", sealed(t, batchfmt.Seal{}), `"producer":null,"epoch":null,"first":null,"last":null,"position":null,"control":null,"extensions":null},`},
		{"the time is the server's", stamped, `"append_time":"1970-01-01T00:00:02.000Z","term":4,"durable":5,`},
		{"and that of its records", stamped, `"server_time":true,"record_count":1,"records_bytes":12,"base_timestamp":"1970-01-01T00:00:01.000Z",`},
		{"which stand where it does", stamped, `"records":[{"offset":5,"timestamp":"1970-01-01T00:00:02.000Z","key":null,"value":"hello",`},
		{"it has a producer", sealed(t, batchfmt.Seal{ProducerID: 7, Epoch: 3, BaseSequence: 20}), producer + `"position":null,"control":null,"extensions":null},`},
		{"and a position", sealed(t, batchfmt.Seal{ProducerID: 7, Epoch: 3, BaseSequence: 20, Position: []byte("x")}), producer + `"position":"eA==","control":null,"extensions":"AQABAHgAAAA="},`},
		{"which is empty", sealed(t, batchfmt.Seal{ProducerID: 7, Epoch: 3, BaseSequence: 20, Position: []byte{}}), producer + `"position":"","control":null,"extensions":"AQAAAAAAAAA="},`},
		{"it closes a lane", batchfmt.AppendControl(nil, 7, 3, batchfmt.Control{Kind: batchfmt.ControlClose, MinEpoch: 4, Floor: 10, Last: 20, Position: []byte("x")}),
			`"base_timestamp":null,"max_timestamp":null,"producer":7,"epoch":3,"first":null,"last":null,"position":null,"control":{"kind":"close","min_epoch":4,"floor":10,"last":20,"position":"eA=="},`},
	} {
		out := dumped(t, row.batch, 0, "-o", "json", "--records")
		if !strings.Contains(out, row.want) || strings.Count(out, "\n") != 1 || !json.Valid([]byte(out)) {
			t.Errorf("%s: %s, want %s", row.name, out, row.want)
		}
	}
}

// Checksums are right and the records are not: that is said when the records are asked for,
// so that nobody takes a part of them for all.
func TestDumpOfRecordsThatCannotBeRead(t *testing.T) {
	b := sealed(t, batchfmt.Seal{ProducerID: 7})
	b[len(b)-1] = 2 // how many headers the record has, in a varint
	binary.LittleEndian.PutUint64(b[40:], xxhash.Sum64(b[48:]))
	out := dumped(t, b, exitVerification, "-o", "json", "--records")
	if !strings.Contains(out, `"kind":"damage","from":0,"next":1,"error":"batch: record headers at byte `) || !strings.HasSuffix(out, `,"records":[]}`+"\n") {
		t.Errorf("%s", out)
	}
	if out := dumped(t, b, 0, "-o", "json"); !strings.Contains(out, `"kind":"batch","from":0,"next":1,"error":null,`) {
		t.Errorf("%s", out)
	}
	dumped(t, b, 0)
}
