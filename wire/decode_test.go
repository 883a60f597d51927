package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// errorTail are the sizes of the fields that an Error of an older peer lacks, the last one first.
var errorTail = []int{1, 8}

// isOlderForm reports whether a message, or an item of one, is whole in an older form when its
// last bytes are missing: only an Error has such forms.
func isOlderForm(isError bool, missing int) bool {
	for _, n := range errorTail {
		missing -= n
		if isError && missing == 0 {
			return true
		}
	}
	return false
}

// Every strict prefix lacks something, but for those that are the older form of a message.
func TestEveryPrefixOfEveryPayloadIsRefused(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			payload := s.m.appendPayload(nil)
			for n := range payload {
				if isOlderForm(s.m.Kind() == KindError, len(payload)-n) {
					continue
				}
				m, err := Decode(s.m.Kind(), payload[:n:n])
				var bad *FrameError
				if !errors.As(err, &bad) || m != nil {
					t.Fatalf("%d of %d bytes: %v, %v", n, len(payload), m, err)
				}
				if bad.Kind != s.m.Kind() || bad.Field == "" || !errors.Is(err, ErrFrame) {
					t.Errorf("%d of %d bytes: %v", n, len(payload), err)
				}
			}
		})
	}
}

func TestFieldsOfANewerPeerAreIgnored(t *testing.T) {
	for _, s := range samples(t) {
		got, err := Decode(s.m.Kind(), append(s.m.appendPayload(nil), 0xff, 0, 0xff))
		if err != nil || !reflect.DeepEqual(got, s.m) {
			t.Errorf("%s: %+v, %v", s.name, got, err)
		}
	}
}

// le writes numbers, strings and ids one behind the other.
func le(fields ...any) []byte {
	var b []byte
	for _, field := range fields {
		switch v := field.(type) {
		case string:
			b = appendStr(b, v)
		case []byte:
			b = append(b, v...)
		default:
			b, _ = binary.Append(b, binary.LittleEndian, v)
		}
	}
	return b
}

// item and largeItem put the length in front of fields.
func item(fields []byte) []byte      { return le(uint16(len(fields)), fields) }
func largeItem(fields []byte) []byte { return le(uint32(len(fields)), fields) }

var zero16 = make([]byte, 16)

// noVersions is a topic's flags, no batch versions, no readers and what they know.
var noVersions = make([]byte, 1+4+4+1)

