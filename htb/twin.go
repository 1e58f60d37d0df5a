package htb

import (
	"math"
	"slices"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// This file is about classes that other gateways have too (Spec.Sync). Each gateway's
// twin of such a class decides alone, on buckets of full size. Once in an interval it
// reports what it used, and is told what all twins together have used: what the others
// used is charged to it like traffic of its own. Between two answers it is charged what
// the others will presumably use, a little at a time.

// Report says what one gateway has used of a class since its twin there was made. Sums, not differences: a
// report that got lost is in the next one, and one that comes twice changes nothing.
type Report struct {
	Path       string
	Rate, Ceil Limit    // of the class
	Used       [2]int64 // units charged to rate and ceil, less refunds
	Base       [2]int64 // Used as of the latest answer

	class *class
}

// Shared is the answer to a Report: the class as all gateways use it.
type Shared struct {
	Owed     [2]time.Duration // until the rate and the ceil bucket are full; more than they take is a debt
	Total    [2]int64         // units that all gateways have used; only differences count
	Gateways int              // that use it, this one included
}

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
	// drifts is how often in an interval a twin is charged what others will use.
	drifts = 8
	// warm is how many intervals after its last use a twin still reports, so that it
	// knows what others do when it is used again.
	warm = 10
	// ttlIntervals is how many intervals a gateway that is not heard of counts as one.
	ttlIntervals = 5
	// sure is which part of an equal part of a class is a gateway's whatever others use.
	// The rest is for who asks first, and what repays debts.
	sure = .9
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
	due      Time // of the next report
	seen     Time // of the latest answer; before the first, when it came into use
	drifted  Time // until here it was charged for others
	idle     int  // reports since it was last used
	reported bool // ever
}

// use is one bucket's.
type use struct {
	told, base int64   // used, as of the latest report and the latest answer
	total      int64   // by all, as of the latest answer
	known      bool    // total is
	others     float64 // the part of what fills the bucket that others use
}

// hub is what the twins of a tree have in common.
type hub struct {
	hot []*class // in use
	ttl time.Duration

	outage   Outage
	gateways int // during it there are no fewer
}

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
		x.twin, x.cold = nil, false
	case x.twin == nil:
		x.twin, x.cold = &twin{gateways: 1}, true
		x.twin.floor = x.mostFloor()
	}
}

// part returns what of a class is its gateway's for sure, in 2^-32.
func (w *twin) part() uint32 { return uint32(sure * math.MaxUint32 / float64(w.gateways)) }

// closed returns how many levels above x a class is that an outage closes.
func (x *class) closed() (level int, ok bool) {
	for ; x != nil && x.hub.outage == Closed; level, x = level+1, x.parent {
		if x.twin != nil {
			return level, true
		}
	}
	return 0, false
}

// unbounded reports whether an outage opens x.
func (x *class) unbounded() bool { return x.twin != nil && x.hub.outage == Open }

// inFloor reports whether need is this gateway's whatever others use.
func (x *class) inFloor(need Ticks) bool { return x.twin != nil && !x.floor().Less(need) }

// floor returns what is this gateway's for sure.
func (x *class) floor() Ticks {
	return x.twin.floor.Sub(x.ticks.Cost(x.counts.gets - x.twin.spent))
}

// mostFloor is how much of its floor a gateway may save up: at least one unit.
func (x *class) mostFloor() Ticks {
	return larger(x.rate.Size().Part(x.twin.part()), x.ticks.Cost(1))
}

// used returns what was charged to bucket i, less refunds: its counters say so.
func (x *class) used(i int) int64 {
	if i == 0 {
		return x.counts.gets - x.counts.borrows
	}
	return x.counts.gets
}

// heat makes x one that reports.
func (x *class) heat(now Time) {
	w := x.twin
	x.cold = false
	w.due, w.seen, w.drifted = now, now, now
	for i := range w.of {
		w.of[i].known, w.of[i].others = false, 0
	}
	x.hub.hot = append(x.hub.hot, x)
}

