package sim

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/queue"
)

// node is one class of the run: those the tree names, and the children of
// templates as long as they matter, that is while they have a row of their own or
// tokens missing. One that no longer does sleeps for a while: as if it were not there,
// but for who asks again.
//
// INVARIANT: n.row is n's own row if n.own; else, for a child in the rest of its
// template and for all below such a child, the rest's.
type node struct {
	spec   *htb.Spec // resolved
	parent *node
	name   string
	depth  int

	named    []*node
	children map[string]*node // named ones and others
	template *htb.Spec
	awake    int     // children of the template that do not sleep
	ranked   ranking // children of the template with a row of their own
	rest     *row    // of the template's other children

	row          *row
	own          bool
	asleep, gone bool  // gone: no longer in the run
	score        int64 // what it wanted since it was made
	place        int   // in the parent's ranked: 1 + index; 0 for none

	ideal
	excess
}

// row is what is measured of one class, or of the rest.
type row struct {
	wants, gets, rejected, borrows, lends int64
	dropped, expired, queued              int64
	delays                                queue.Histogram
	fair                                  float64
	over                                  float64 // see excess
	series
}

// series has an entry for each step. They come in blocks: so none is moved, and none is
// kept for steps that are long before or after those of the row.
type series struct {
	first  int // which block is blocks[0]
	blocks []*block
}

type block [perBlock]point

const perBlock = 32

type point struct {
	wants, gets int64
	fair        float64
}

// at returns the entry of a step, made if need be.
func (s *series) at(step int) *point {
	return &s.block(step / perBlock)[step%perBlock]
}

// block returns the k-th block of the run, made if need be.
func (s *series) block(k int) *block {
	if len(s.blocks) == 0 {
		s.first = k
	}
	if k < s.first {
		s.blocks = slices.Insert(s.blocks, 0, make([]*block, s.first-k)...)
		s.first = k
	}
	if n := k - s.first + 1; n > len(s.blocks) {
		s.blocks = append(s.blocks, make([]*block, n-len(s.blocks))...)
	}
	b := &s.blocks[k-s.first]
	if *b == nil {
		*b = new(block)
	}
	return *b
}

// each calls do for every entry that was made, with its step.
func (s *series) each(do func(step int, p *point)) {
	for i, b := range s.blocks {
		if b == nil {
			continue
		}
		for j := range b {
			do((s.first+i)*perBlock+j, &b[j])
		}
	}
}

// merge adds what o measured.
func (r *row) merge(o *row) {
	r.wants += o.wants
	r.gets += o.gets
	r.rejected += o.rejected
	r.dropped += o.dropped
	r.expired += o.expired
	r.queued += o.queued
	r.delays.Merge(&o.delays)
	r.borrows += o.borrows
	r.lends += o.lends
	r.fair += o.fair
	r.over = max(r.over, o.over)
	o.series.each(func(step int, p *point) {
		q := r.at(step)
		q.wants += p.wants
		q.gets += p.gets
		q.fair += p.fair
	})
}

func newNode(spec *htb.Spec, parent *node, name string) *node {
	n := &node{spec: spec, parent: parent, name: name, row: &row{}, own: true, ideal: newIdeal(spec)}
	if parent != nil {
		n.depth = parent.depth + 1
	}
	for i := range spec.Children {
		c := &spec.Children[i]
		if c.Name == htb.Template {
			n.template, n.rest = c, &row{}
			continue
		}
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		child := newNode(c, n, c.Name)
		n.named = append(n.named, child)
		n.children[c.Name] = child
	}
	return n
}

func (n *node) leaf() bool { return len(n.named) == 0 && n.template == nil }

// sharing says that n's row is that of the class above, which counts all of it.
func (n *node) sharing() bool { return !n.own && !n.parent.own }

// child returns the node for name, making one under a template; nil if there is
// no such class. most is how many children get a row of their own at a time.
func (n *node) child(name string, most int) *node {
	c, ok := n.children[name]
	if !ok {
		if n.template == nil {
			return nil
		}
		if n.crowded() {
			return n.crowd()
		}
		c = n.add(name)
	}
	return n.again(c, most)
}