func TestDecodeRefuses(t *testing.T) {
	const lie = uint32(math.MaxUint32)
	hello := func(count uint32, versions ...byte) []byte {
		return le(uint16(1), uint16(1), count, versions, uint64(0), "", "", zero16)
	}
	topic := func(fields ...any) []byte { return largeItem(le(fields...)) }
	lane := func(flags byte) []byte {
		return le(uint32(1), uint64(7), zero16, uint32(0), zero16, int32(0), flags, make([]byte, 32))
	}
	tests := []struct {
		name    string
		kind    Kind
		payload []byte
		field   string
		reason  string
	}{
		{"unknown kind", 999, nil, "kind", "not known"},
		{"unknown optional kind", KindOptional | 1, nil, "kind", "not known"},
		{"nothing", KindPing, nil, "nonce", "needs 8 bytes, 0 are left"},
		{"string longer than the payload", KindCreateTopic, le(uint16(9), []byte("short")), "name", "needs 9 bytes, 5 are left"},
		{"string over its limit", KindTopicCreated, topic(strings.Repeat("x", 256)), "name", "has 256 bytes, at most 255"},
		{"string that is no UTF-8", KindCreateTopic, le("a\xffb", int32(1), uint32(0)), "name", "not valid UTF-8"},
		{"string that ends inside of a character", KindCreateTopic, le("é"[:1], int32(1), uint32(0)), "name", "not valid UTF-8"},
		{"surrogate in a string", KindCreateTopic, le("\xed\xa0\x80", int32(1), uint32(0)), "name", "not valid UTF-8"},
		{"name in a list that is no UTF-8", KindDescribeTopics, le(uint32(2), "good", "\xff", ""), "name", "not valid UTF-8"},
		{"detail over its limit", KindDrain, le(uint32(0), strings.Repeat("x", maxDetail+1)), "reason", "at most 2048"},
		{"batch longer than the payload", KindProduce, le(make([]byte, 21), uint32(5), uint32(0)), "batch", "needs 5 bytes, 4 are left"},
		{"batch length that lies", KindProduce, le(make([]byte, 21), lie), "batch", "at most 16777216"},
		{"batches length that lies", KindBatches, le(int64(0), lie), "batches", "at most 16777216"},
		{"position over its limit", KindLaneOpened, le(make([]byte, 40), uint32(65), make([]byte, 65)), "position", "at most 64"},
		{"names that lie", KindDescribeTopics, le(lie, ""), "names", "4294967295 items do not fit"},
		{"results that lie", KindProduceResults, le(lie), "results", "4294967295 items do not fit"},
		{"results that do not quite fit", KindProduceResults, le(uint32(2), make([]byte, 2*resultBytes-1)), "results", "2 items do not fit"},
		{"topics that lie", KindTopicsDescribed, le(lie, []byte{0}), "topics", "4294967295 items do not fit"},
		{"partitions that lie", KindTopicCreated, topic("t", zero16, int64(0), uint32(0), noVersions, lie), "partitions", "4294967295 items do not fit"},
		{"partitions of a topic in a list that lie", KindTopicsDescribed,
			le(uint32(1), topic("t", zero16, int64(0), uint32(0), noVersions, lie), []byte{0}), "partitions", "4294967295 items do not fit"},
		{"batch versions that lie", KindHello, hello(lie), "batch versions", "at most 255"},
		{"too many batch versions", KindHello, hello(256, make([]byte, 256)...), "batch versions", "at most 255"},
		{"batch versions longer than the payload", KindHelloOK, le(uint16(1), uint32(3), []byte{1}), "batch versions", "needs 3 bytes, 1 are left"},
		{"unknown flag of OpenLane", KindOpenLane, lane(laneFresh | 8), "flags", "0x08 is not known"},
		{"unknown flag of Subscribe", KindSubscribe, le(zero16, int32(0), int64(0), byte(0x82), uint32(0)), "flags", "0x82 is not known"},
		{"unknown flag of a result", KindProduceResults, le(uint32(1), item(le(make([]byte, 14), byte(16), make([]byte, resultBytes-17)))), "flags", "0x10 is not known"},
		{"lanes that lie", KindProducersDescribed, le(lie, make([]byte, 21)), "lanes", "4294967295 items do not fit"},
		{"window that lies", KindProducersDescribed, le(uint32(1), largeItem(le(make([]byte, 46), lie, make([]byte, 25))), make([]byte, 21)), "window", "4294967295 items do not fit"},
		{"unknown flag of a lane", KindProducersDescribed, le(uint32(1), largeItem(le(make([]byte, 70), byte(16), uint32(0))), make([]byte, 21)), "flags", "0x10 is not known"},
		{"position of a lane over its limit", KindProducersDescribed, le(uint32(1), largeItem(le(make([]byte, 71), uint32(65), make([]byte, 65))), make([]byte, 21)), "position", "at most 64"},
		{"decisions that lie", KindProducersExplained, le(lie), "decisions", "4294967295 items do not fit"},
		{"unknown flag of Resolve", KindResolve, le(make([]byte, 72), byte(2)), "flags", "0x02 is not known"},
		{"unknown flag of Resolved", KindResolved, le(byte(1), byte(4), make([]byte, 22)), "flags", "0x04 is not known"},
		{"unknown flag of TopicsDescribed", KindTopicsDescribed, le(uint32(0), byte(2)), "flags", "0x02 is not known"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Decode(test.kind, test.payload)
			var bad *FrameError
			if !errors.As(err, &bad) || m != nil {
				t.Fatalf("%+v, %v", m, err)
			}
			if bad.Kind != test.kind || bad.Field != test.field || !strings.Contains(bad.Reason, test.reason) {
				t.Errorf("%v, want %s: %s", err, test.field, test.reason)
			}
		})
	}
}