// untilHeard returns wait, how long after a refusal the request would pass, where it
// depends on other gateways: they are heard of again within an interval.
func (x *class) untilHeard(v verdict, wait time.Duration) time.Duration {
	for ; x != nil && (wait == Never || v.why == NoStore); x = x.parent {
		if x.twin != nil {
			return x.spec.Sync
		}
	}
	return wait
}

// Reports appends to reports what the twins that are in use, and whose turn it is, have
// to tell. Names on paths of classes made from a template are data.
func (t *Tree) Reports(now Time, reports []Report) []Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	t.hub.hot = slices.DeleteFunc(t.hub.hot, func(x *class) bool {
		w := x.twin
		if w == nil || x.dropped {
			return true
		}
		if now < w.due {
			return false
		}
		w.due = now.Add(x.spec.Sync)
		w.idle++
		for i := range w.of {
			if used := x.used(i); used != w.of[i].told || used != w.of[i].base {
				w.of[i].told, w.idle = used, 0
			}
		}
		if w.idle > warm {
			x.cold = true
			return true
		}
		w.reported = true
		reports = append(reports, x.report())
		return false
	})
	return reports
}

// Twins returns a report for every class with Sync that is in the tree now, in use or
// not: to learn at the start what other gateways have used.
func (t *Tree) Twins(now Time) (all []Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	t.root.walk(func(x *class) {
		if x.twin != nil {
			all = append(all, x.report())
		}
	})
	return all
}

// walk visits x and all below it, named ones first.
func (x *class) walk(visit func(*class)) {
	visit(x)
	if x.in == nil {
		return
	}
	for _, c := range x.in.named {
		c.walk(visit)
	}
	for _, r := range x.in.dyn.resting {
		r.child.walk(visit)
	}
	if o := x.in.dyn.overflow; o != nil {
		o.walk(visit)
	}
}

func (x *class) report() Report {
	u := &x.twin.of
	s := &x.spec
	return Report{
		Path: x.path(), Rate: Limit{s.Rate, s.Burst}, Ceil: Limit{s.Ceil, s.CBurst},
		Used: [2]int64{x.used(0), x.used(1)}, Base: [2]int64{u[0].base, u[1].base},
		class: x,
	}
}

// Reconcile takes the answer to a report, which ends an outage for its class. A report from before
// another answer, or of a class that is no more, is nothing.
func (t *Tree) Reconcile(now Time, r Report, s Shared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	x := r.class
	w := x.twin
	if w == nil || x.dropped || r.Base != [2]int64{w.of[0].base, w.of[1].base} {
		return
	}
	x.drift(now)
	w.gateways = max(1, s.Gateways)
	passed := now.Sub(w.seen).Seconds()
	for i, rate := range [...]algo.Rate{x.spec.Rate, x.spec.Ceil} {
		u := &w.of[i]
		u.learn(r.Used[i], s.Total[i], rate.PerSecond()*passed, w.gateways)
		x.correct(now, i, s.Owed[i], x.used(i)-u.base)
	}
	w.seen = now
}

// learn takes in what all have used, and from that what others are going to use, of a
// bucket that was filled with brought.
func (u *use) learn(reported, total int64, brought float64, gateways int) {
	if u.known && brought > 0 && total >= u.total {
		others := float64(total-u.total) - float64(reported-u.base)
		// Everybody makes way for what one uses more, each by an equal part of it: all
		// of it each, and they would swing.
		u.others += (max(0, others)/brought - u.others) / float64(gateways)
		u.others = min(u.others, 1)
	}
	u.base, u.total, u.known = reported, total, true
}

// bucket returns that of the rate, 0, or of the ceil, 1.
func (x *class) bucket(i int) algo.Bucket {
	if i == 0 {
		return x.rate
	}
	return x.ceil
}

func (x *class) tat(i int) Ticks {
	if i == 0 {
		return x.rateTAT
	}
	return x.ceilTAT
}

