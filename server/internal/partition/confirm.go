package partition

import "github.com/quoin-io/quoin/batchfmt"

// Confirm notes up to which sequence the application of a lane was given every outcome, for a
// lane that sends no batch which could say so. What comes before the owner has looked counts
// as one, so that a client cannot fill the queue with it.
func (p *Partition) Confirm(o *Opening, through batchfmt.Seq) {
	if o.grant == nil {
		return // nothing is remembered of a plain lane
	}
	o.confirm.through.Store(int64(through))
	if o.confirm.queued.Swap(true) {
		return
	}
	p.do(func() { // when the partition is closed it does not matter any more
		o.confirm.queued.Store(false)
		if o.number != 0 && o.grant.Holds() {
			p.owner.state.Confirm(o.grant.ID, batchfmt.Seq(o.confirm.through.Load()))
		}
	})
}
