package htb

import (
	"container/heap"
	"math"
	"slices"
)

// This file is about leaves that are records at rest, and classes while they are decided
// on: one parent's leaves all the same class, but for those that something refers to.

// tabled reports whether the classes made from p are kept in a table. The others are
// always classes: those with children, those that queue, those that gateways share.
func (p *plan) tabled() bool {
	return p.use == toPolice && !p.inner() && p.spec.Sync == 0 && !p.spec.Remote
}

// enter makes a record for a new child of x and returns the child, as point does.
func (x *class) enter(name string) *class {
	dyn := &x.in.dyn
	if dyn.table == nil {
		dyn.table = newTable(len(x.template.also))
		dyn.table.scratch = newTabled(x.template, x)
	}
	return dyn.table.openNew(dyn.table.insert(name), name)
}

// succeed is enter in the slot of a leaf at rest. If the next one is at rest too, it is
// dropped, so that after a crowd there are fewer again.
func (x *class) succeed(now Time, slot int, name string) *class {
	t := x.in.dyn.table
	x.bury(slot)
	t.rename(slot, name)
	t.hand++
	if dead, ok := x.atRest(now, 1); ok && dead != slot {
		slot = x.dropSlot(dead, slot)
	}
	return t.openNew(slot, name)
}

func (t *table) openNew(slot int, name string) *class {
	t.fresh = slot + 1
	return t.point(slot, name)
}

func newTabled(p *plan, parent *class) *class {
	c := newClass(p, parent, "")
	c.dynamic = true
	return c
}

// open returns the leaf in a slot. If anything of it changes it is to be parked before
// the next one is opened. The name is the caller's, for the Decision.
func (t *table) open(slot int, name string) *class {
	x := t.point(slot, name)
	x.fetch()
	return x
}

// point is open for who may do without what the record says: fetch brings it.
func (t *table) point(slot int, name string) *class {
	x := t.scratch
	if t.record(slot).pinned() {
		x = t.pinned[slot]
	} else {
		x.slot, x.unread = slot+1, true
	}
	x.name = name
	return x
}

func (x *class) fetch() {
	if x.unread {
		t := x.parent.in.dyn.table
		t.load(x, x.slot-1, t.record(x.slot-1))
	}
}

// park puts a leaf that is in a table back there, or sees to it that it stays a class.
func (x *class) park(now Time) {
	if x.slot > 0 {
		x.parent.in.dyn.table.park(now, x)
	}
}

func (t *table) park(now Time, x *class) {
	switch {
	case x.unread:
		x.unread = false
	case x.open > 0 || x.staked || !t.store(x, now):
		if x == t.scratch {
			t.scratch = t.class()
			t.pin(x)
		}
	case x != t.scratch:
		t.unpin(x)
		t.note(t.restsAt(now, x.parent, x.slot-1))
		x.name = "" // the caller's, and part of something large perhaps
		if x.slot = 0; len(t.spare) < mostSpare {
			t.spare = append(t.spare, x)
		}
	}
	if t.fresh > 0 {
		t.note(t.restsAt(now, x.parent, t.fresh-1))
		t.fresh = 0
	}
}

// class returns one that nothing refers to.
func (t *table) class() *class {
	n := len(t.spare)
	if n == 0 {
		return newTabled(t.scratch.plan, t.scratch.parent)
	}
	x := t.spare[n-1]
	t.spare = t.spare[:n-1]
	return x
}

func (t *table) pin(x *class) {
	r := t.record(x.slot - 1)
	r.setWhat(r.what() | pinned)
	t.pinned[x.slot-1] = x
}

func (t *table) unpin(x *class) {
	r := t.record(x.slot - 1)
	r.setWhat(r.what() &^ pinned)
	delete(t.pinned, x.slot-1)
}

// label returns the name of a class.
func (x *class) label() string {
	if x.slot == 0 {
		return x.name
	}
	t := x.parent.in.dyn.table
	return string(t.name(t.record(x.slot - 1)))
}

// leave makes x, which is pinned, a class of its own.
func (t *table) leave(x *class) {
	x.name = x.label()
	t.unpin(x)
	x.slot = 0
}

// out returns the leaf in a slot as a class of its own. The record stays, for now.
func (t *table) out(slot int) *class {
	x := t.pinned[slot]
	if x == nil {
		x = newTabled(t.scratch.plan, t.scratch.parent)
		t.load(x, slot, t.record(slot))
		t.pin(x)
	}
	t.leave(x)
	return x
}

func (t *table) counts(slot int) counts {
	if x := t.pinned[slot]; x != nil {
		return x.counts
	}
	return t.record(slot).counts()
}

// markDropped tells the classes that are pinned.
func (t *table) markDropped() {
	for _, x := range t.pinned {
		t.leave(x)
		x.dropped = true
	}
}