// correct moves bucket i to where all twins together have brought it, and this one by
// units more. What is less than an interval brings each gateway makes up for a part of,
// or they would all make up for the same.
func (x *class) correct(now Time, i int, owed time.Duration, units int64) {
	b := x.bucket(i)
	truth := algo.Times(uint64(max(0, owed)), b.Fill())
	if units > 0 {
		truth = truth.Add(x.ticks.Cost(units))
	} else {
		truth = truth.Sub(x.ticks.Cost(-units))
	}
	small := algo.Times(uint64(x.spec.Sync), b.Fill())
	if n := uint64(x.twin.gateways); n > 1 {
		have := b.Owed(x.tat(i), now)
		if more, less := truth.Sub(have), have.Sub(truth); more.Less(small) && less.Less(small) {
			part := uint32(1 << 32 / n)
			truth = have.Add(more.Part(part)).Sub(less.Part(part))
		}
	}
	x.move(now, i, truth)
}

// move charges or refunds bucket i until it lacks owed.
func (x *class) move(now Time, i int, owed Ticks) {
	have := x.bucket(i).Owed(x.tat(i), now)
	x.elsewhere(now, i, owed.Sub(have))
	x.giveBack(now, i, have.Sub(owed))
}

// elsewhere charges bucket i for what others use.
func (x *class) elsewhere(now Time, i int, need Ticks) {
	switch {
	case need.IsZero():
	case i == 0:
		x.chargeRate(now, need)
	default:
		x.ceilTAT = x.ceil.Charge(x.ceilTAT, now, need)
	}
}

// giveBack is its inverse.
func (x *class) giveBack(now Time, i int, back Ticks) {
	switch {
	case back.IsZero():
	case i == 0:
		x.refundRate(now, back)
	default:
		x.ceilTAT = x.ceil.Refund(x.ceilTAT, back)
	}
}

// Drift charges the twins in use what others will have used by now, for all that is
// known. It wants to be called several times in an interval; [Tree.Drifts] says how
// often.
func (t *Tree) Drift(now Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	t.drift(now)
}

func (t *Tree) drift(now Time) {
	for _, x := range t.hub.hot {
		if x.twin != nil && !x.dropped {
			x.drift(now)
		}
	}
}

func (x *class) drift(now Time) {
	w := x.twin
	passed := now.Sub(w.drifted)
	if passed <= 0 {
		return
	}
	w.drifted = now
	part := w.part()
	equal := 1 / float64(max(w.gateways, x.hub.gateways))
	if x.hub.outage == Local {
		part = uint32(equal * math.MaxUint32)
	}
	brought := algo.Times(uint64(passed), x.rate.Fill())
	w.floor, w.spent = x.floor().Add(brought.Part(part)), x.counts.gets
	if most := x.mostFloor(); most.Less(w.floor) {
		w.floor = most
	}
	for i := range w.of {
		part := w.of[i].others
		if x.hub.outage == Local {
			part = 1 - equal
		}
		brought := algo.Times(uint64(passed), x.bucket(i).Fill())
		x.elsewhere(now, i, brought.Part(uint32(part*math.MaxUint32)))
	}
}

// Disconnected says that answers do not come any more, what to do, and how many gateways
// there are at least; the zero Outage, that they come again.
func (t *Tree) Disconnected(now Time, o Outage, gateways int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drift(t.advance(now))
	t.hub.outage, t.hub.gateways = o, gateways
}

// SyncTTL returns how long the store is to remember a gateway that it does not hear of.
func (s Spec) SyncTTL() time.Duration {
	longest := ttlIntervals * s.Sync
	for _, c := range s.Children {
		longest = max(longest, c.SyncTTL())
	}
	return max(longest, time.Second)
}

// SyncEvery returns the shortest interval at which classes of the tree are to be
// reconciled; 0 if none is.
func (s Spec) SyncEvery() time.Duration {
	least := s.Sync
	for _, c := range s.Children {
		if d := c.SyncEvery(); d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}
