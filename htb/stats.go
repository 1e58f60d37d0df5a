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
		x.counts.gets = plus(x.counts.gets, cost)
		x.counts.lent(j, v.by, cost)
	}
}

// lent books a loan at the class j levels above the leaf.
func (c *counts) lent(j, lender int, cost int64) {
	switch {
	case j < lender:
		c.borrows = plus(c.borrows, cost)
	case j == lender && j > 0:
		c.lends = plus(c.lends, cost)
	}
}

// countRefusal books a cost that can never pass.
func (x *class) countRefusal(cost int64) { x.count(verdict{why: AtCeil}, cost) }

// countSettled books a correction by cost, up or down. Of a class that has been
// dropped meanwhile the counters live on in the row of the rest.
func (x *class) countSettled(lender int, cost int64) {
	for j := 0; x != nil; j, x = j+1, x.parent {
		c := counts{gets: cost}
		c.lent(j, lender, cost)
		x.counts.add(c)
		if up := x.parent; x.dropped && up != nil && !up.dropped && up.in != nil {
			up.in.dyn.gone.add(c)
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
// it takes grow with the number of live classes.
func (t *Tree) Stats(now Time) []Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	return t.root.stats(nil)
}

func (x *class) stats(rows []Stats) []Stats {
	row := x.counts.row(x.path(), x.depth, x.in == nil)
	if x.in == nil {
		return append(rows, row)
	}
	row.Live = x.in.dyn.live
	rows = append(rows, row)
	for _, c := range x.in.named {
		rows = c.stats(rows)
	}
	var live []*class
	for _, r := range x.in.dyn.resting {
		live = append(live, r.child)
	}
	slices.SortFunc(live, func(a, b *class) int { return strings.Compare(a.name, b.name) })
	for _, c := range live {
		rows = c.stats(rows)
	}
	if x.template == nil && x.in.dyn.gone == (counts{}) {
		return rows
	}
	rest := x.in.dyn.gone
	if o := x.in.dyn.overflow; o != nil {
		rest.add(o.counts)
	}
	return append(rows, rest.row(x.restPath(), x.depth+1, true))
}

func (c counts) row(path string, depth int, leaf bool) Stats {
	return Stats{
		Path: path, Depth: depth, Leaf: leaf,
		Wants: plus(c.gets, c.rejected), Gets: c.gets, Rejected: c.rejected,
		Own: plus(c.gets, -c.borrows), Borrows: c.borrows, Lends: c.lends,
	}
}
