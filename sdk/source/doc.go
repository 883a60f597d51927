// Package source carries any source that can be read again into a topic, each of its records
// once and in order, whatever crashes in between: this process, the server, the network.
//
//	numbers := source.Func(func(ctx context.Context, from source.Position) iter.Seq2[source.Item, error] {
//		return func(yield func(source.Item, error) bool) {
//			for line, behind := range linesBehind(from) {
//				if !yield(source.Item{Records: []sdk.Record{{Value: line}}, Position: behind}, nil) {
//					return
//				}
//			}
//		}
//	})
//	err := source.Run(ctx, client, numbers, "lines", "importer-of-lines")
//
// The nouns of the package:
//
//   - a [Source] gives items, beginning at a position: a file, a table with a growing key, a
//     log of another system. It keeps no state between two reads.
//   - a [Position] is up to 64 bytes in which the source says where it stands; nobody else
//     looks into them.
//   - an [Item] is some records that belong together, and the position behind them. They are
//     stored in one batch and the position with them: all or nothing.
//   - a run, by [Run], is one name, one source and one partition, see [Partition].
//   - [Progress] says how far a run is; [Stats] and [OnProgress] give it.
//
// # How it works
//
// The name is that of a producer, see [sdk.ProducerBuilder.Named], and the position is stored
// by the server in the very batch whose records it stands behind, see
// [sdk.ProducerBuilder.Position]. There is no second place that could disagree, so a run
// begins where the topic says that the last one ended. When a record does not come to be
// stored, nothing behind it does; the run closes its producer, pauses, builds another one,
// asks where it stands and reads on from there. An outcome that is unknown needs no guess: the
// position that the server has is behind that item, or it is not.
//
// # Two at once
//
// Who starts with a name takes it over. The run that had it ends with [sdk.ErrFenced] as soon
// as it sends something, and does not take the name back. A run whose producer failed looks,
// before it builds another, whether the position at the server is explained by what it sent
// itself: if not, another run was there meanwhile, and this one ends with [ErrMoved]. One thing
// it cannot see: a run that took over in such a pause and has stored no more than was under
// way here. From that one it takes the name, and that one ends with [sdk.ErrFenced]. Whoever
// goes on, no record is lost or doubled.
//
// What ends a run, and what it pauses for, is listed at [Run]. The settings with their default
// and their bounds; + is what more of it costs, or having it at all, and - is what less costs, or
// doing without:
//
//	Partition      the only one    a partition of the topic
//	               + one partition's speed
//	               - the topic must have a single partition
//	Outbox         none            a directory of its own
//	               + a sync of the local disk for each batch; the source could be read again instead
//	               - after a crash the source is read again from the position that is stored
//	Backoff        100 ms, 30 s    1 ms to 1 h; the pause before attempt n is random up to first*2^n
//	               + a source or a server that is well again waits longer for the next attempt
//	               - a server in trouble is asked more often
//	CloseTimeout   10 s            10 ms to 10 min
//	               + a run that is to end takes that long when the server does not answer
//	               - more of what is under way is read again by the next run
//	OnProgress     none            called from one goroutine, in the time of ProgressEvery and at the end
//	               + the end of the run waits until it returns
//	               - progress is seen in Stats and in the log only
//	ProgressEvery  1 s             1 ms to 1 h
//	               + OnProgress knows less of what is going on
//	               - more calls, each reads all counters
//	WithStats      none            one that no other run has
//	               + nothing: the counters are kept anyway
//	               - nobody can look at them between two calls of OnProgress
//	WithLogger     none            any
//	               + a line for each begin and each pause
//	               - why a run pauses is seen by OnProgress only
//	Producer       the defaults    anything but name, position, partition and outbox
//	               + as in the table of package sdk
//	               - as in the table of package sdk
//
// The package never reads ahead of the producer's buffer, never sends an item in front of
// which something is missing, and never takes the word of a callback that failed for what is
// stored. It links nothing that package sdk does not.
package source
