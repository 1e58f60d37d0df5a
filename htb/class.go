package htb

import (
	"container/heap"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Time is an instant: nanoseconds since any fixed start, the same for all calls
// on a tree. Nothing in this package reads a clock.
type Time = algo.Time

// Ticks is an amount of tokens; see [algo.Ticks].
type Ticks = algo.Ticks

// class is the state of one class: a TAT for its rate and one for its ceil, and,
// of an inner class, what it keeps for its children. All of it is guarded by the
// mutex of its tree.
type class struct {
	// What a request that passes changes at the root stands in one line of the
	// processor's cache, which cores that decide in turn take from each other.
	rateTAT, ceilTAT Ticks
	sumTAT           Ticks // of an inner class: see there
	counts           counts

	claimTAT Ticks // the rate bucket as the parent's reserve counts it: without debt
	mark     Ticks // how far it has come in borrowing, by the parent's clock
	filling  int   // 1 + index in parent's filling; 0 while it is full
	fullAt   Time  // there: no later than when it is full

	*plan
	parent *class // nil at the root
	in     *inner // nil for a leaf
	name   string

	alsoTAT     []Ticks
	stakedUntil Time // of a leaf with a claim
	staked      bool
	cold        bool     // has a twin that does not report
	dynamic     bool     // made from a template
	dropped     bool     // no longer in the tree; handles look for a live one
	unread      bool     // of a table: slot, name, plan and parent are this leaf's, the rest is still to be fetched
	open        int      // holds not settled yet
	sh          *shaping // of a tree that shapes
	twin        *twin    // of a class that other gateways have too
	attached    any      // to a leaf that is Remote
	slot        int      // 1 + that of its record, while it is in the parent's table
	refused     atomic.Pointer[refusal]

	_ [56]byte // to whole lines
}

// inner is what a class with children has besides: the children, and the
// reserve, the tokens those hold now and may claim at any moment.
//
// INVARIANT (covered class): the class's sumTAT and sumFill are the sums over exactly the
// children in filling, among them, once expire has run, none that is full: then
// sumTAT - t*sumFill is what is missing at t from what the children could claim at most.
// A child's debt is not in it, or it would hide what the others have saved.
type inner struct {
	named []*class          // in the order of the plan
	index map[string]*class // those and the live children of the template that are classes

	sumFill uint64
	filling fillHeap

	reserveTAT Ticks // oversubscribed: the reserve is a bucket of its own

	clocks []clock // by which the children are lent to, one a prio
	claim  claim

	dyn dynamic
}

func newClass(p *plan, parent *class, name string) *class {
	x := &class{plan: p, parent: parent, name: name}
	if len(p.also) > 0 {
		x.alsoTAT = make([]Ticks, len(p.also))
	}
	if p.use != toPolice {
		x.sh = newShaping(x)
	}
	x.twinned()
	if p.inner() {
		x.in = &inner{index: make(map[string]*class, len(p.children)), clocks: make([]clock, p.prios)}
		for _, q := range p.children {
			x.addNamed(newClass(q, x, q.spec.Name))
		}
	}
	return x
}

func (x *class) addNamed(child *class) {
	x.in.named = append(x.in.named, child)
	x.in.index[child.name] = child
}

// hasRate and underCeil report whether the bucket holds need.
func (x *class) hasRate(now Time, need Ticks) bool {
	return x.rate.Has(x.rateTAT, now, need) || x.inFloor(need) || x.unbounded()
}

func (x *class) underCeil(now Time, need Ticks) bool {
	return x.ceil.Has(x.ceilTAT, now, need) || x.inFloor(need) || x.unbounded()
}

// reserved returns the tokens that the children of an inner class hold now. Of a class
// that other gateways have too, what is this gateway's for sure may be lent all the same.
func (x *class) reserved(now Time) (r Ticks) {
	if x.oversub {
		r = x.reserve.Tokens(x.in.reserveTAT, now)
	} else {
		x.expire(now)
		r = x.promised.Sub(x.owed(now))
	}
	if x.twin != nil {
		for i := range x.twin.of {
			if most := x.bucket(i).Tokens(x.tat(i), now).Sub(x.floor()); most.Less(r) {
				r = most
			}
		}
	}
	return r
}

// chargeRate takes cost from the class's own rate, and from the reserve that its
// parent keeps for it.
func (x *class) chargeRate(now Time, cost Ticks) {
	x.rateTAT = x.rate.Charge(x.rateTAT, now, cost)
	up := x.parent
	if up == nil || x.dropped || x.sh != nil { // nothing is kept for a class that is gone; a shaper keeps nothing
		return
	}
	if have := x.rate.Tokens(x.claimTAT, now); !up.oversub && have.Less(cost) {
		cost = have // the rest is debt
	}
	x.keep(now, cost)
}

// refundRate is the inverse of chargeRate, for the same cost.
func (x *class) refundRate(now Time, cost Ticks) {
	x.rateTAT = x.rate.Refund(x.rateTAT, cost)
	up := x.parent
	if up == nil || x.dropped || x.sh != nil {
		return
	}
	if up.oversub {
		up.in.reserveTAT = up.reserve.Refund(up.in.reserveTAT, cost)
		return
	}
	up.expire(now)
	before := x.claimTAT
	x.claimTAT = x.rate.Refund(x.claimTAT, cost)
	if x.filling > 0 {
		up.sumTAT = up.sumTAT.Sub(before.Sub(x.claimTAT))
		x.fullAt = x.soonFull(now)
		heap.Fix(&up.in.filling, x.filling-1)
	}
}

// whenFull returns when the rate bucket is full if nothing more is taken.
func (x *class) whenFull() Time { return latest(x.rate.When(x.rateTAT, x.rate.Size())) }

// soonFull returns claimsAll or, without a division in 128 bits, a time from now on that
// is a little earlier.
func (x *class) soonFull(now Time) Time {
	const under = 1 - 1e-12 // more than the floats may round up
	owed := x.rate.Owed(x.claimTAT, now)
	if owed.IsZero() {
		return now
	}
	left := owed.Float() / float64(x.rate.Fill()) * under
	return now.Add(time.Duration(max(1, min(left, math.MaxInt64/2))))
}

// claimsAll returns when the parent's reserve counts the bucket as full.
func (x *class) claimsAll() Time { return latest(x.rate.When(x.claimTAT, x.rate.Size())) }

func latest(at Time, ok bool) Time {
	if !ok {
		return math.MaxInt64
	}
	return at
}

// owed returns what is missing from the children's rate buckets, once expire has run.
func (x *class) owed(now Time) Ticks {
	return x.sumTAT.Sub(algo.Instant(now, x.in.sumFill))
}

// startFilling adds a child whose rate bucket has just ceased to be full.
func (x *class) startFilling(now Time, c *class) {
	x.sumTAT = x.sumTAT.Add(c.claimTAT)
	x.in.sumFill += c.rate.Fill()
	c.fullAt = c.soonFull(now)
	heap.Push(&x.in.filling, c)
}

// expire takes out the children that have become full by now. Charges only move
// a child's filling time back, so the heap is mended when an entry comes up, not
// at every charge: each bucket that empties costs one visit.
func (x *class) expire(now Time) {
	in := x.in
	for len(in.filling) > 0 && in.filling[0].fullAt <= now {
		c := in.filling[0]
		if !c.rate.Owed(c.claimTAT, now).IsZero() {
			c.fullAt = c.soonFull(now)
			heap.Fix(&in.filling, 0)
			continue
		}
		heap.Pop(&in.filling)
		x.sumTAT = x.sumTAT.Sub(c.claimTAT)
		in.sumFill -= c.rate.Fill()
	}
}

// fillHeap orders children by fullAt. Ties need no order: those due together
// leave together.
type fillHeap []*class

func (h fillHeap) Len() int           { return len(h) }
func (h fillHeap) Less(i, j int) bool { return h[i].fullAt < h[j].fullAt }
func (h fillHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].filling, h[j].filling = i+1, j+1
}

func (h *fillHeap) Push(x any) {
	c := x.(*class)
	*h = append(*h, c)
	c.filling = len(*h)
}

func (h *fillHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	x.filling = 0
	return x
}

// path writes x out. The child that names share past a template's max is the
// template's own row.
func (x *class) path() string {
	up := x.parent
	switch {
	case up == nil:
		return RootPath
	case up.in != nil && x == up.in.dyn.overflow:
		return up.restPath()
	}
	return up.childPath(x.label())
}

func (x *class) childPath(name string) string {
	if x.parent == nil {
		return Path(name)
	}
	return x.path() + "/" + escape(name, false)
}

// restPath is the row of the children of x that have none of their own.
func (x *class) restPath() string {
	if x.parent == nil {
		return Template
	}
	return x.path() + "/" + Template
}
