package wire

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-io/quoin/batchfmt"
)

// noon is the time of all samples, Unix milliseconds.
const noon = 1767355200123

// id16 makes an id whose bytes count up from first.
func id16(first byte) (id [16]byte) {
	for i := range id {
		id[i] = first + byte(i)
	}
	return id
}

// sealed makes a small uncompressed batch with sequences from base.
func sealed(t testing.TB, base batchfmt.Seq, values ...string) []byte {
	t.Helper()
	var builder batchfmt.Builder
	for i, value := range values {
		err := builder.Add(&batchfmt.Record{Timestamp: noon + int64(i), Key: []byte("k"), Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := builder.Seal(nil, batchfmt.Seal{ProducerID: 77, Epoch: 2, BaseSequence: base})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stamped is sealed, appended at offset.
func stamped(t testing.TB, offset batchfmt.Offset, values ...string) []byte {
	t.Helper()
	b := sealed(t, batchfmt.Seq(offset), values...)
	batch, err := batchfmt.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	batch.Stamp(batchfmt.Stamp{BaseOffset: offset, AppendTime: noon + 5, Term: 4, Durable: offset})
	return b
}

// A sample is a message as it may be on the wire; its bytes are a golden file.
type sample struct {
	name string // of the file; the kind, then what is special
	m    Message
}

func samples(t testing.TB) []sample {
	return slices.Concat(connectionSamples(), producerSamples(), laneSamples(t), subscriptionSamples(t), topicSamples(), historySamples())
}

func connectionSamples() []sample {
	refusal := Error{Code: CodeUnsupportedVersion, Partition: -1, Sequence: -1, Expected: -1, Offset: -1,
		Detail: "the client speaks protocol 2 to 3, the server 1: upgrade the server"}
	return []sample{
		{"Hello", &Hello{MinProtocol: 1, MaxProtocol: 1, BatchVersions: []batchfmt.Version{1, 2},
			SDKName: "quoin-go", SDKVersion: "0.1.0"}},
		{"Hello-resume", &Hello{MinProtocol: 1, MaxProtocol: 3, BatchVersions: []batchfmt.Version{1, 2, 3},
			Features: 1 << 63, SDKName: "quoin-go", SDKVersion: "9.0.0", Session: id16(0xa0)}},
		{"HelloOK", &HelloOK{Protocol: 1, BatchVersions: []batchfmt.Version{1, 2}, Features: 5,
			ServerName: "quoind", ServerVersion: "0.1.0", ClusterID: id16(0xc0), Incarnation: 12,
			Session: id16(0xa0), MaxBatchBytes: 1 << 20, MaxInFlight: 5, MaxLanes: 1024}},
		{"Refused", &Refused{Err: refusal, MinProtocol: 1, MaxProtocol: 1}},
		{"Error", &Error{Code: CodeSequenceConflict, RetryAfter: 1500 * time.Millisecond, Topic: "orders", TopicID: id16(0x10),
			Partition: 3, ProducerID: 77, Sequence: 900, Expected: 903, Detail: "sequences 900 to 902 hold another batch", Offset: -1}},
		{"Error-version", &Error{Code: CodeVersionUnsupported, Topic: "orders", TopicID: id16(0x10), Partition: 3, Sequence: -1, Expected: 4004,
			Detail: "the batch at offset 4001 has version 2, which the reader does not know: upgrade the reader, or read on at offset 4004",
			Offset: 4001, Version: 2}},
		{"Error-bare", Errorf(CodeInternal, "")},
		{"Ping", &Ping{Nonce: 0x0123456789abcdef}},
		{"Pong", &Pong{Nonce: 0x0123456789abcdef}},
		{"Drain", &Drain{RetryAfter: 2 * time.Second, Reason: "restart for an upgrade"}},
	}
}

func producerSamples() []sample {
	return []sample{
		{"InitProducer", &InitProducer{Instance: id16(0x50)}},
		{"InitProducer-named", &InitProducer{Instance: id16(0x50), Name: "billing", TransactionalID: "tx-1"}},
		{"ProducerInited", &ProducerInited{ProducerID: 77, Epoch: 2, Key: id16(0x70)}},
		{"BumpEpoch", &BumpEpoch{ProducerID: 77, Key: id16(0x70), Request: id16(0x30)}},
		{"EpochBumped", &EpochBumped{Epoch: 3}},
		{"CloseProducer", &CloseProducer{ProducerID: 77, Key: id16(0x70)}},
		{"ProducerClosed", &ProducerClosed{}},
		{"Resolve", &Resolve{ProducerID: 77, Epoch: 2, TopicID: id16(0x10), Partition: 3, Base: 900, Last: 902, Digest: 0xfeedfacecafebeef}},
		{"Resolve-settle", &Resolve{ProducerID: 77, Key: id16(0x70), Epoch: 2, TopicID: id16(0x10), Partition: 3,
			Base: 900, Last: 902, Digest: 0xfeedfacecafebeef, Settle: true}},
		{"Resolved", &Resolved{Outcome: ResolveStored, Verified: true, Offset: 4001, LastSequence: 905, Epoch: 2}},
		{"Resolved-unreadable", &Resolved{Outcome: ResolveStored, Unreadable: true, Offset: 4001, LastSequence: 905, Epoch: 2,
			Detail: "offsets 3990 to 4010 are damaged"}},
		{"Resolved-never", &Resolved{Outcome: ResolveNever, Offset: -1, LastSequence: 899, Epoch: 3}},
		{"Resolved-newer", &Resolved{Outcome: 200, Offset: -1, LastSequence: -1, Detail: "what a newer server means"}},
	}
}

func historySamples() []sample {
	window := []WindowEntry{{Base: 895, Last: 899, Offset: 3996, Digest: 0xfeedfacecafebeef}, {Base: 900, Last: 902, Offset: 4001, Digest: 0x0123456789abcdef}}
	return []sample{
		{"DescribeProducers", &DescribeProducers{TopicID: id16(0x10), Partition: 3, ProducerID: 77}},
		{"DescribeProducers-page", &DescribeProducers{TopicID: id16(0x10), Partition: 3, After: 77, Limit: 100}},
		{"ProducersDescribed", &ProducersDescribed{Lanes: []LaneInfo{
			{ProducerID: 77, Name: "billing", Epoch: 2, Last: 902, LastOffset: 4003, Confirmed: 899, Window: window, InFlight: 1,
				Idle: 1500 * time.Millisecond, Opening: 4, Open: true, Position: []byte("file-9:112")},
			{ProducerID: 78, Last: -1, LastOffset: -1, Confirmed: -1, Closed: true, Suspect: true, Retired: true, Idle: 100 * 24 * time.Hour},
		}, Total: 4096, Retired: 100_000, Forgotten: 12, More: true}},
		{"ProducersDescribed-none", &ProducersDescribed{}},
		{"ExplainProducers", &ExplainProducers{TopicID: id16(0x10), Partition: 3, ProducerID: 77, Limit: 20}},
		{"ProducersExplained", &ProducersExplained{Decisions: []Decision{
			{Time: noon, ProducerID: 77, Epoch: 2, Base: 900, Last: 902, Row: 9, Kind: "accept", Text: "it comes next", Offset: 4001},
			{Time: noon + 7, ProducerID: 77, Epoch: 2, Base: 906, Last: 906, Row: -1, Kind: "gap", Text: "sequence 903 comes next", Offset: -1},
		}}},
	}
}

func laneSamples(t testing.TB) []sample {
	sent := batchfmt.Seq(905)
	open := OpenLane{Lane: 7, ProducerID: 77, Key: id16(0x70), Epoch: 2, TopicID: id16(0x10), Partition: 3}
	fresh, known := open, open
	fresh.Fresh = true
	known.Acked, known.Sent = &LanePoint{Sequence: 899, Offset: 4000, Digest: 0xfeedfacecafebeef}, &sent
	return []sample{
		{"OpenLane-fresh", &fresh},
		{"OpenLane-known", &known},
		{"LaneOpened", &LaneOpened{Lane: 7, LastSequence: 899, LastOffset: 4000, LastDigest: 0xfeedfacecafebeef,
			LogStart: 1000, MaxBatchBytes: 1 << 20, Position: []byte("file-9:112")}},
		{"LaneOpened-empty", &LaneOpened{Lane: 8, LastSequence: -1, LastOffset: -1, MaxBatchBytes: 1 << 20}},
		{"LaneRefused", &LaneRefused{Lane: 7, Err: Error{Code: CodeInvalidProducerEpoch, Topic: "orders", TopicID: id16(0x10),
			Partition: 3, ProducerID: 77, Sequence: -1, Expected: 4, Detail: "a newer instance took the name", Offset: -1}}},
		{"Produce", &Produce{Lane: 7, Durability: Synced, FirstSend: noon, ConfirmedThrough: 899,
			Batch: sealed(t, 900, "signed up", "paid", "signed out")}},
		{"ProduceResults", &ProduceResults{Results: []ProduceResult{
			{Lane: 7, BaseSequence: 900, BaseOffset: 4001, AppendTime: noon + 5, Expected: -1, PersistedThrough: 902,
				Timings: Timings{Queue: 40 * time.Microsecond, Append: 12 * time.Microsecond, Sync: 1800 * time.Microsecond}},
			{Lane: 7, BaseSequence: 897, Duplicate: true, Verified: true, BaseOffset: 3998, AppendTime: noon - 60_000,
				Expected: -1, PersistedThrough: 902},
			{Lane: 9, BaseSequence: 12, Code: CodeOutOfOrder, BaseOffset: -1, Expected: 10, PersistedThrough: 9,
				RetryAfter: 20 * time.Millisecond, Detail: "sequence 10 comes next"},
			{Lane: 9, BaseSequence: 13, Code: CodeInvalidProducerEpoch, NotStored: true, BaseOffset: -1, Expected: 4, PersistedThrough: -1},
		}}},
		{"ProduceResults-none", &ProduceResults{}},
		{"Confirmed", &Confirmed{Lane: 7, Through: 902}},
		{"Produce-written", &Produce{Lane: 7, Durability: Written, FirstSend: noon, ConfirmedThrough: 899,
			Batch: sealed(t, 900, "signed up", "paid", "signed out")}},
		{"ProduceResults-provisional", &ProduceResults{Results: []ProduceResult{
			{Lane: 7, BaseSequence: 900, Provisional: true, BaseOffset: 4001, AppendTime: noon + 5, Expected: -1, PersistedThrough: 899,
				Timings: Timings{Queue: 40 * time.Microsecond, Append: 12 * time.Microsecond}},
			{Lane: 7, BaseSequence: 900, Duplicate: true, Verified: true, Provisional: true, BaseOffset: 4001, Expected: -1, PersistedThrough: 899},
		}}},
	}
}

func subscriptionSamples(t testing.TB) []sample {
	return []sample{
		{"Subscribe", &Subscribe{TopicID: id16(0x10), Partition: 3, From: 4000, Credit: 8 << 20}},
		{"Subscribe-to-end", &Subscribe{TopicID: id16(0x10), From: FromEarliest, StopAtEnd: true, Credit: 1}},
		{"Subscribed", &Subscribed{Start: 4000, LogStart: 1000, HighWatermark: 4004}},
		{"Batches", &Batches{HighWatermark: 4004, Batches: slices.Concat(
			stamped(t, 4000, "signed in"), stamped(t, 4001, "signed up", "paid", "signed out"))}},
		{"Credit", &Credit{Bytes: 4 << 20}},
		{"EndReached", &EndReached{Next: 4004}},
	}
}

func topicSamples() []sample {
	orders := TopicInfo{Name: "orders", ID: id16(0x10), Created: noon, MaxBatchBytes: 1 << 20, Strict: true,
		BatchVersions: []batchfmt.Version{1, 2}, Readers: 3, ReadersKnow: 2, Partitions: []PartitionInfo{
			{LogStart: 1000, HighWatermark: 4004, Bytes: 123456},
			{Bytes: 4096, Code: CodePartitionStopped},
		}}
	maxBatch, strict, partitions := uint32(4<<20), false, int32(12)
	return []sample{
		{"AlterTopic", &AlterTopic{Name: "orders", ID: id16(0x10), MaxBatchBytes: &maxBatch, Strict: &strict, Partitions: &partitions}},
		{"AlterTopic-partitions", &AlterTopic{Name: "orders", Partitions: &partitions}},
		{"TopicAltered", &TopicAltered{Topic: orders}},
		{"TopicChanged", &TopicChanged{Name: "orders", ID: id16(0x10)}},
		{"TopicChanged-deleted", &TopicChanged{Name: "orders", ID: id16(0x10), Deleted: true}},
		{"TopicChanged-any", &TopicChanged{}},
		{"CreateTopic-strict", &CreateTopic{Name: "orders", Partitions: 2, Strict: true}},
		{"CreateTopic", &CreateTopic{Name: "orders", Partitions: 2, MaxBatchBytes: 1 << 20}},
		{"TopicCreated", &TopicCreated{Topic: orders}},
		{"DeleteTopic", &DeleteTopic{Name: "orders", ID: id16(0x10)}},
		{"TopicDeleted", &TopicDeleted{ID: id16(0x10)}},
		{"DescribeTopics", &DescribeTopics{Names: []string{"orders", "größen"}}},
		{"DescribeTopics-page", &DescribeTopics{After: "orders"}},
		{"DescribeTopics-versions", &DescribeTopics{Names: []string{"orders"}, Versions: true}},
		{"TopicsDescribed", &TopicsDescribed{Topics: []TopicInfo{orders, {Name: "empty", ID: id16(0x20), VersionsPartial: true}}, More: true}},
	}
}

// extreme sets every field to the largest, or the smallest, that the wire can carry;
// strings get the length that every string field takes.
func extreme(v reflect.Value, large bool) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		extreme(v.Elem(), large)
	case reflect.Struct:
		for i := range v.NumField() {
			extreme(v.Field(i), large)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			extreme(v.Index(i), large)
		}
	case reflect.String:
		v.SetString(strings.Repeat("é", maxName/2))
	case reflect.Bool:
		v.SetBool(large)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if large {
			v.SetUint(math.MaxUint64 >> (64 - v.Type().Bits()))
		}
	case reflect.Int16, reflect.Int32, reflect.Int64:
		extremeInt(v, large)
	default:
		panic("a field of kind " + v.Kind().String() + " has no extreme")
	}
}

func extremeInt(v reflect.Value, large bool) {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		if large { // the wire has 32 bits, of milliseconds or of microseconds
			v.SetInt(int64(math.MaxUint32/1000) * int64(time.Millisecond))
		}
	case large:
		v.SetInt(math.MaxInt64 >> (64 - v.Type().Bits()))
	default:
		v.SetInt(math.MinInt64 >> (64 - v.Type().Bits()))
	}
}

func extremeOf(k Kind, large bool) Message {
	m := kinds[k].make()
	extreme(reflect.ValueOf(m).Elem(), large)
	return m
}

func sortedKinds() []Kind {
	var all []Kind
	for k := range kinds {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
