package sdk

import "sync/atomic"

// Stats are what a client has done since it was made.
type Stats struct {
	Connects    uint64 // connections made, the first ones too
	Disconnects uint64 // connections lost
	Retries     uint64 // attempts to connect that failed
	Throttles   uint64 // answers that made a partition wait
	Fences      uint64 // producers that another instance took over

	BatchesSent   uint64 // handed to the network, each time
	BatchesResent uint64 // of those, the second time and later
	BytesSent     uint64 // of batches, as they travel

	CopiesSent uint64 // of small frames, see [SecondCopies]
	CopiesUsed uint64 // of answers, that came before the answer itself

	RecordsStored     uint64
	RecordsDuplicate  uint64 // of those, the ones that an earlier attempt had stored
	RecordsNotStored  uint64
	RecordsUnknown    uint64
	RecordsReceived   uint64 // by consumers
	BytesReceived     uint64 // of batches, as they travel
	BatchesSettled    uint64 // that were unknown
	BatchesFromOutbox uint64 // that an earlier process had left, and have their outcome
}

// counters are the Stats as they grow.
type counters struct {
	connects, disconnects, retries, throttles, fences                 atomic.Uint64
	batchesSent, batchesResent, bytesSent                             atomic.Uint64
	recordsStored, recordsDuplicate, recordsNotStored, recordsUnknown atomic.Uint64
	recordsReceived, bytesReceived, batchesSettled, batchesFromOutbox atomic.Uint64
}

// Stats gives the counters, each as it is at some moment of the call.
func (c *Client) Stats() Stats {
	n := &c.stats
	copiesSent, copiesUsed := c.transport.Copies()
	return Stats{
		CopiesSent: copiesSent, CopiesUsed: copiesUsed,
		Connects: n.connects.Load(), Disconnects: n.disconnects.Load(), Retries: n.retries.Load(),
		Throttles: n.throttles.Load(), Fences: n.fences.Load(),
		BatchesSent: n.batchesSent.Load(), BatchesResent: n.batchesResent.Load(), BytesSent: n.bytesSent.Load(),
		RecordsStored: n.recordsStored.Load(), RecordsDuplicate: n.recordsDuplicate.Load(),
		RecordsNotStored: n.recordsNotStored.Load(), RecordsUnknown: n.recordsUnknown.Load(),
		RecordsReceived: n.recordsReceived.Load(), BytesReceived: n.bytesReceived.Load(),
		BatchesSettled: n.batchesSettled.Load(), BatchesFromOutbox: n.batchesFromOutbox.Load(),
	}
}

// ended counts the records of a batch by their outcome.
func (n *counters) ended(o *outcome) {
	records := uint64(len(o.records.Tags))
	switch {
	case o.unknown != nil:
		n.recordsUnknown.Add(records)
	case o.err != nil:
		n.recordsNotStored.Add(records)
	default:
		n.recordsStored.Add(records)
		if o.first.Duplicate {
			n.recordsDuplicate.Add(records)
		}
	}
}
