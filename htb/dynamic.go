package htb

import (
	"container/heap"
	"math"
	"strings"
)

// How many children that may be at rest are looked at when a name is looked up, and when
// a new one finds the template full: bounded, so that no decision waits for a long
// clean-up. Of those in a table, where the looks are at all in turn, it is one for a name
// that is there and more for a new one: so that they are at most a third more than those
// not at rest, as long as nobody comes to rest but who asks, and the new ones the others.
const (
	sweepStep = 2
	sweepFull = 1024
	sweepNew  = 4
	// sweepDrops is how many make room at most, where there are more than may be.
	sweepDrops = 16
)

// dynamic is what a class above a template has besides.
type dynamic struct {
	table    *table   // of the children that are records; nil before the first
	live     int      // other children in the tree
	resting  restHeap // of those, by when they may be at rest
	overflow *class   // the child that names share past max; made when first needed
	gone     counts   // counters of the children dropped
	dropped  int64    // how many were
}

// lookup returns the child of x called name, if it is in the tree; of a leaf in a table as
// point does.
func (x *class) lookup(now Time, name string) (*class, bool) {
	if x.in == nil {
		return nil, false
	}
	if len(x.in.dyn.resting) > 0 {
		x.sweepHeap(now, sweepStep)
	}
	if c := x.in.class(name); c != nil {
		return c, true
	}
	t := x.in.dyn.table
	if t == nil {
		return nil, false
	}
	slot, ok := t.find(name)
	if !ok {
		return nil, false
	}
	if t.restsFrom() <= now {
		if dead, ok := x.atRest(now, 1); ok && dead != slot {
			slot = x.dropSlot(dead, slot)
		}
	}
	return t.point(slot, name), true
}

// few is how many names are sooner compared than hashed.
const few = 4

// class returns the child called name, if it is a class.
func (in *inner) class(name string) *class {
	if len(in.index) > few {
		return in.index[name]
	}
	for _, c := range in.named {
		if c.name == name {
			return c
		}
	}
	if len(in.named) == len(in.index) {
		return nil
	}
	return in.index[name]
}

// child is lookup that drops nobody.
func (x *class) child(name string) (*class, bool) {
	if c := x.in.class(name); c != nil {
		return c, true
	}
	if t := x.in.dyn.table; t != nil {
		if slot, ok := t.find(name); ok {
			return t.open(slot, name), true
		}
	}
	return nil, false
}

// all returns how many children made from the template are in the tree.
func (dyn *dynamic) all() int {
	if dyn.table != nil {
		return dyn.live + dyn.table.n
	}
	return dyn.live
}

// make returns a child for a name that lookup has not found and the template is
// for: a new one, or the one that names share once there are as many as may be.
func (x *class) make(now Time, name string) *class {
	dyn := &x.in.dyn
	looks := sweepNew
	if dyn.all() >= x.template.spec.Max {
		looks = sweepFull
		x.sweepHeap(now, sweepFull)
	}
	for n := sweepDrops; n > 0 && dyn.all() > x.template.spec.Max; n-- { // it was lowered
		dead, ok := x.atRest(now, sweepFull/sweepDrops)
		if !ok {
			break
		}
		x.dropSlot(dead, 0)
	}
	if dyn.all() <= x.template.spec.Max {
		if dead, ok := x.atRest(now, looks); ok {
			return x.succeed(now, dead, name)
		}
	}
	if dyn.all() >= x.template.spec.Max {
		if dyn.overflow == nil {
			dyn.overflow = newClass(x.template, x, Template)
		}
		return dyn.overflow
	}
	if x.template.tabled() {
		return x.enter(name)
	}
	c := newClass(x.template, x, strings.Clone(name)) // the caller's may be part of something large
	c.dynamic = true
	x.in.index[c.name] = c
	dyn.live++
	heap.Push(&dyn.resting, resting{now, c})
	return c
}

