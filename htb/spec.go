package htb

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Template is the name of a template: the class it describes is made once for
// every name seen that no sibling has.
const Template = "*"

// MaxDepth is how many levels a tree may have, the root included.
const MaxDepth = 8

// Spec describes one class and those below it. The Spec of a tree is that of its
// root. Only Rate is required (and Name, except at the root).
type Spec struct {
	// Name is the class's name among its siblings, or "*" for a template.
	Name string
	// Rate is what the class is guaranteed.
	Rate algo.Rate
	// Burst is how many units of guarantee it can save up while idle. 0 means: a
	// leaf, one second of Rate, rounded up; an inner class, the sum of its
	// children's and headroom (see the package comment).
	Burst int64
	// Ceil is the most it may reach with borrowing. Zero means Rate: no borrowing.
	Ceil algo.Rate
	// CBurst is the burst of Ceil. 0 means Burst.
	CBurst int64
	// Prio, 0 to 7, says who borrows first among siblings: the lower.
	Prio int
	// Quantum is the weight among siblings of one Prio that borrow. 0 means in
	// proportion to Rate; see Weight.
	Quantum int64
	// Also lists further limits of a leaf that must admit too.
	Also []Limit
	// Oversubscribed says that an inner class knowingly promises its children more
	// than it has. A class above a template always does.
	Oversubscribed bool
	// Limit is how many requests of a leaf a shaper queues. 0 means 1000.
	Limit int
	// MaxWait is how long a shaper keeps a request of a leaf queued. 0 means 30 s.
	MaxWait time.Duration
	// Max is how many children a template may have alive at once; further names
	// share one. 0 means 100000.
	Max int
	// Idle is how long a template's child stays once it is at rest. 0 means not at all.
	Idle time.Duration
	// Children are the classes that share this one, in the order they are listed in.
	Children []Spec
}

// clone returns a copy that shares nothing with s.
func (s Spec) clone() Spec {
	s.Also = slices.Clone(s.Also)
	s.Children = slices.Clone(s.Children)
	for i := range s.Children {
		s.Children[i] = s.Children[i].clone()
	}
	return s
}

// Weight returns the class's weight among siblings of one Prio: its Quantum or,
// where that is 0, its Rate in units per second.
func (s Spec) Weight() float64 {
	if s.Quantum > 0 {
		return float64(s.Quantum)
	}
	return s.Rate.PerSecond()
}

// Reserve returns the most that s, with its defaults filled in, keeps back for its
// children: what they may save up or, where s is oversubscribed, its burst less headroom.
func (s Spec) Reserve() int64 {
	sum := int64(0)
	for _, c := range s.Children {
		sum = plus(sum, c.Burst)
	}
	if s.Oversubscribed {
		return max(0, s.Burst-max(1, s.Rate.Over(time.Second/10), s.largestLeaf()))
	}
	return sum
}

func (s Spec) largestLeaf() (burst int64) {
	if len(s.Children) == 0 {
		return s.Burst
	}
	for _, c := range s.Children {
		burst = max(burst, c.largestLeaf())
	}
	return burst
}

// Limit is a further limit of a leaf.
type Limit struct {
	Rate  algo.Rate
	Burst int64 // at least 1
}

// Defaults of the shaper's bounds.
const (
	DefaultLimit   = 1000
	DefaultMaxWait = 30 * time.Second
)

// DefaultMax is the number of live children a template may have unless it says otherwise.
const DefaultMax = 100_000

// Mistake is one thing wrong with a Spec.
type Mistake struct {
	Path    []string // the class, root first; the root itself is empty
	Key     string   // what of it: "rate", "burst", ...; "" for the class as a whole
	Text    string   // what is wrong and what to write instead
	Warning bool     // works, but hardly as meant
}

// Error says where and what.
func (m Mistake) Error() string {
	return fmt.Sprintf("htb: class %q: %s", m.Where(), m.Text)
}

// Where writes out the class's path, with "*" for a template.
func (m Mistake) Where() string {
	if len(m.Path) == 0 {
		return RootPath
	}
	names := make([]string, len(m.Path))
	for i, name := range m.Path {
		if names[i] = name; name != Template {
			names[i] = escape(name, false)
		}
	}
	return strings.Join(names, "/")
}

// Mistakes is what New and Replace return for a Spec that cannot be used: all of
// what is wrong with it.
type Mistakes []Mistake

// Error lists the mistakes, a line each.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i := range m {
		lines[i] = m[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Check returns everything that is wrong with s as the root of a tree that
// polices, warnings included, in tree order.
func (s Spec) Check() Mistakes {
	_, m := compile(s, toPolice)
	return m
}

// CheckShape returns everything that is wrong with s as the root of a tree that
// shapes in dialect d. Order gives its guarantees, so inner bursts need not cover
// what children save up; in [Kernel], as in Linux, rates and ceils need not add up.
func (s Spec) CheckShape(d Dialect) Mistakes {
	_, m := compile(s, d.purpose())
	return m
}

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
	template    *plan   // the class made for any other name
	largestLeaf int64   // largest burst of a leaf at or below

	ticks         algo.Scale // the tree's
	promisedUnits int64      // promised, in units
	maxCost       int64      // the largest cost that some state of the buckets admits
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
	p.scale(scale, p.spec.Burst)
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
	p := &plan{depth: len(path), use: c.use}
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
func (p *plan) scale(s algo.Scale, most int64) {
	p.ticks = s
	p.maxCost = min(most, p.spec.CBurst)
	p.rate = s.Bucket(p.spec.Rate, p.spec.Burst)
	p.ceil = s.Bucket(p.spec.Ceil, p.spec.CBurst)
	for _, l := range p.spec.Also {
		p.also = append(p.also, s.Bucket(l.Rate, l.Burst))
		p.maxCost = min(p.maxCost, l.Burst)
	}
	p.promised = s.Cost(p.promisedUnits)
	if p.oversub {
		p.reserve = s.Bucket(p.spec.Rate, p.promisedUnits)
	}
	for _, q := range p.children {
		q.scale(s, p.maxCost)
	}
	if p.template != nil {
		p.template.scale(s, p.maxCost)
	}
}
