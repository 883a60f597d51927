package lane

import "time"

// How long an answer may take. An opening ends with its stream, and a stream loses nothing:
// while it lives, an answer that does not come is late, not lost, unless the server has
// forgotten it. To open the lane anew then only gives a busy server the same work twice. So
// patience is there for servers with a fault, and is long for the others.
const (
	// minPatience is longer than a connection lives whose server has fallen silent, which package
	// transport ends within about four seconds, and than nearly any pause of a disk.
	minPatience = 10 * time.Second
	maxPatience = time.Minute
	// gapPatience is for an answer that was overtaken. A server answers what came in one
	// opening in its order, so that such an answer is one that it has lost.
	gapPatience = 200 * time.Millisecond
)

// A patience says how long to wait for the next answer, from the times of those that came,
// by the rules that TCP has for its retransmissions (RFC 6298): the smoothed time and four
// times its mean deviation, and twice as long after every time that it was too short.
type patience struct {
	usual  time.Duration // smoothed time to an answer; 0 before the first
	spread time.Duration // smoothed deviation from that
	losses int           // times in a row that it was at its end
}

// answered notes that the answer to the only attempt of a batch took d. That of a batch which
// was sent again says nothing: the server may have had it already (the rule of Karn). So
// lengthened patience stays long until a first attempt is answered.
func (p *patience) answered(d time.Duration) {
	p.losses = 0
	if p.usual == 0 {
		p.usual, p.spread = max(d, 1), d/2
		return
	}
	p.spread += ((p.usual - d).Abs() - p.spread) / 4
	p.usual = max(p.usual+(d-p.usual)/8, 1)
}

// exhausted notes that what was waited for did not come.
func (p *patience) exhausted() { p.losses++ }

// length is how long the answer to a batch may take, and that to an opening, which waits for what
// the server has in flight of the lane.
func (p *patience) length() time.Duration {
	d := min(max(p.usual+4*p.spread, minPatience), maxPatience)
	return min(d<<min(p.losses, 6), maxPatience)
}
