package htb

import (
	"math"
	"slices"
	"strings"
)

// counts are the counters of one class, in cost units; it wants gets + rejected.
type counts struct{ gets, rejected, borrows, lends int64 }

func (c *counts) add(o counts) {
	c.gets = plus(c.gets, o.gets)
	c.rejected = plus(c.rejected, o.rejected)
	c.borrows = plus(c.borrows, o.borrows)
	c.lends = plus(c.lends, o.lends)
}

// plus adds counters; they stop at the ends of their range instead of wrapping round.
func plus(a, b int64) int64 {
	s := a + b
	if (s < a) != (b < 0) {
		if b < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return s
}

// count books a decision on the whole path.
func (x *class) count(v verdict, cost int64) {
	for j := 0; x != nil; j, x = j+1, x.parent {
		if v.why != 0 {
			x.counts.rejected = plus(x.counts.rejected, cost)
			continue
		}
		x.counts.add(x.moved(j, v.by, cost))
	}
}

// moved returns what an admission counts as at x, j levels above the leaf.
func (x *class) moved(j, lender int, cost int64) counts {
	c := counts{gets: cost}
	switch {
	case j < lender:
		c.borrows = cost
	case j == lender && j > 0 && x.in != nil:
		c.lends = cost
	}
	return c
}

// mostCounted is what a cost that can never pass counts as at most, so that no
// made-up number drives the counters to their end.
const mostCounted = 1 << 40

// countRefusal books a cost that can never pass.
func (x *class) countRefusal(cost int64) { x.count(verdict{why: AtCeil}, min(cost, mostCounted)) }

// countSettled books a correction by cost, up or down. Of a class that has been
// dropped meanwhile, or has children now, the counters live on in the row of the rest.
func (x *class) countSettled(lender int, cost int64) {
	if x.in != nil {
		x.in.dyn.gone.add(x.moved(0, lender, cost))
	}
	for j := 0; x != nil; j, x = j+1, x.parent {
		c := x.moved(j, lender, cost)
		x.counts.add(c)
		if up := x.parent; x.dropped && up != nil && !up.dropped && up.in != nil {
			up.in.dyn.gone.add(c)
		}
	}
}

// countLate books a decision on a leaf that is gone, or has children now.
func (x *class) countLate(v verdict, cost int64) {
	if v.why == 0 {
		x.countSettled(v.by, cost)
		return
	}
	if x.in != nil {
		x.in.dyn.gone.rejected = plus(x.in.dyn.gone.rejected, cost)
	}
	for ; x != nil; x = x.parent {
		x.counts.rejected = plus(x.counts.rejected, cost)
		if up := x.parent; x.dropped && up != nil && !up.dropped && up.in != nil {
			up.in.dyn.gone.rejected = plus(up.in.dyn.gone.rejected, cost)
		}
	}
}

// Stats are the counters of one class since the tree was made, in cost units.
// Wants, Gets and Rejected are sums over the subtree, with Wants = Gets +
// Rejected; Own, Borrows and Lends are the class's own, with Own = Gets -
// Borrows. The Borrows of a class's children add up to its Lends + Borrows; the
// root borrows nothing.
type Stats struct {
	Path     string // as [Path] writes it; "*" at the end: children of a template without a row of their own
	Depth    int    // 0 for the root
	Leaf     bool
	Wants    int64 // offered
	Gets     int64 // admitted
	Rejected int64
	Own      int64 // admitted on the class's own rate
	Borrows  int64 // taken from classes above
	Lends    int64 // given to classes below
	Live     int   // children of a template in the tree
}

// Stats returns a row for every class, the root first and each class before those
// below it; children of a template by name, and after them the row path/* with
// the counters of those that were dropped or shared a child. The time and memory
// it takes grow with the number of live classes; the tree's lock is held while
// their counters are copied.
func (t *Tree) Stats(now Time) []Stats {
	t.mu.Lock()
	t.advance(now)
	t.root.countAllRefused()
	t.countLeases()
	all := t.root.snapshot(nil)
	t.mu.Unlock()
	return rows(make([]Stats, 0, len(all)), all, "")
}

// snap is a class as it was, followed in its slice by those below it.
type snap struct {
	name    string
	depth   int
	live    int
	leaf    bool
	dynamic bool
	rest    bool // the row of a template
	counts  counts
}

func (x *class) snapshot(all []snap) []snap {
	s := snap{name: x.name, depth: x.depth, leaf: x.in == nil, dynamic: x.dynamic, counts: x.counts}
	if x.in == nil {
		return append(all, s)
	}
	s.live = x.in.dyn.all()
	all = append(all, s)
	for _, c := range x.in.named {
		all = c.snapshot(all)
	}
	for _, r := range x.in.dyn.resting {
		all = r.child.snapshot(all)
	}
	if t := x.in.dyn.table; t != nil {
		for slot := range t.n {
			name := string(t.name(t.record(slot)))
			all = append(all, snap{name: name, depth: x.depth + 1, leaf: true, dynamic: true, counts: t.counts(slot)})
		}
	}
	if x.template == nil && x.in.dyn.gone == (counts{}) {
		return all
	}
	rest := snap{name: Template, depth: x.depth + 1, leaf: true, rest: true, counts: x.in.dyn.gone}
	if o := x.in.dyn.overflow; o != nil {
		rest.counts.add(o.counts)
	}
	return append(all, rest)
}

// rows writes out a class and those below it, which are all of the slice.
func rows(out []Stats, all []snap, above string) []Stats {
	s := all[0]
	path := Template
	if !s.rest {
		path = escape(s.name, s.depth == 1)
	}
	switch s.depth {
	case 0:
		path = RootPath
	case 1:
	default:
		path = above + "/" + path
	}
	out = append(out, Stats{
		Path: path, Depth: s.depth, Leaf: s.leaf, Live: s.live,
		Wants: plus(s.counts.gets, s.counts.rejected), Gets: s.counts.gets, Rejected: s.counts.rejected,
		Own: plus(s.counts.gets, -s.counts.borrows), Borrows: s.counts.borrows, Lends: s.counts.lends,
	})
	var below [][]snap
	for rest := all[1:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].depth > rest[0].depth {
			n++
		}
		below = append(below, rest[:n])
		rest = rest[n:]
	}
	slices.SortStableFunc(below, func(a, b []snap) int {
		if a[0].dynamic && b[0].dynamic {
			return strings.Compare(a[0].name, b[0].name)
		}
		return 0 // named ones stand before, the rest behind
	})
	for _, b := range below {
		out = rows(out, b, path)
	}
	return out
}
