package wire

import "github.com/quoin-io/quoin/batchfmt"

// TopicInfo describes a topic.
//
//	length u32, name str, topic id 16, created i64, max batch bytes u32, flags u8,
//	batch versions {count u32, u8...}, readers u32, readers know u8,
//	partitions {count u32, each: length u16, log start i64, high watermark i64, bytes i64, code u16}
type TopicInfo struct {
	Name          string
	ID            [16]byte // random, made anew when a topic is deleted and created again
	Created       int64    // Unix milliseconds
	MaxBatchBytes uint32
	// Strict refuses a reader that does not know the version of a batch with
	// BATCH_VERSION_UNSUPPORTED; else it is given the batch in a version that it knows.
	Strict bool
	// BatchVersions are those that the topic holds, ascending. They are looked at for who asks
	// for them in DescribeTopics.
	BatchVersions []batchfmt.Version
	// VersionsPartial says that some partition could not be looked at, so that the topic may hold
	// other versions too.
	VersionsPartial bool
	Readers         uint32 // subscriptions that are open now
	// ReadersKnow is the newest batch version that every open subscription can read; 0 when
	// none is open.
	ReadersKnow batchfmt.Version
	Partitions  []PartitionInfo
}

// PartitionInfo describes a partition.
type PartitionInfo struct {
	LogStart      batchfmt.Offset
	HighWatermark batchfmt.Offset // the durable end: the next offset a reader will be given
	Bytes         int64           // on disk
	Code          Code            // not CodeOK when the partition takes no writes
}

const (
	topicInfoBytes     = 4 + 2 + 16 + 8 + 4 + 1 + 4 + 4 + 1 + 4
	partitionInfoBytes = 2 + 8 + 8 + 8 + 2
)

// Flags of a topic.
const topicStrict = 1

var topicFlags = []string{"strict"}

// Flags of a TopicInfo; the first is that of a topic.
const infoVersionsPartial = 2

var infoFlags = []string{"strict", "versions partial"}

func (t *TopicInfo) flags() byte {
	flags := strictFlag(t.Strict)
	if t.VersionsPartial {
		flags |= infoVersionsPartial
	}
	return flags
}

func strictFlag(strict bool) byte {
	if strict {
		return topicStrict
	}
	return 0
}

func (t *TopicInfo) append(b []byte) []byte {
	start, b := openLargeItem(b)
	b = appendStr(b, t.Name)
	b = append(b, t.ID[:]...)
	b = appendI64(b, t.Created)
	b = appendU32(b, t.MaxBatchBytes)
	b = append(b, t.flags())
	b = appendVersions(b, t.BatchVersions)
	b = appendU32(b, t.Readers)
	b = append(b, byte(t.ReadersKnow))
	b = appendU32(b, uint32(len(t.Partitions)))
	for _, p := range t.Partitions {
		start, item := openItem(b)
		item = appendI64(item, int64(p.LogStart))
		item = appendI64(item, int64(p.HighWatermark))
		item = appendI64(item, p.Bytes)
		b = closeItem(appendU16(item, uint16(p.Code)), start)
	}
	return closeLargeItem(b, start)
}

func (t *TopicInfo) decode(c *cursor) {
	item := c.largeItem("topic")
	t.Name = c.str("name", maxName)
	t.ID = c.id("topic id")
	t.Created = c.moment("created")
	t.MaxBatchBytes = c.u32("max batch bytes")
	flags := c.marks("flags", infoFlags)
	t.Strict = flags&topicStrict != 0
	t.VersionsPartial = flags&infoVersionsPartial != 0
	t.BatchVersions = readVersions(c)
	t.Readers = c.u32("readers")
	t.ReadersKnow = c.version("readers know")
	n := c.list("partitions", partitionInfoBytes)
	t.Partitions = room(t.Partitions, n)
	c.items(n, "partition", func() {
		t.Partitions = append(t.Partitions, PartitionInfo{
			LogStart:      batchfmt.Offset(c.i64("log start")),
			HighWatermark: batchfmt.Offset(c.i64("high watermark")),
			Bytes:         c.i64("bytes"),
			Code:          c.code("code"),
		})
	})
	c.leave("topic", item)
}

// CreateTopic makes a topic.
//
//	name str, partitions i32, max batch bytes u32, flags u8
type CreateTopic struct {
	Name          string
	Partitions    int32
	MaxBatchBytes uint32 // 0 for the server's default
	Strict        bool   // see TopicInfo
}

// Kind is KindCreateTopic.
func (*CreateTopic) Kind() Kind { return KindCreateTopic }