// again is child for one that is there.
func (n *node) again(c *node, most int) *node {
	if c.asleep {
		if n.crowded() {
			return n.crowd()
		}
		c.asleep, c.score = false, 0
		n.awake++
	}
	if !c.own {
		n.rank(c, most)
	}
	return c
}

func (n *node) add(name string) *node {
	if n.children == nil {
		n.children = make(map[string]*node)
	}
	c := newNode(n.template, n, strings.Clone(name))
	n.children[c.name] = c
	n.awake++
	c.share(n.rest)
	return c
}

// crowded says whether further names share a child, as in the tree, and crowd which.
func (n *node) crowded() bool { return n.awake >= n.template.Max }

func (n *node) crowd() *node {
	if c, ok := n.children[overflow]; ok {
		return c
	}
	return n.add(overflow)
}

// rank gives c a row of its own if there is one to be had, or if it has wanted
// more than the least of those that have one.
func (n *node) rank(c *node, most int) {
	if !n.own || c.name == overflow || c.spec != n.template {
		return
	}
	if len(n.ranked) >= most {
		if most == 0 || c.score <= n.ranked[0].score {
			return
		}
		least := heap.Pop(&n.ranked).(*node)
		n.rest.merge(least.row)
		least.share(n.rest)
	}
	c.unshare()
	heap.Push(&n.ranked, c)
}

// overflow is the node that names share past a template's max; no name is empty.
const overflow = ""

// share makes n, and all below it, count in r.
func (n *node) share(r *row) {
	n.row, n.rest, n.own, n.ranked, n.place = r, r, false, nil, 0
	for _, c := range n.children {
		c.share(r)
	}
}

// unshare gives n a row of its own, from now on, and to the classes below it that
// the tree names.
func (n *node) unshare() {
	n.row, n.rest, n.own = &row{}, &row{}, true
	for _, c := range n.children {
		if c.spec == n.template {
			c.share(n.rest)
		} else {
			c.unshare()
		}
	}
}

// prune puts children of the template to sleep that are as if never seen, and forgets
// those that slept already where there are many. It looks at all of them, but only when
// those awake have doubled since the last time.
func (n *node) prune(step int, length float64) {
	for _, c := range n.named {
		c.prune(step, length)
	}
	if n.template == nil || len(n.named)+n.awake < 2*n.kept+1024 {
		return
	}
	many := len(n.children) > len(n.named)+n.awake+mostLeaves
	for name, c := range n.children { // order does not matter: each goes or stays by itself
		switch {
		case c.spec != n.template, c.asleep && !many:
			continue
		case c.asleep:
			delete(n.children, name)
			c.gone = true
			continue
		}
		c.prune(step, length)
		if c.catchUp(step, length); c.place > 0 || !c.full() || !c.settled(c.spec, float64(step)*length) || c.awake > 0 {
			continue
		}
		if n.awake--; c.leaf() && name != overflow {
			c.asleep = true
		} else {
			delete(n.children, name)
			c.forget()
		}
	}
	n.kept = len(n.named) + n.awake
}

// forget says of n and of all below that they are gone.
func (n *node) forget() {
	n.gone = true
	for _, c := range n.children {
		c.forget()
	}
}

// ranking orders nodes by score, the least first.
type ranking []*node

func (h ranking) Len() int { return len(h) }

func (h ranking) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.score < b.score || a.score == b.score && a.name < b.name
}

func (h ranking) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *ranking) Push(x any) {
	n := x.(*node)
	*h = append(*h, n)
	n.place = len(*h)
}

func (h *ranking) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	x.place = 0
	return x
}

// count books a decision on the path of a leaf: up is how many levels above it the
// lender is.
func (n *node) count(step int, cost int64, allowed bool, up int) {
	for j := 0; n != nil; j, n = j+1, n.parent {
		n.score += cost
		if n.place > 0 {
			heap.Fix(&n.parent.ranked, n.place-1)
		}
		if n.sharing() {
			continue
		}
		r, p := n.row, n.row.at(step)
		r.wants += cost
		p.wants += cost
		if !allowed {
			r.rejected += cost
			continue
		}
		r.gets += cost
		p.gets += cost
		if j < up {
			r.borrows += cost
		} else if j == up && j > 0 {
			r.lends += cost
		}
	}
}

