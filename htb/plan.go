package htb

import (
	"fmt"
	"math"
	"math/big"
	"sort"
	"strings"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// plan is a Spec with its defaults filled in and its buckets made. Plans are
// immutable: the classes of a template share one.
//
// INVARIANT of an inner plan that is not oversubscribed: the sum of the
// children's rates is at most its rate, the sum of their bursts at most its
// burst, ceil >= rate and cburst >= burst. The reserve rests on it.
type plan struct {
	spec  Spec // with defaults filled in; Children left out
	use   purpose
	depth int // 0 for the root

	rate, ceil  algo.Bucket
	also        []algo.Bucket
	reserve     algo.Bucket // of an oversubscribed class
	promised    algo.Ticks  // the sum of the children's bursts, or the size of reserve
	oversub     bool
	children    []*plan // named ones, in order
	named       map[string]*plan
	template    *plan // the class made for any other name
	largestLeaf int64 // largest burst of a leaf at or below

	sharing
	hub           *hub
	ticks         algo.Scale // the tree's
	promisedUnits int64      // promised, in units
	maxCost       int64      // the largest cost that some state of the buckets admits
	alone         bool       // neither it nor any above is shared with other gateways
	simple        bool       // and it has no further limits
	static        bool       // simple, and neither it nor any above is made from a template
	one           bool       // rate and ceil are the same bucket
}

func (p *plan) inner() bool { return len(p.children) > 0 || p.template != nil }

// Resolved returns s with every default that can be told in numbers filled in,
// at every level. Mistakes are not reported here.
func (s Spec) Resolved() Spec {
	p, _ := compile(s, toPolice)
	return p.resolved()
}

// ResolvedShape is Resolved for a tree that shapes in dialect d.
func (s Spec) ResolvedShape(d Dialect) Spec {
	p, _ := compile(s, d.purpose())
	return p.resolved()
}

func (p *plan) resolved() Spec {
	s := p.spec
	s.Oversubscribed = p.oversub
	for _, c := range p.children {
		s.Children = append(s.Children, c.resolved())
	}
	if p.template != nil {
		s.Children = append(s.Children, p.template.resolved())
	}
	return s
}

// compile checks s and makes its plan; the plan is usable if no mistake but
// warnings came with it.
func compile(s Spec, use purpose) (*plan, Mistakes) {
	c := compiler{use: use}
	p := c.plan(s, nil, nil)
	if c.fatal() {
		return p, c.mistakes
	}
	scale, err := algo.NewScale(c.rates...)
	if err != nil { // the first class whose rates do not go with those before it
		n := sort.Search(len(c.rates), func(n int) bool { _, err := algo.NewScale(c.rates[:n]...); return err != nil })
		c.say(c.of[n-1], "rate", "%s", strings.TrimPrefix(err.Error(), "algo: "))
		return p, c.mistakes
	}
	p.scale(scale, p.spec.Burst, true, true)
	return p, c.mistakes
}

// purpose is what a tree is for, which decides what is a mistake.
type purpose int

const (
	toPolice purpose = iota
	toShape
	toShapeAsKernel
)

type compiler struct {
	use      purpose
	rates    []algo.Rate
	of       [][]string // the classes that have them
	mistakes Mistakes
}

func (c *compiler) fatal() bool {
	for _, m := range c.mistakes {
		if !m.Warning {
			return true
		}
	}
	return false
}

func (c *compiler) say(path []string, key, format string, args ...any) {
	c.mistakes = append(c.mistakes, Mistake{Path: append([]string(nil), path...), Key: key, Text: fmt.Sprintf(format, args...)})
}

func (c *compiler) warn(path []string, key, format string, args ...any) {
	c.say(path, key, format, args...)
	c.mistakes[len(c.mistakes)-1].Warning = true
}

// plan checks one class, fills in its defaults and goes on to those below it.
func (c *compiler) plan(s Spec, parent *Spec, path []string) *plan {
	p := &plan{depth: len(path), use: c.use, named: make(map[string]*plan, len(s.Children))}
	if len(path) >= MaxDepth {
		c.say(path, "children", "is on level %d of at most %d: take a level out above it", len(path)+1, MaxDepth)
		p.spec = s
		return p
	}
	c.own(&s, parent, path)
	if s.Ceil.IsZero() {
		s.Ceil = s.Rate
	}
	seen := map[string]bool{}
	for _, child := range s.Children {
		at := append(path[:len(path):len(path)], child.Name)
		if err := checkName(child.Name); err != nil {
			c.say(at, "", "%v", err)
		}
		if len(path) == 0 && child.Name == RootPath {
			c.say(at, "", "the name %q is the root's: choose another", RootPath)
		}
		if seen[child.Name] {
			c.say(at, "", "stands twice among its siblings: give each class one entry")
		}
		seen[child.Name] = true
		q := c.plan(child, &s, at)
		if child.Name == Template {
			p.template = q
		} else {
			p.children = append(p.children, q)
			p.named[child.Name] = q
		}
		p.largestLeaf = max(p.largestLeaf, q.largestLeaf)
	}
	p.oversub = p.template != nil || s.Oversubscribed && p.inner()
	c.bursts(&s, p, path)
	p.spec = s
	p.spec.Children = nil
	for _, l := range s.Also {
		c.rates, c.of = append(c.rates, l.Rate), append(c.of, path)
	}
	if !s.Rate.IsZero() {
		c.rates, c.of = append(c.rates, s.Rate, s.Ceil), append(c.of, path, path)
	}
	return p
}

// own checks what a class says of itself, and its rates beside its parent's.
func (c *compiler) own(s *Spec, parent *Spec, path []string) {
	inner, template := len(s.Children) > 0, s.Name == Template && parent != nil
	ceil := s.Ceil
	if ceil.IsZero() {
		ceil = s.Rate
	}
	if s.Rate.IsZero() {
		c.say(path, "rate", "has no rate: write what it is guaranteed, such as rate: 100/s")
	} else if ceil.Compare(s.Rate) < 0 && c.use != toShapeAsKernel {
		c.say(path, "ceil", "ceil %v is below its rate %v: write a ceil of at least %v, or leave it out", ceil, s.Rate, s.Rate)
	}
	if parent != nil && !parent.Ceil.IsZero() && ceil.Compare(parent.Ceil) > 0 && c.use != toShapeAsKernel {
		c.say(path, "ceil", "ceil %v is above its parent's, %v: write at most %v here, or raise the parent's", ceil, parent.Ceil, parent.Ceil)
	}
	if template && s.Rate.Compare(parent.Rate) > 0 && !parent.Rate.IsZero() {
		c.warn(path, "rate", "rate %v is above its parent's, %v: not even one child can have it for sure", s.Rate, parent.Rate)
	}
	if s.Prio < 0 || s.Prio > 7 {
		c.say(path, "prio", "prio %d is outside 0 to 7 (0 borrows first)", s.Prio)
	}
	if s.Quantum < 0 {
		c.say(path, "quantum", "quantum %d is negative: write a weight of 1 or more, or leave it out", s.Quantum)
	}
	if s.Burst < 0 {
		c.say(path, "burst", "burst %d is negative: write a whole number of units, 1 or more", s.Burst)
	}
	if s.CBurst < 0 {
		c.say(path, "cburst", "cburst %d is negative: write a whole number of units, 1 or more", s.CBurst)
	}
	if !template && s.Max != 0 {
		c.say(path, "max", `max is for a template: write it under "*"`)
	} else if s.Max < 0 {
		c.say(path, "max", "max %d is negative: write how many children may live at once", s.Max)
	}
	if !template && s.Idle != 0 {
		c.say(path, "idle", `idle is for a template: write it under "*"`)
	} else if s.Idle < 0 {
		c.say(path, "idle", "idle %v is negative", s.Idle)
	}
	if inner && len(s.Also) > 0 {
		c.say(path, "also", "also is for leaves: write it under each of the classes below")
	}
	if s.Limit < 0 || s.MaxWait < 0 {
		c.say(path, "limit", "limit %d and maxWait %v are not negative: write how much may be queued, and how long", s.Limit, s.MaxWait)
	}
	if !inner && s.Oversubscribed {
		c.say(path, "oversubscribed", "oversubscribed is for classes with children: take it out")
	}
	switch {
	case inner && s.Remote:
		c.say(path, "store", "only leaves can be kept outside of the tree: write sync: 100ms to share the class")
	case s.Remote && s.Sync != 0:
		c.say(path, "sync", "store: redis asks on every decision, sync on none: take one of them out")
	case s.Sync < 0 || s.Sync > MaxSync:
		c.say(path, "sync", "sync %v is outside 0 to %v: write how often to reconcile, such as sync: 100ms", s.Sync, MaxSync)
	}
	for _, l := range s.Also {
		if l.Rate.IsZero() || l.Burst < 1 {
			c.say(path, "also", "a further limit needs a rate and a burst of at least 1")
		}
	}
	if template && s.Max == 0 {
		s.Max = DefaultMax
	}
}

// bursts fills in burst and cburst, now that those below are known, and checks
// that the books balance.
func (c *compiler) bursts(s *Spec, p *plan, path []string) {
	if s.Rate.IsZero() {
		return
	}
	if !p.inner() {
		if s.Burst == 0 {
			s.Burst = max(1, s.Rate.Over(time.Second))
		}
		if s.CBurst == 0 {
			s.CBurst = s.Burst
		}
		c.cburst(s, path)
		p.largestLeaf = s.Burst
		return
	}
	rates, bursts := new(big.Rat), new(big.Int)
	for _, q := range p.children {
		rates.Add(rates, q.spec.Rate.Fraction())
		bursts.Add(bursts, big.NewInt(q.spec.Burst))
	}
	headroom := max(1, s.Rate.Over(time.Second/10), p.largestLeaf)
	if p.oversub {
		bursts.SetInt64(s.Rate.Over(time.Second))
	} else if rates.Cmp(s.Rate.Fraction()) > 0 && c.use != toShapeAsKernel {
		sum, _ := new(big.Rat).Mul(rates, big.NewRat(int64(time.Second), 1)).Float64()
		c.say(path, "rate", "the rates of its children add up to %.6g/s, above its own %v: raise it to at least that, lower theirs, or write oversubscribed: true", sum, s.Rate)
	}
	if s.Burst == 0 {
		b := new(big.Int).Add(bursts, big.NewInt(headroom))
		if !b.IsInt64() {
			c.say(path, "burst", "the bursts of its children add up to %v, more than can be counted: lower them", bursts)
			b.SetInt64(math.MaxInt64)
		}
		s.Burst = b.Int64()
	}
	if s.CBurst == 0 {
		s.CBurst = s.Burst
	}
	switch {
	case s.Burst < 0 || c.use != toPolice:
	case p.oversub && s.Burst < headroom:
		c.say(path, "burst", "burst %d does not cover its headroom: write at least %d (the larger of 0.1 s of its rate and the largest burst of a leaf below), or leave it out", s.Burst, headroom)
	case !p.oversub && bursts.Cmp(big.NewInt(s.Burst)) > 0:
		c.say(path, "burst", "burst %d does not cover what its children may save up, %v in all: write at least %v, or leave it out", s.Burst, bursts, new(big.Int).Add(bursts, big.NewInt(headroom)))
	case !p.oversub && s.Burst > 0 && new(big.Int).Sub(big.NewInt(s.Burst), bursts).Cmp(big.NewInt(p.largestLeaf)) < 0:
		c.warn(path, "burst", "burst %d leaves %v above what its children may save up: while they are idle it lends no cost above that; %v would leave the usual headroom",
			s.Burst, new(big.Int).Sub(big.NewInt(s.Burst), bursts), new(big.Int).Add(bursts, big.NewInt(headroom)))
	}
	c.cburst(s, path)
	if p.oversub {
		bursts.SetInt64(max(0, s.Burst-headroom))
	}
	p.promisedUnits = bursts.Int64()
}

func (c *compiler) cburst(s *Spec, path []string) {
	if s.CBurst < s.Burst && s.CBurst > 0 && c.use != toShapeAsKernel {
		c.say(path, "cburst", "cburst %d is below its burst %d: write at least %d, or leave it out", s.CBurst, s.Burst, s.Burst)
	}
}

// scale makes the buckets of p and of all below it. A cost above most cannot
// pass above p: the root's burst, which is the last to lend, and the cbursts.
func (p *plan) scale(s algo.Scale, most int64, alone, static bool) {
	p.ticks, p.alone = s, alone && p.spec.Sync == 0
	p.simple = p.alone && len(p.spec.Also) == 0
	p.static = p.simple && static
	p.maxCost = min(most, p.spec.CBurst)
	p.rate = s.Bucket(p.spec.Rate, p.spec.Burst)
	p.ceil = s.Bucket(p.spec.Ceil, p.spec.CBurst)
	p.one = p.rate == p.ceil
	for _, l := range p.spec.Also {
		p.also = append(p.also, s.Bucket(l.Rate, l.Burst))
		p.maxCost = min(p.maxCost, l.Burst)
	}
	p.promised = s.Cost(p.promisedUnits)
	if p.oversub {
		p.reserve = s.Bucket(p.spec.Rate, p.promisedUnits)
	}
	for _, q := range p.children {
		q.scale(s, p.maxCost, p.alone, p.static)
	}
	if p.template != nil {
		p.template.scale(s, p.maxCost, p.alone, false)
	}
	if p.inner() && p.use == toPolice {
		p.shareOut()
	}
}
