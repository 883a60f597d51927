package counters

// A Set is everything that one server counts. The zero value is ready; it is shared by
// pointer and never copied.
type Set struct {
	Batches  Batches
	Appended Appended
	Syncs    Syncs
	Damage   Damage

	LookUps   LookUps
	Conflicts Conflicts
	Producers Producers
	Snapshots Snapshots
	Copies    Copies
}

// Batches counts batches of producers by the answer that they got, each answer once. See
// [Batches.Answer] for what belongs where.
type Batches struct {
	Appended  Counter // new and stored; durable, but for the provisional ones
	Duplicate Counter // stored before; answered with the original
	Gap       Counter // something before it is missing
	Fenced    Counter // its sender has no right to write any more
	Conflict  Counter // its sequences hold another batch
	Rejected  Counter // not stored, for any other reason
	Unknown   Counter // nobody could say that it is stored and readable, or that it is not
	// Provisional is how many of Appended and Duplicate were answered before their sync, as
	// their senders had asked for.
	Provisional Counter
}

// Appended counts what appends have put into logs. It is ahead of what is durable.
type Appended struct {
	Records Counter
	Bytes   Counter // of batches, as they lie on disk
	// Failures are appends that failed, by reason. A failed append holds one batch or many.
	Failures struct {
		DiskFull Counter // no room, or the quota is used up; it was undone
		IO       Counter // any other error; it was undone
		Broken   Counter // the undo failed too, and the partition has stopped
	}
}

// Syncs counts how appends are made durable.
type Syncs struct {
	Took   Histogram // every sync, failed or not
	Failed Counter   // each has stopped a partition
}

// Damage counts damaged parts of logs as they are found, at a start or later. What a start
// finds again counts again, as counters begin at 0 then.
type Damage struct {
	Ranges  Counter
	Records Counter // offsets in those ranges; 0 for a damaged control batch or header
}

// LookUps counts searches in the log for what a lane stored long ago, by how they ended.
type LookUps struct {
	Found     Counter // the batch, or what stands in its place
	Removed   Counter // retention has taken it
	Damaged   Counter // it stands in a damaged part
	Nothing   Counter // the log has nothing there
	Failed    Counter // the log could not be read
	Throttled Counter // not begun, as too many were under way
}

// Conflicts counts batches whose sequences hold another batch, by what is wrong.
type Conflicts struct {
	Digest  Counter // the same range with other bytes
	Range   Counter // touches one stored batch that has another range
	Overlap Counter // crosses an edge of what is stored
}

// Producers counts what the limits on producers do.
type Producers struct {
	Lanes   Level // in memory, those that are only open included
	Retired Level // rows of the retired tables

	Evictions   Counter // lanes that left memory to make room for others
	Retirements Counter // lanes that were moved to a retired table, for whatever reason
	Refusals    Counter // openings that were refused as there was no room
}

// Copies counts second copies of frames, for links that lose packets.
type Copies struct {
	Sent     Counter // of answers
	Received Counter // of what clients said
	Used     Counter // of those, the ones that came before the frame itself
}

// Snapshots counts snapshots of producer states.
type Snapshots struct {
	Written Counter
	Failed  Counter // costs time at the next start, and keeps old segments
}