// allocated is how much memory f takes in all, kept or not: the least of some runs, as what the
// runtime allocates meanwhile is counted too.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// A payload that is made to cost memory costs a small multiple of its own size. The
// multiple is that of a list of empty names: 2 bytes on the wire, 16 in memory.
func TestMemoryIsProportionalToThePayload(t *testing.T) {
	repeat := func(n int, item []byte) []byte { return slices.Concat(le(uint32(n)), slices.Repeat(item, n)) }
	partition := item(make([]byte, partitionInfoBytes-2))
	topic := func(partitions []byte) []byte {
		return largeItem(slices.Concat(le("", zero16, int64(0), uint32(0), noVersions), partitions))
	}
	emptyTopic := topic(repeat(0, nil))
	manyPartitions := topic(repeat(1000, partition))
	window := repeat(1000, item(make([]byte, windowEntryBytes-2)))
	// Each topic says that all bytes behind it are its partitions, but has none of them.
	greedy := topic(le(uint32(100_000)))
	// The same, with a length that says so too.
	greedier := le(uint32(3<<20), "", zero16, int64(0), uint32(0), noVersions, uint32(100_000))
	tests := []struct {
		name    string
		kind    Kind
		payload []byte
	}{
		{"empty names", KindDescribeTopics, slices.Concat(repeat(32_000, le("")), le(""))},
		{"as many names as fit, the first of them bad", KindDescribeTopics, slices.Concat(le(uint32(30_000), "\xff"), make([]byte, 60_000))},
		{"smallest results", KindProduceResults, repeat(14_000, item(make([]byte, resultBytes-2)))},
		{"topics without partitions", KindTopicsDescribed, append(repeat(80_000, emptyTopic), 0)},
		{"one topic with all partitions", KindTopicCreated, topic(repeat(150, partition))},
		{"topics with many partitions", KindTopicsDescribed, append(repeat(149, manyPartitions), 0)},
		{"topics whose partitions lie", KindTopicsDescribed, slices.Concat(repeat(1, greedy), slices.Repeat(greedy, 80_000))},
		{"topics whose lengths lie", KindTopicsDescribed, slices.Concat(repeat(1, greedier), slices.Repeat(greedier, 80_000))},
		{"smallest lanes", KindProducersDescribed, slices.Concat(repeat(10_000, largeItem(make([]byte, laneInfoBytes-4))), make([]byte, 21))},
		{"lanes with many batches", KindProducersDescribed,
			slices.Concat(repeat(20, largeItem(slices.Concat(make([]byte, 46), window, make([]byte, 25)))), make([]byte, 21))},
		{"smallest decisions", KindProducersExplained, repeat(10_000, item(make([]byte, decisionBytes-2)))},
		{"batch", KindProduce, le(make([]byte, 21), uint32(batchfmt.MaxBatchBytes), make([]byte, batchfmt.MaxBatchBytes))},
		{"batches", KindBatches, le(int64(0), uint32(batchfmt.MaxBatchBytes), make([]byte, batchfmt.MaxBatchBytes))},
		{"longest name", KindCreateTopic, le(strings.Repeat("x", 4000), int32(0), uint32(0))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if limit := kinds[test.kind].limit; len(test.payload) > limit {
				t.Fatalf("%d bytes never get past the limit of the frame, %d", len(test.payload), limit)
			}
			got := allocated(func() { Decode(test.kind, test.payload) })
			if limit := uint64(9*len(test.payload) + 4096); got > limit {
				t.Errorf("%d bytes took %d, more than %d", len(test.payload), got, limit)
			}
		})
	}
}

// A list that lies about its length costs nothing but the error.
func TestListsThatLieTakeNoMemory(t *testing.T) {
	payload := le(uint32(math.MaxUint32), make([]byte, 1<<20))
	for _, k := range []Kind{KindDescribeTopics, KindProduceResults, KindTopicsDescribed, KindProducersDescribed, KindProducersExplained} {
		got := allocated(func() {
			if _, err := Decode(k, payload); err == nil {
				t.Errorf("%v was decoded", k)
			}
		})
		if got > 4096 {
			t.Errorf("%v took %d bytes", k, got)
		}
	}
}
