package htb

import (
	"math"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// This file is about classes that other gateways have too (Spec.Sync). Each gateway's
// twin of such a class decides alone, on buckets of full size. Once in an interval it
// reports what it used, and is told what all twins together have used: what the others
// used is charged to it like traffic of its own. Between two answers it is charged what
// the others will presumably use, a little at a time.

// Drifts is how often in an interval [Tree.Drift] wants to be called.
const Drifts = 8

// Outage says how classes that gateways share are policed while no answers come.
type Outage uint8

// The ways through an outage. The zero Outage is none.
const (
	_ Outage = iota
	// Local keeps each gateway to an equal part of the rate.
	Local
	// Closed admits nothing.
	Closed
	// Open admits whatever other classes admit.
	Open
)

// String names o as tree files do.
func (o Outage) String() string {
	return [...]string{"none", "local", "closed", "open"}[min(o, Open)]
}

const (
	// warm is how many intervals after it was last asked a twin still reports, so that it
	// knows what others do when it is asked again; patient is for how many more it tries, if
	// it did not get an answer.
	warm    = 10
	patient = 1000
	// outAfter is how many reports in a row have no answer when it is an outage.
	outAfter = 2
	// ttlIntervals is how many intervals a gateway that is not heard of counts as one.
	ttlIntervals = 5
	// sure is which part of an equal part of a class is a gateway's whatever others use.
	// The rest is for who asks first, and what repays debts.
	sure = .9
	// sureInDebt is that while all twins together owe more than what they bring in two
	// intervals each, so that debts are repaid.
	sureInDebt = .5
)

// twin is what a class has besides that other gateways have too.
//
// What is charged for others may leave a debt. But floor is this gateway's all the same:
// it grows at sure of an equal part of the rate, up to as much of the burst.
type twin struct {
	of       [2]use // rate, ceil
	gateways int
	floor    Ticks // when used was spent
	spent    int64
	due      Time     // of the next report
	seen     Time     // of the latest answer; before the first, when it came into use
	drifted  Time     // until here it was charged for others
	held     [2]int64 // by Pendings, of rate and ceil
	copy     uint64   // its number among the twins of the tree
	asked    int64    // units, as of the latest report
	idle     int      // reports since it was last asked
	missed   int      // reports in a row without an answer
	reported bool     // ever
	deep     bool     // in debt
}

// use is one bucket's.
type use struct {
	base   int64   // used, as of the latest answer
	total  int64   // by all, as of the latest answer
	known  bool    // total is
	others float64 // the part of what fills the bucket that others use
}

// hub is what the twins of a tree have in common.
type hub struct {
	hot    []*class // in use
	next   int      // in hot: whose turn it is
	copies uint64   // made
	ttl    time.Duration

	outage   Outage // of all
	policy   Outage // of those that miss answers
	missing  int    // how many those are
	gateways int    // in an outage there are no fewer, by who tells of it
}

// closes reports whether an outage closes a class.
func (h *hub) closes() bool { return h.outage == Closed || h.policy == Closed && h.missing > 0 }

// remembered returns until when the store may know what x has used: a new twin of it
// would begin at 0, and what it said be taken for refunds.
func (x *class) remembered(now Time) Time {
	if !x.cold {
		return now.Add(recheck)
	}
	if !x.twin.reported {
		return math.MinInt64
	}
	return x.twin.seen.Add(2 * x.hub.ttl)
}

// join gives h to p and all below it.
func (p *plan) join(h *hub) {
	p.hub = h
	for _, q := range p.children {
		q.join(h)
	}
	if p.template != nil {
		p.template.join(h)
	}
}

// twinned gives x what its plan says it needs of a twin, or takes it away.
func (x *class) twinned() {
	switch {
	case x.spec.Sync == 0 || x.use != toPolice:
		if x.twin != nil && x.twin.missed >= outAfter {
			x.hub.missing--
		}
		x.twin, x.cold = nil, false
	case x.twin == nil:
		x.hub.copies++
		x.twin, x.cold = &twin{gateways: 1, copy: x.hub.copies}, true
		x.twin.asked, x.twin.spent = plus(x.counts.gets, x.counts.rejected), x.used(1)
		for i := range x.twin.of {
			x.twin.of[i].base = x.used(i)
		}
	}
}

// gateways returns how many gateways there are, for all that is known.
func (x *class) gateways() int { return max(x.twin.gateways, x.hub.gateways) }

// othersPart returns what of a class is not in an equal part of it, in 2^-32.
func (x *class) othersPart() uint32 { return uint32((1 - 1/float64(x.gateways())) * math.MaxUint32) }

// part returns what of a class is its gateway's for sure, in 2^-32.
func (w *twin) part() uint32 {
	part := sure
	if w.deep {
		part = sureInDebt
	}
	return uint32(part * math.MaxUint32 / float64(w.gateways))
}

// outage returns what holds for x, whose twins may be out of touch.
func (x *class) outage() Outage {
	switch {
	case x.twin == nil:
		return 0
	case x.twin.missed >= outAfter:
		return x.hub.policy
	}
	return x.hub.outage
}

// closed returns how many levels above x a class is that an outage closes.
func (x *class) closed() (level int, ok bool) {
	for ; x != nil; level, x = level+1, x.parent {
		if x.outage() == Closed {
			return level, true
		}
	}
	return 0, false
}

// inTouch reports whether x and those above it that other gateways have too report, and no
// outage closes any.
func (x *class) inTouch() bool {
	if x.hub.closes() {
		return false
	}
	for ; x != nil; x = x.parent {
		if x.cold {
			return false
		}
	}
	return true
}

// unbounded reports whether an outage opens x.
func (x *class) unbounded() bool { return x.outage() == Open }

// inFloor reports whether need is this gateway's whatever others use.
func (x *class) inFloor(need Ticks) bool { return x.twin != nil && !x.floor().Less(need) }

// floor returns what is this gateway's for sure.
func (x *class) floor() Ticks {
	w := x.twin
	spent := x.used(1) - w.spent
	if spent >= 0 {
		return w.floor.Sub(x.ticks.Cost(spent))
	}
	return smaller(w.floor.Add(x.ticks.Cost(-spent)), x.mostFloor())
}

func smaller(a, b Ticks) Ticks {
	if b.Less(a) {
		return b
	}
	return a
}

// mostFloor is how much of its floor a gateway may save up: at least one unit.
func (x *class) mostFloor() Ticks {
	return larger(x.rate.Size().Part(x.twin.part()), x.ticks.Cost(1))
}

// used returns what was charged to bucket i, less refunds: what its counters say, and
// what is held.
func (x *class) used(i int) int64 {
	n := x.counts.gets
	if i == 0 {
		n -= x.counts.borrows
	}
	return n + x.twin.held[i]
}

// hold books what a Pending holds, or less than 0 for what it holds no more, of the rates
// from a level above x on, and of all ceils.
func (x *class) hold(from int, units int64) {
	for j := 0; x != nil; j, x = j+1, x.parent {
		if x.twin == nil {
			continue
		}
		x.twin.held[1] += units
		if j >= from {
			x.twin.held[0] += units
		}
	}
}

// heat makes x one that reports.
func (x *class) heat(now Time) {
	w := x.twin
	x.cold = false
	if w.reported { // what it was filled with meanwhile was not all for this gateway
		for i := range w.of {
			b := x.bucket(i)
			others := algo.Times(uint64(max(0, now.Sub(w.drifted))), b.Fill()).Part(x.othersPart())
			x.elsewhere(now, i, smaller(others, b.Tokens(x.tat(i), now)))
		}
	}
	w.due, w.seen, w.drifted = now, now, now
	for i := range w.of {
		w.of[i].known, w.of[i].others = false, 0
	}
	x.hub.hot = append(x.hub.hot, x)
}

// untilHeard returns wait, how long after a refusal the request would pass, where it
// depends on other gateways: what is this one's for sure grows, and others are heard of
// within an interval. It makes those report that had to refuse.
func (x *class) untilHeard(now Time, v verdict, need Ticks, wait time.Duration) time.Duration {
	for j := 0; x != nil; j, x = j+1, x.parent {
		if x.twin == nil {
			continue
		}
		if x.cold && !need.IsZero() {
			x.heat(now)
		}
		if v.why == AtCeil && v.by == j {
			wait = min(wait, x.untilFloor(need))
		}
		if wait == Never || v.why == NoStore {
			wait = x.spec.Sync
		}
	}
	return wait
}

// untilFloor returns how long it takes until the floor of x holds need.
func (x *class) untilFloor(need Ticks) time.Duration {
	if x.mostFloor().Less(need) {
		return Never
	}
	each := float64(x.rate.Fill()) * float64(x.twin.part()) / math.MaxUint32
	left := math.Ceil(need.Sub(x.floor()).Float() / each)
	return time.Duration(min(left, float64(Never)/2)) + x.spec.Sync/Drifts
}
