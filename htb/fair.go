package htb

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// This file shares excess, what a class passes on to its children beyond their
// guarantees, max-min fairly, also when nothing queues: docs/fair-borrowing.md.
//
// Every child has a mark, the excess it was given over its quantum, and its parent a
// clock, the largest mark at which anybody was served. A child whose mark is over the
// clock is ahead: it has had its share. All others are behind. A class lends to those
// behind down to its last token, to those ahead only what lies over a part that it
// keeps for the others. So tokens wait a moment for who is behind, and go to anyone
// before they would be lost.

// place says how much of what a class can have over its reserve a request must leave
// to others: 0, nothing, for those who come first. Places are compared before anything
// else: a class that is ahead of its siblings comes after them whatever its own
// children do.
type place = uint32

const (
	// kept is the part of what a class can have over its reserve that those who come
	// last must leave; where its children have several prios, keptByPrio of the rest for
	// each further one. More protects large requests of those who ask seldom, less makes
	// the most of traffic that comes in clusters.
	kept       = 1. / 3
	keptByPrio = 1. / 5

	// forget is how many windows make an epoch. A mark of the epoch before last no longer
	// counts as ahead, whoever was served since; a prio at which nobody was served for as
	// long has no part of the tokens to itself.
	forget = 32

	// unitStep is how far a loan of one unit moves the mark of the child with the
	// largest quantum.
	unitStep = 1 << 24

	// leeway is how far a mark may be over the clock without being ahead: what moves the
	// mark of the largest quantum by 1 in so many of what a class can have over its
	// reserve. Those who ask seldom are then not ahead with their second request.
	leeway = 32
)

// sharing is the part of a class's plan by which it lends and borrows.
type sharing struct {
	// as a child
	turn int    // of its prio, among those of its siblings
	step uint64 // of its mark, per unit

	// as a parent
	prios              int     // of its children
	last               float64 // the last place there is
	keeps              uint64  // what who comes last must leave, over last, in 2^-32
	window             window  // over which shares are evened out
	lead               Ticks   // by how much marks may be over the clock
	rateOver, ceilOver Ticks   // what the buckets hold at most over the reserve

	// How much may be missing from the buckets after a loan of 1 or more that leaves what
	// the class keeps at most, for any place and any reserve.
	lendRate, lendCeil Ticks
}

// shareOut fills in how p lends to its children.
func (p *plan) shareOut() {
	all := p.children
	if p.template != nil {
		all = append(all[:len(all):len(all)], p.template)
	}
	var prios []int
	heaviest := 0.0
	for _, q := range all {
		prios = append(prios, q.spec.Prio)
		heaviest = max(heaviest, q.spec.Weight())
	}
	slices.Sort(prios)
	prios = slices.Compact(prios)
	over := p.spec.Burst - p.promisedUnits
	p.prios = len(prios)
	below := 0.
	for _, q := range all {
		below = max(below, q.last)
	}
	p.last = (float64(p.prios-1) + .25 + .75*below) / float64(p.prios)
	keep := 1 - (1-kept)*math.Pow(1-keptByPrio, float64(p.prios-1))
	p.keeps = uint64(keep / p.last * (1 << 32))
	p.window = window(max(100*time.Millisecond, p.spec.Ceil.Takes(max(over, 4))))
	p.rateOver, p.ceilOver = p.rate.Size().Sub(p.promised), p.ceil.Size().Sub(p.promised)
	most := uint32(keep*(1<<32)) + 1
	p.lendRate = p.rate.Size().Sub(p.promised.Add(p.rateOver.Sub(p.ticks.Cost(1)).Part(most)))
	p.lendCeil = p.ceil.Size().Sub(p.promised.Add(p.ceilOver.Sub(p.ticks.Cost(1)).Part(most)))
	p.lead = algo.Times(uint64(over), unitStep/leeway)
	for _, q := range all {
		q.turn = slices.Index(prios, q.spec.Prio)
		q.step = uint64(min(math.Round(unitStep*heaviest/q.spec.Weight()), 1<<62))
	}
}

// steps returns by how much a loan of cost moves the mark.
func (p *plan) steps(cost int64) Ticks { return algo.Times(uint64(cost), p.step) }

// window is a length of time; windows follow on each other from the first Time on.
type window time.Duration

func (w window) at(now Time) uint64 { return (uint64(now) ^ 1<<63) / uint64(w) }

