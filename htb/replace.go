package htb

import (
	"container/heap"
	"maps"
	"reflect"
	"slices"

	"github.com/go-sluice/sluice/algo"
)

// Replace makes root the tree from now on. It is checked first, as by [New]: a
// Spec with mistakes leaves the old tree in force. Classes whose path stays keep
// their counters, their handles and their tokens, in proportion to the new bursts;
// new ones start full, and classes above are given what their children may now
// claim. So a window across a replacement admits at most the bursts of both trees
// and their rates. Replacing a tree by itself changes no decision.
//
// It holds the tree's lock for a time that grows with the number of live classes.
func (t *Tree) Replace(now Time, root Spec) error {
	p, m := compile(root, toPolice)
	if err := m.fatal(); err != nil {
		return err
	}
	t.lock()
	defer t.mu.Unlock()
	t.hub.ttl = max(t.hub.ttl, root.SyncTTL())
	p.join(t.hub)
	now = t.advance(now)
	t.recallLeases(now)
	t.root.countAllRefused()
	t.waits = nil // which may know of classes that go
	t.root.become(now, p)
	t.spec = root.clone()
	return nil
}

// become gives x, and those below it that stay, a new plan.
func (x *class) become(now Time, p *plan) {
	old := x.plan
	solvent := x.in == nil || x.covers(now)
	x.plan = p
	x.twinned()
	x.attached = nil
	if x.twin != nil && old.ticks != p.ticks {
		x.twin.floor = Ticks{}
	}
	x.rateTAT = converted(now, x.rateTAT, old.rate, p.rate)
	x.ceilTAT = converted(now, x.ceilTAT, old.ceil, p.ceil)
	x.alsoTAT = convertedLimits(now, x.alsoTAT, old, p)
	if !p.inner() {
		if x.in != nil {
			x.in.markDropped()
		}
		x.in, x.counts.lends = nil, 0
		return
	}
	if x.in == nil { // what it did as a leaf belongs to none of its children
		x.in = &inner{dyn: dynamic{gone: x.counts}}
	} else if old.oversub && p.oversub {
		x.in.reserveTAT = converted(now, x.in.reserveTAT, old.reserve, p.reserve)
	} else if p.oversub {
		x.in.reserveTAT = Ticks{}
	}
	x.adopt(now, old)
	if !p.sharesAs(old) {
		x.reshare()
	}
	x.recount(now)
	if solvent { // a class in debt stays in debt
		x.cover(now)
	}
}

// adopt gives x the children of its plan: those that stay, those that are new,
// and, under a template, what used to be named.
func (x *class) adopt(now Time, old *plan) {
	in, was := x.in, x.in.index
	become := func(c *class, q *plan) { c.become(now, q) }
	rests := in.dyn.resting
	in.named, in.index = nil, make(map[string]*class, len(was))
	for _, q := range x.plan.children {
		c := was[q.spec.Name]
		if c == nil {
			c = in.dyn.table.named(q.spec.Name)
		}
		if c == nil {
			c = newClass(q, x, q.spec.Name)
		} else {
			become(c, q)
		}
		c.dynamic = false
		delete(was, q.spec.Name)
		x.addNamed(c)
	}
	at := make(map[*class]Time, len(rests)) // still true of a template that stays the same
	if old.template != nil && x.template != nil && reflect.DeepEqual(old.template.resolved(), x.template.resolved()) {
		for _, r := range rests {
			at[r.child] = r.at
		}
	}
	in.dyn.resting, in.dyn.live = nil, 0
	for _, name := range slices.Sorted(maps.Keys(was)) {
		c := was[name]
		if x.template == nil {
			in.dyn.gone.add(c.counts)
			c.markDropped()
			continue
		}
		become(c, x.template)
		c.dynamic = true
		in.index[name] = c
		in.dyn.live++
		rests, ok := at[c]
		if !ok {
			rests = now
		}
		heap.Push(&in.dyn.resting, resting{rests, c})
	}
	if in.dyn.table != nil {
		x.adoptTable(now, become)
	}
	if o := in.dyn.overflow; o != nil && x.template != nil {
		become(o, x.template)
	} else if o != nil {
		in.dyn.gone.add(o.counts)
		o.markDropped()
		in.dyn.overflow = nil
	}
}