// each calls do for every row on the path of a leaf, once, with how many levels above
// the leaf its class is.
func (n *node) each(do func(j int, r *row)) {
	for j := 0; n != nil; j, n = j+1, n.parent {
		if !n.sharing() {
			do(j, n.row)
		}
	}
}

// arrive books a request that is queued, or about to be; leave one that no longer is.
func (n *node) arrive(step int, cost int64) {
	n.waits += cost
	for x := n; x != nil; x = x.parent {
		x.score += cost
		if x.place > 0 {
			heap.Fix(&x.parent.ranked, x.place-1)
		}
	}
	n.each(func(_ int, r *row) {
		r.wants += cost
		r.queued += cost
		r.at(step).wants += cost
	})
}

func (n *node) leave(step int, cost int64, why func(*row)) {
	n.waits -= cost
	n.each(func(_ int, r *row) {
		r.queued -= cost
		if why != nil {
			why(r)
		}
	})
}

// pass books a released request.
func (n *node) pass(step int, cost int64, up int, delay time.Duration) {
	n.each(func(j int, r *row) {
		r.gets += cost
		r.at(step).gets += cost
		r.delays.Add(delay)
		if j < up {
			r.borrows += cost
		} else if j == up && j > 0 {
			r.lends += cost
		}
	})
}

// rows writes out the result, each class before those below it, the top children
// of a template by what they wanted.
func (n *node) rows(out []result.Row, names []string, steps, top int) []result.Row {
	out = append(out, n.row.result(n.spec, htb.Path(names...), n.depth, n.leaf(), steps))
	for _, c := range n.named {
		out = c.rows(out, append(names[:len(names):len(names)], c.name), steps, top)
	}
	if n.template == nil {
		return out
	}
	ranked := slices.SortedFunc(slices.Values(n.ranked), func(a, b *node) int {
		return cmp.Or(cmp.Compare(b.row.wants, a.row.wants), cmp.Compare(a.name, b.name))
	})
	rest := &row{}
	rest.merge(n.rest)
	for i, c := range ranked {
		if i < top {
			out = c.rows(out, append(names[:len(names):len(names)], c.name), steps, top)
		} else {
			rest.merge(c.row)
		}
	}
	where := htb.Mistake{Path: append(names[:len(names):len(names)], htb.Template)}.Where()
	r := rest.result(n.template, where, n.depth+1, true, steps)
	r.Rest = true
	return append(out, r)
}

func delay(h *queue.Histogram) result.Delay {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return result.Delay{P50: ms(h.Quantile(0.5)), P99: ms(h.Quantile(0.99)), Max: ms(h.Max())}
}

func (r *row) result(s *htb.Spec, path string, depth int, leaf bool, steps int) result.Row {
	out := result.Row{
		Path: path, Depth: depth, Leaf: leaf,
		Rate: s.Rate.PerSecond(), Ceil: s.Ceil.PerSecond(), Prio: s.Prio,
		Wants: r.wants, Gets: r.gets, Rejected: r.rejected, Dropped: r.dropped, Expired: r.expired, Queued: r.queued,
		Delay: delay(&r.delays),
		Own:   r.gets - r.borrows, Borrows: r.borrows, Lends: r.lends, Fair: r.fair,
		Series: result.Series{Wants: make([]int64, steps), Gets: make([]int64, steps), Fair: make([]float64, steps)},
	}
	if shared(s) {
		out.Shared = &result.Shared{Sync: s.Sync, CBurst: s.CBurst, Over: r.over}
	}
	r.series.each(func(step int, p *point) {
		if step < steps { // a block has entries beyond the last step
			out.Series.Wants[step], out.Series.Gets[step], out.Series.Fair[step] = p.wants, p.gets, p.fair
		}
	})
	return out
}