// sweepHeap drops children at rest that are classes, looking at no more than most of
// those that may be.
//
// An entry's time is no later than when its child is at rest, since charges only
// put that off: so the first entry in the future ends the search, and one in the
// past is either dropped or put back with its true time.
func (x *class) sweepHeap(now Time, most int) {
	dyn := &x.in.dyn
	for ; most > 0 && len(dyn.resting) > 0 && dyn.resting[0].at <= now; most-- {
		c := dyn.resting[0].child
		at := c.restsAt(now)
		if at < math.MaxInt64 {
			at = at.Add(x.template.spec.Idle)
		}
		if at > now || at == math.MaxInt64 {
			dyn.resting[0].at = at
			heap.Fix(&dyn.resting, 0)
			continue
		}
		heap.Pop(&dyn.resting)
		x.drop(c)
	}
}

// restsAt returns when every bucket of x and of those below it is full, what they
// borrowed is forgotten and every hold settled, if nothing more comes; or an earlier time at which to ask again.
// From then on x equals a new child.
func (x *class) restsAt(now Time) Time {
	if x.open > 0 || x.sh != nil && x.sh.busy() {
		return now.Add(recheck)
	}
	at := max(x.bucketsFullAt(), x.sharesRest(now))
	if x.twin != nil {
		at = max(at, x.remembered(now))
	}
	if x.in == nil {
		return at
	}
	if x.oversub {
		at = max(at, latest(x.reserve.When(x.in.reserveTAT, x.reserve.Size())))
	}
	for _, c := range x.in.named {
		at = max(at, c.restsAt(now))
	}
	if x.template == nil {
		return at
	}
	x.sweepHeap(now, sweepStep)
	for range sweepNew {
		if dead, ok := x.atRest(now, 1); ok {
			x.dropSlot(dead, 0)
		}
	}
	if o := x.in.dyn.overflow; o != nil {
		at = max(at, o.restsAt(now))
	}
	if r := x.in.dyn.resting; len(r) > 0 {
		at = max(at, r[0].at, now+1)
	}
	if t := x.in.dyn.table; t != nil && t.n > 0 {
		at = max(at, t.restsFrom(), now+1)
	}
	return at
}

// bucketsFullAt returns when the buckets of x itself are full, if nothing more comes.
func (x *class) bucketsFullAt() Time {
	if x.sh != nil { // which has them at hand there
		x.rateTAT, x.ceilTAT = x.sh.rateTAT, x.sh.ceilTAT
	}
	at := max(x.whenFull(), latest(x.ceil.When(x.ceilTAT, x.ceil.Size())))
	for i, b := range x.also {
		at = max(at, latest(b.When(x.alsoTAT[i], b.Size())))
	}
	return at
}

// recheck is how long a child with an unsettled hold is left in peace.
const recheck = 1_000_000_000

// drop takes a child of the template out of the tree. Its counters stay in the
// row of the template.
func (x *class) drop(c *class) {
	delete(x.in.index, c.name)
	x.in.dyn.live--
	x.in.dyn.dropped++
	x.in.dyn.gone.add(c.counts)
	if x.sh != nil {
		_, counts := c.queues(nil)
		if x.sh.gone == nil {
			x.sh.gone = &queueCounts{}
		}
		x.sh.gone.merge(&counts)
	}
	c.markDropped()
}

// markDropped tells handles, and holds, that c is no longer in the tree.
func (x *class) markDropped() {
	x.dropped = true
	if x.sh != nil {
		x.sh.dropped = true
	}
	if x.in != nil {
		x.in.markDropped()
	}
}

func (in *inner) markDropped() {
	for _, c := range in.index {
		c.markDropped()
	}
	if in.dyn.table != nil {
		in.dyn.table.markDropped()
	}
	if o := in.dyn.overflow; o != nil {
		o.markDropped()
	}
}

// resting is an entry for a live child of a template.
type resting struct {
	at    Time // not before this is it at rest
	child *class
}

// restHeap orders entries by time. Which of two goes first changes no decision.
type restHeap []resting

func (h restHeap) Len() int           { return len(h) }
func (h restHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h restHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *restHeap) Push(x any)        { *h = append(*h, x.(resting)) }

func (h *restHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = resting{}
	*h = old[:len(old)-1]
	return x
}