// sharesAs reports whether children that stay, where p replaces old, share as before. It
// goes by the plans alone: a leaf that happens to be there changes nothing for others.
func (p *plan) sharesAs(old *plan) bool {
	same := p.prios == old.prios && p.window == old.window && p.ticks == old.ticks
	was := func(name string) *plan {
		if q, ok := old.named[name]; ok {
			return q
		}
		return old.template
	}
	for _, q := range p.children {
		same = same && q.sharesLike(was(q.spec.Name))
	}
	if p.template == nil {
		return same
	}
	for _, q := range old.children {
		if _, ok := p.named[q.spec.Name]; !ok {
			same = same && p.template.sharesLike(q)
		}
	}
	return same && p.template.sharesLike(old.template)
}

func (p *plan) sharesLike(old *plan) bool {
	return old == nil || p.turn == old.turn && p.step == old.step
}

// reshare starts the sharing of x's excess anew, for prios, quanta or a size that are
// others: which of the children is ahead would mean nothing.
func (x *class) reshare() {
	x.in.clocks, x.in.claim = make([]clock, x.prios), claim{}
	for _, c := range x.in.index {
		c.mark = Ticks{}
	}
	if x.in.dyn.table != nil {
		x.in.dyn.table.forgetMarks()
	}
	if o := x.in.dyn.overflow; o != nil {
		o.mark = Ticks{}
	}
}

// recount makes the sums behind the reserve of a covered class anew.
func (x *class) recount(now Time) {
	in := x.in
	x.sumTAT, in.sumFill, in.filling = Ticks{}, 0, nil
	for _, c := range in.index {
		c.filling = 0
	}
	if x.oversub {
		return
	}
	for _, c := range in.named {
		c.claimTAT = c.rateTAT
		if c.rate.Size().Less(c.rate.Owed(c.rateTAT, now)) { // in debt: it claims nothing
			c.claimTAT = holding(now, c.rate, Ticks{})
		}
		if !c.rate.Owed(c.rateTAT, now).IsZero() {
			x.startFilling(now, c)
		}
	}
}

// covers reports whether x holds, under rate and ceil, what its children may claim.
func (x *class) covers(now Time) bool {
	r := x.reserved(now)
	return x.hasRate(now, r) && x.underCeil(now, r)
}

// cover gives x what its children may claim, where it holds less.
func (x *class) cover(now Time) {
	if x.oversub { // its reserve is a bucket of its own and follows it
		if have := x.rate.Tokens(x.rateTAT, now); have.Less(x.reserved(now)) {
			x.in.reserveTAT = holding(now, x.reserve, have)
		}
	}
	r := x.reserved(now)
	if !x.hasRate(now, r) {
		x.rateTAT = holding(now, x.rate, r)
	}
	if !x.underCeil(now, r) {
		x.ceilTAT = holding(now, x.ceil, r)
	}
}

// holding returns the TAT of a bucket that holds tokens now.
func holding(now Time, b algo.Bucket, tokens Ticks) Ticks {
	return b.Charge(Ticks{}, now, b.Size().Sub(tokens))
}

// convertedLimits carries the state of further limits over: of a limit that stays,
// wherever it stands now, or else of the one in its place.
func convertedLimits(now Time, tats []Ticks, old, p *plan) []Ticks {
	out := make([]Ticks, len(p.also))
	for i, l := range p.spec.Also {
		from := slices.Index(old.spec.Also, l)
		if from < 0 && i < len(old.spec.Also) && !slices.Contains(p.spec.Also, old.spec.Also[i]) {
			from = i
		}
		if from >= 0 {
			out[i] = converted(now, tats[from], old.also[from], p.also[i])
		}
	}
	return out
}

// converted returns the TAT with which the bucket b is as full as from was,
// rounded down. An unchanged bucket keeps its TAT.
func converted(now Time, tat Ticks, from, to algo.Bucket) Ticks {
	if from == to {
		return tat
	}
	owed := from.Owed(tat, now)
	if owed.IsZero() || from.Size().IsZero() {
		return Ticks{}
	}
	return to.Charge(Ticks{}, now, owed.Scaled(to.Size(), from.Size()))
}