func (m *CreateTopic) appendPayload(b []byte) []byte {
	b = appendU32(appendI32(appendStr(b, m.Name), m.Partitions), m.MaxBatchBytes)
	return append(b, strictFlag(m.Strict))
}

func (m *CreateTopic) decode(c *cursor) {
	m.Name = c.str("name", maxAskedName)
	m.Partitions = c.i32("partitions")
	m.MaxBatchBytes = c.u32("max batch bytes")
	m.Strict = c.flags("flags", topicFlags)&topicStrict != 0
}

// TopicCreated answers CreateTopic; the topic is durable.
//
//	topic info
type TopicCreated struct{ Topic TopicInfo }

// Kind is KindTopicCreated.
func (*TopicCreated) Kind() Kind                      { return KindTopicCreated }
func (m *TopicCreated) appendPayload(b []byte) []byte { return m.Topic.append(b) }
func (m *TopicCreated) decode(c *cursor)              { m.Topic.decode(c) }

// DeleteTopic deletes a topic and all that it holds.
//
//	name str, topic id 16
type DeleteTopic struct {
	Name string
	ID   [16]byte // when not zero, only this incarnation of the name is deleted
}

// Kind is KindDeleteTopic.
func (*DeleteTopic) Kind() Kind { return KindDeleteTopic }

func (m *DeleteTopic) appendPayload(b []byte) []byte {
	return append(appendStr(b, m.Name), m.ID[:]...)
}

func (m *DeleteTopic) decode(c *cursor) {
	m.Name = c.str("name", maxAskedName)
	m.ID = c.id("topic id")
}

// TopicDeleted answers DeleteTopic.
//
//	topic id 16
type TopicDeleted struct{ ID [16]byte }

// Kind is KindTopicDeleted.
func (*TopicDeleted) Kind() Kind                      { return KindTopicDeleted }
func (m *TopicDeleted) appendPayload(b []byte) []byte { return append(b, m.ID[:]...) }
func (m *TopicDeleted) decode(c *cursor)              { m.ID = c.id("topic id") }

// DescribeTopics asks for topics by name, or for all, a page at a time.
//
//	names {count u32, str...}, after str, flags u8
type DescribeTopics struct {
	Names    []string // empty for all
	After    string   // only topics whose names sort behind it
	Versions bool     // look which batch versions they hold, which may read the disk
}

// Flags of DescribeTopics.
const describeVersions = 1

var describeFlags = []string{"versions"}

// Kind is KindDescribeTopics.
func (*DescribeTopics) Kind() Kind { return KindDescribeTopics }

func (m *DescribeTopics) appendPayload(b []byte) []byte {
	b = appendU32(b, uint32(len(m.Names)))
	for _, name := range m.Names {
		b = appendStr(b, name)
	}
	b = appendStr(b, m.After)
	if m.Versions {
		return append(b, describeVersions)
	}
	return append(b, 0)
}

func (m *DescribeTopics) decode(c *cursor) {
	n := c.list("names", 2)
	m.Names = room(m.Names, n)
	c.each(n, func() { m.Names = append(m.Names, c.str("name", maxAskedName)) })
	m.After = c.str("after", maxAskedName)
	m.Versions = c.flags("flags", describeFlags)&describeVersions != 0
}

// Flags of TopicsDescribed.
const topicsMore = 1

var topicsFlags = []string{"more"}

// TopicsDescribed answers DescribeTopics, sorted by name; a name that no topic has makes
// the whole request fail with UNKNOWN_TOPIC.
//
//	topics {count u32, topic info...}, flags u8
type TopicsDescribed struct {
	Topics []TopicInfo
	More   bool // there are topics behind the last one: ask again, After its name
}

// Kind is KindTopicsDescribed.
func (*TopicsDescribed) Kind() Kind { return KindTopicsDescribed }

func (m *TopicsDescribed) appendPayload(b []byte) []byte {
	b = appendU32(b, uint32(len(m.Topics)))
	for i := range m.Topics {
		b = m.Topics[i].append(b)
	}
	var flags byte
	if m.More {
		flags |= topicsMore
	}
	return append(b, flags)
}

func (m *TopicsDescribed) decode(c *cursor) {
	n := c.list("topics", topicInfoBytes)
	m.Topics = room(m.Topics, n)
	c.each(n, func() {
		var t TopicInfo
		t.decode(c)
		m.Topics = append(m.Topics, t)
	})
	m.More = c.flags("flags", topicsFlags)&topicsMore != 0
}