// begins returns when the n-th window begins.
func (w window) begins(n uint64) Time {
	hi, begin := bits.Mul64(n, uint64(w))
	if hi > 0 {
		return math.MaxInt64
	}
	return Time(begin ^ 1<<63)
}

// epoch returns when the n-th epoch after that of a window begins.
func (w window) epoch(window, n uint64) Time { return w.begins((window/forget + n) * forget) }

// clock is how far a class has come in lending to its children of one prio.
type clock struct {
	window   uint64 // of the latest loan
	now      Ticks  // the largest mark at which a child was served
	mid, old Ticks  // now at the begin of window, and of the window before
	top      Ticks  // the largest mark a child was given
	was, low Ticks  // top at the begin of the epoch, and of the epoch before
	begun    Time   // when window did
	lasts    uint64 // how long it lasts; 0: neither is known
}

// least returns what counts as a mark at least, in the clock's window or a later one:
// who has not asked for a while makes up for one to two windows, no more.
func (k *clock) least(window uint64) Ticks {
	mark := k.now
	switch window - k.window {
	case 0:
		mark = k.old
	case 1:
		mark = k.mid
	}
	return larger(mark, k.forgotten(window))
}

// forgotten returns the largest mark that no longer counts as ahead.
func (k *clock) forgotten(window uint64) Ticks {
	switch window/forget - k.window/forget {
	case 0:
		return k.low
	case 1:
		return k.was
	}
	return k.top
}

// pace returns how far the clock came in the last window but this one.
func (k *clock) pace(window uint64) Ticks {
	begin := k.now
	if window == k.window {
		begin = k.mid
	}
	return larger(begin, k.forgotten(window)).Sub(k.least(window))
}

// roll moves the clock on to the window that now is in.
func (k *clock) roll(w window, now Time) {
	window := w.at(now)
	k.begun, k.lasts = w.begins(window), uint64(w)
	if window == k.window {
		return
	}
	clock, least := larger(k.now, k.forgotten(window)), k.least(window)
	if k.low = k.forgotten(window); window/forget != k.window/forget {
		k.was = k.top
	}
	k.now, k.mid, k.old, k.window = clock, clock, least, window
}

// passes returns when mark is the least there is, if nothing more is lent.
func (k *clock) passes(w window, mark Ticks) Time {
	at := w.epoch(k.window, 2)
	if !k.was.Less(mark) {
		at = w.epoch(k.window, 1)
	}
	switch {
	case !k.mid.Less(mark):
		return min(at, w.begins(k.window+1))
	case !k.now.Less(mark):
		return min(at, w.begins(k.window+2))
	}
	return at
}

func larger(a, b Ticks) Ticks {
	if a.Less(b) {
		return b
	}
	return a
}

// clock returns that of x's parent for x.
func (x *class) clock() *clock { return &x.parent.in.clocks[x.turn] }

// ahead says whether x has had its share of its parent's excess. A class whose own
// children must leave something to each other is ahead sooner, so that what it is
// behind by is theirs who come first: by that part of what a window brings.
func (x *class) ahead(window uint64, below place) bool {
	k := x.clock()
	mark := x.mark.Sub(x.parent.lead)
	if below > 0 {
		mark = mark.Add(k.pace(window).Part(below))
	}
	return k.now.Less(mark) && k.forgotten(window).Less(mark)
}

// place returns that of a request of x at its parent, given that at x. Each prio in use
// has an equal part of the places: those behind its lower end, those ahead the rest but
// for a quarter, which lies between the two.
func (x *class) place(now Time, below place) place {
	window := x.parent.window.at(now)
	before, all := uint64(0), uint64(1)
	for i := range x.parent.in.clocks {
		if i != x.turn && window-x.parent.in.clocks[i].window < forget {
			if all++; i < x.turn {
				before++
			}
		}
	}
	at := before << 32
	if x.ahead(window, below) {
		at += 1<<30 + uint64(below)/4*3
	}
	return place(at / all)
}

// changes tells of every time, maybe past, at which places by k change by themselves.
func (k *clock) changes(w window, at func(Time)) {
	at(w.begins(k.window + 1))
	at(w.begins(k.window + 2))
	at(w.begins(k.window + forget))
	at(w.epoch(k.window, 1))
	at(w.epoch(k.window, 2))
}

// leaving returns how much x must have over its reserve to lend need to a leaf at a
// place, of most that it can have.
func (x *class) leaving(now Time, need, most Ticks, at place, leaf *class) Ticks {
	if at == 0 || most.Less(need) {
		return need
	}
	keep := most.Sub(need).Part(place(uint64(at) * x.keeps >> 32))
	if c := &x.in.claim; c.by != nil && c.by != leaf && c.at < at && now < c.until {
		keep = larger(keep, c.need)
	}
	return need.Add(keep)
}

