package htb

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Template is the name of a template: the class it describes is made once for
// every name seen that no sibling has.
const Template = "*"

// MaxSync is the longest time between two reports of a class.
const MaxSync = time.Hour

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
	// Remote says that a leaf's buckets are kept outside of the tree, where other
	// gateways find them too: decide on it with [Tree.Ask]. Calls that do not ask
	// decide as if it were not Remote.
	Remote bool
	// Sync is how often the class is reconciled with its twins, on other gateways that
	// share what it has; see [Tree.Reports]. 0: it has none.
	Sync time.Duration
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