// atRest looks at the next leaves in the table of x, no more than most, and returns the
// slot of the first that is at rest.
func (x *class) atRest(now Time, most int) (slot int, ok bool) {
	t := x.in.dyn.table
	if t == nil || now < t.restsFrom() {
		return 0, false
	}
	for ; most > 0 && t.n > 0; most-- {
		if t.hand >= t.n {
			t.hand, t.calm, t.low = 0, t.low, math.MaxInt64
		}
		at := t.restsAt(now, x, t.hand)
		if at == math.MinInt64 {
			return t.hand, true
		}
		t.low = min(t.low, at)
		t.hand++
	}
	return 0, false
}

// dropSlot is drop for a leaf in the table. It returns where the one in slot other is then.
func (x *class) dropSlot(slot, other int) int {
	x.bury(slot)
	t := x.in.dyn.table
	t.remove(slot)
	if other == t.n { // it was the last
		return slot
	}
	return other
}

// bury books the end of a leaf in the table.
func (x *class) bury(slot int) {
	dyn := &x.in.dyn
	dyn.dropped++
	dyn.gone.add(dyn.table.counts(slot))
	if c := dyn.table.pinned[slot]; c != nil {
		dyn.table.leave(c)
		c.dropped = true
	}
}

// note says from when on a leaf may be at rest of which the hand could not know.
func (t *table) note(at Time) { t.calm, t.low = min(t.calm, at), min(t.low, at) }

// restsFrom returns a time before which no leaf of the table is at rest.
func (t *table) restsFrom() Time { return min(t.calm, t.low) }

// adoptTable gives the leaves in the table of x the template of its plan, or, where that
// is for none, takes them out.
func (x *class) adoptTable(now Time, become func(*class, *plan)) {
	dyn := &x.in.dyn
	t := dyn.table
	switch {
	case t.n == 0:
		dyn.table = nil
	case x.template == nil:
		for slot := range t.n {
			dyn.gone.add(t.counts(slot))
		}
		t.markDropped()
		dyn.table = nil
	case !x.template.tabled():
		for slot := range t.n {
			c := t.out(slot)
			become(c, x.template)
			dyn.live++
			x.in.index[c.name] = c
			heap.Push(&dyn.resting, resting{now, c})
		}
		dyn.table = nil
	default:
		t.become(now, x, x.template, become)
	}
}

// become gives every leaf of the table of x the plan p.
func (t *table) become(now Time, x *class, p *plan, become func(*class, *plan)) {
	old := t.scratch.plan
	t.calm, t.low, t.spare = math.MinInt64, math.MinInt64, nil
	if old.rate == p.rate && old.ceil == p.ceil && slices.Equal(old.spec.Also, p.spec.Also) && slices.Equal(old.also, p.also) {
		for _, c := range t.pinned {
			become(c, p)
		}
		become(t.scratch, p) // the records mean what they did
		return
	}
	was := *t
	*t = table{
		limits: len(p.also), seed: was.seed, pinned: map[int]*class{}, scratch: newTabled(p, x),
		hand: was.hand, calm: was.calm, low: was.low, bases: slices.Clone(was.bases),
	}
	for slot := range was.n {
		r := was.record(slot)
		c, pin := was.pinned[slot], true
		if c == nil {
			c, pin = was.scratch, false
			c.plan = old
			was.load(c, slot, r)
		}
		become(c, p)
		c.slot = 1 + t.insert(string(was.name(r)))
		if i := slot / chunkSize; i < len(was.bases) {
			t.bases[i] = was.bases[i]
		}
		if pin || !t.store(c, now) {
			t.pin(c)
		}
		if c == was.scratch && t.pinned[slot] == c {
			was.scratch = newTabled(old, x)
		}
	}
}

// forgetMarks starts all leaves anew, as those that have borrowed nothing.
func (t *table) forgetMarks() {
	t.bases = nil
	for slot := range t.n {
		t.record(slot).mark = 0
	}
	for _, x := range t.pinned {
		x.mark = Ticks{}
	}
}

// named returns the leaf of a name, as a class of its own and not in the table any more;
// nil if there is none.
func (t *table) named(name string) *class {
	if t == nil {
		return nil
	}
	slot, ok := t.find(name)
	if !ok {
		return nil
	}
	c := t.out(slot)
	t.remove(slot)
	return c
}

// at returns the leaf in a slot of the table of x, if it has the last of names, as point
// does.
func (x *class) at(slot int, names []string) (*class, bool) {
	if slot == 0 || x.in == nil || x.in.dyn.table == nil {
		return nil, false
	}
	t, name := x.in.dyn.table, names[len(names)-1]
	if slot > t.n || string(t.name(t.record(slot-1))) != name {
		return nil, false
	}
	return t.point(slot-1, name), true
}