// claim keeps tokens together for a request that found too few: those whose place is
// after its own must leave as many, even if a class cannot have that many, until it has
// come back or had the time to. Without it small requests would keep a class too short
// of tokens for large ones, and the quickest would win where there is one token at a time.
type claim struct {
	by    *class // the leaf
	need  Ticks
	at    place
	until Time
}

// stake makes a claim for a refused request of the leaf x that was first in line, at
// the class that was short of tokens; it would pass after wait. Who did not come back
// for a claim makes none for an epoch. It reports whether that changed anything.
func (x *class) stake(now Time, need Ticks, wait time.Duration) (changed bool) {
	if wait == Never || need.IsZero() || x.parent == nil || !x.underCeil(now, need) {
		return false
	}
	if x.staked && now >= x.stakedUntil && now < x.stakeForgotten() {
		return false
	}
	leaf, at := x, place(0)
	for x.parent != nil {
		if x.ahead(x.parent.window.at(now), at) {
			return false
		}
		at, x = x.place(now, at), x.parent
		lacks := x.leaving(now, need, x.ceilOver, at, leaf)
		if x.parent != nil && x.underCeil(now, lacks.Add(x.reserved(now))) {
			continue
		}
		if c := &x.in.claim; c.by == nil || c.by == leaf || now >= c.until || at < c.at || at == c.at && c.need.Less(lacks) {
			was, w := *c, time.Duration(x.window)
			until := x.window.begins(x.window.at(now) + forget) // the same as long as places are
			*c = claim{leaf, lacks, at, min(now.Add(wait), until).Add(w / 4)}
			changed = *c != was || !leaf.staked || leaf.stakedUntil != c.until
			leaf.staked, leaf.stakedUntil = true, c.until
		}
		return changed
	}
	return false
}

// stakeForgotten returns when it is forgotten that x did not come back for a claim.
func (x *class) stakeForgotten() Time {
	return x.stakedUntil.Add(forget * time.Duration(x.parent.window))
}

// unstake takes back the claim of a leaf that has been served.
func (x *class) unstake() {
	leaf := x
	leaf.staked = false
	for x = x.parent; x != nil; x = x.parent {
		if x.in.claim.by == leaf {
			x.in.claim = claim{}
		}
	}
}

// borrow moves the marks of x and of the classes above it below the lender.
func (x *class) borrow(now Time, lender int, cost int64) {
	if cost == 0 {
		return
	}
	for ; lender > 0; lender-- {
		x.advance(now, cost)
		x = x.parent
	}
}

// advance moves the mark of x for a loan, counted from the least that counts, and its
// parent's clock.
func (x *class) advance(now Time, cost int64) {
	up := x.parent
	k := &up.in.clocks[x.turn]
	if uint64(now)-uint64(k.begun) >= k.lasts {
		k.roll(up.window, now)
	}
	mark := larger(x.mark, k.old)
	k.now = larger(k.now, mark.Sub(up.lead))
	mark = mark.Add(x.steps(cost))
	k.top = larger(k.top, mark)
	x.mark = mark
}

// reborrow corrects the marks of a loan.
func (x *class) reborrow(lender int, more int64) {
	for ; lender > 0 && !x.dropped; lender-- {
		if more < 0 {
			x.mark = x.mark.Sub(x.steps(-more))
		} else {
			x.mark = x.mark.Add(x.steps(more))
			k := x.clock()
			k.top = larger(k.top, x.mark)
		}
		x = x.parent
	}
}

// sharesRest returns when the mark of x, and the clocks and the claim by which it
// lends, are as good as those of a new class, if nothing more is lent.
func (x *class) sharesRest(now Time) Time {
	at := Time(math.MinInt64)
	if x.sh != nil { // a queue has its order
		return at
	}
	if x.parent != nil {
		k := x.clock()
		if k.least(x.parent.window.at(now)).Less(x.mark) {
			at = k.passes(x.parent.window, x.mark)
		}
	}
	if x.staked {
		at = max(at, x.stakeForgotten())
	}
	if x.in != nil {
		for i := range x.in.clocks {
			if k := &x.in.clocks[i]; *k != (clock{}) {
				at = max(at, x.window.begins(k.window+forget), k.passes(x.window, k.top))
			}
		}
	}
	return at
}
