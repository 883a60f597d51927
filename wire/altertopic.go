package wire

// Flags of AlterTopic.
const (
	alterMaxBatchBytes = 1 << iota
	alterStrict
	alterPartitions
)

var alterFlags = []string{"max batch bytes", "strict", "partitions"}

// AlterTopic changes what may be changed of a topic, all of it at once or nothing. What is
// nil stays as it is.
//
//	name str, topic id 16, flags u8, max batch bytes u32, strict flags u8, partitions i32
type AlterTopic struct {
	Name          string
	ID            [16]byte // when not zero, only this incarnation of the name is altered
	MaxBatchBytes *uint32  // 0 for the server's default; what is stored already stays, however large
	Strict        *bool    // see TopicInfo
	// Partitions is how many there shall be. Fewer than there are is refused with
	// INVALID_PARTITIONS, since their records would be lost.
	Partitions *int32
}

// Kind is KindAlterTopic.
func (*AlterTopic) Kind() Kind { return KindAlterTopic }

func (m *AlterTopic) appendPayload(b []byte) []byte {
	var flags, strict byte
	var maxBatch uint32
	var partitions int32
	if m.MaxBatchBytes != nil {
		flags, maxBatch = flags|alterMaxBatchBytes, *m.MaxBatchBytes
	}
	if m.Strict != nil {
		flags, strict = flags|alterStrict, strictFlag(*m.Strict)
	}
	if m.Partitions != nil {
		flags, partitions = flags|alterPartitions, *m.Partitions
	}
	b = append(appendStr(b, m.Name), m.ID[:]...)
	b = append(b, flags)
	b = appendU32(b, maxBatch)
	b = append(b, strict)
	return appendI32(b, partitions)
}

func (m *AlterTopic) decode(c *cursor) {
	m.Name = c.str("name", maxAskedName)
	m.ID = c.id("topic id")
	flags := c.flags("flags", alterFlags)
	maxBatch := c.u32("max batch bytes")
	strict := c.flags("strict flags", topicFlags)&topicStrict != 0
	partitions := c.i32("partitions")
	m.MaxBatchBytes, m.Strict, m.Partitions = nil, nil, nil
	if flags&alterMaxBatchBytes != 0 {
		m.MaxBatchBytes = &maxBatch
	}
	if flags&alterStrict != 0 {
		m.Strict = &strict
	}
	if flags&alterPartitions != 0 {
		m.Partitions = &partitions
	}
}

// TopicAltered answers AlterTopic; the change is durable and in force, and partitions that
// are new are open.
//
//	topic info
type TopicAltered struct{ Topic TopicInfo }

// Kind is KindTopicAltered.
func (*TopicAltered) Kind() Kind                      { return KindTopicAltered }
func (m *TopicAltered) appendPayload(b []byte) []byte { return m.Topic.append(b) }
func (m *TopicAltered) decode(c *cursor)              { m.Topic.decode(c) }

// Flags of TopicChanged.
const topicDeleted = 1

var changedFlags = []string{"deleted"}

// TopicChanged tells a client on its control stream that a topic is not what it was. It is a
// hint that saves waiting: nothing waits for it, several changes may come as one, and a
// client that was not connected asks when it is again. A peer that does not know it steps
// over it.
//
//	name str, topic id 16, flags u8
type TopicChanged struct {
	Name    string   // empty, with a zero ID: any topic may have changed
	ID      [16]byte // of the incarnation that changed
	Deleted bool
}

// Kind is KindTopicChanged.
func (*TopicChanged) Kind() Kind { return KindTopicChanged }

func (m *TopicChanged) appendPayload(b []byte) []byte {
	var flags byte
	if m.Deleted {
		flags |= topicDeleted
	}
	return append(append(appendStr(b, m.Name), m.ID[:]...), flags)
}

func (m *TopicChanged) decode(c *cursor) {
	m.Name = c.str("name", maxName)
	m.ID = c.id("topic id")
	m.Deleted = c.marks("flags", changedFlags)&topicDeleted != 0
}
