package fair

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// The laws of the package comment under their numbers, on random trees, in each dialect.
// FuzzLaws runs exactly these.

// dialect is a way to divide, with what the laws need to know of it.
type dialect struct {
	name   string
	divide func(*Node)
	// shares returns the ceils, rates and wants that apply to each class; nil in kernel.
	shares func(*Node) map[*Node]*share
}

var dialects = []dialect{
	{"strict", strictly, func(n *Node) map[*Node]*share { return naiveStrict(n, false) }},
	{"reserve", reservedly, func(n *Node) map[*Node]*share { return naiveStrict(n, true) }},
	{"kernel", Kernel, nil},
}

var laws = []struct {
	name     string
	law      func(*rapid.T, dialect)
	siblings bool // compares siblings, which kernel does not
}{
	{"1 conservation", law1Conservation, false},
	{"2 limits", law2Limits, false},
	{"3 guarantee", law3Guarantee, false},
	{"4 work conservation", law4WorkConservation, false},
	{"5 max-min", law5MaxMin, true},
	{"6 prio", law6Prio, true},
	{"7 scale", law7Scale, false},
	{"8 symmetry", law8Symmetry, false},
	{"naive", lawNaive, false},
}

func TestLaws(t *testing.T) {
	for _, l := range laws {
		for _, d := range dialects {
			if l.siblings && d.shares == nil {
				continue
			}
			t.Run(l.name+"/"+d.name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { l.law(t, d) })
			})
		}
	}
}

func FuzzLaws(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		l := rapid.SampledFrom(laws).Draw(t, "law")
		d := rapid.SampledFrom(dialects).Draw(t, "dialect")
		if !l.siblings || d.shares != nil {
			l.law(t, d)
		}
	}))
}

// amount draws a few round numbers as often as all others, because ties and zeros are where sharing goes
// wrong. It draws none below a millionth: subnormal numbers have no 1e-9 of precision.
func amount(t *rapid.T, name string) float64 {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(0, 10), func(i int) float64 { return 10 * float64(i) }),
		rapid.Map(rapid.IntRange(0, 1e8), func(i int) float64 { return float64(i) / 1e6 }),
	).Draw(t, name)
}

// forest draws trees of depth 2 to 4 with 1 to 6 children to a class.
type forest struct {
	covered bool // ceils and rates as in a tree that keeps its promises
}

func (f forest) draw(t *rapid.T) *Node {
	root := f.class(t, rapid.IntRange(1, 3).Draw(t, "depth"))
	if rapid.Bool().Draw(t, "tight root") {
		root.Ceil = root.Rate
	}
	return root
}

func (f forest) class(t *rapid.T, depth int) *Node {
	n := &Node{
		Burst:   amount(t, "burst"),
		Prio:    rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "prio"),
		Quantum: rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 1, 3}), rapid.Map(rapid.IntRange(1, 100), func(i int) float64 { return float64(i) / 10 })).Draw(t, "quantum"),
	}
	if depth == 0 {
		f.leaf(t, n)
	} else {
		f.inner(t, n, depth)
	}
	n.Ceil = amount(t, "ceil")
	if f.covered || rapid.Bool().Draw(t, "ceil above rate") {
		n.Ceil += max(0, n.Rate)
	}
	if rapid.IntRange(0, 5).Draw(t, "no ceil") == 5 {
		n.Ceil = inf
	}
	return n
}

func (f forest) leaf(t *rapid.T, n *Node) {
	// Most guarantees are small, so that most trees have something to share.
	n.Rate = amount(t, "rate") * rapid.SampledFrom([]float64{.1, 0, .1, 1}).Draw(t, "size")
	if !f.covered && rapid.IntRange(0, 9).Draw(t, "debt") == 9 {
		n.Rate = -n.Rate
	}
	n.Want = rapid.SampledFrom([]float64{inf, amount(t, "want"), 2 * n.Rate, 0}).Draw(t, "wants")
	n.Want = max(0, n.Want)
}

func (f forest) inner(t *rapid.T, n *Node, depth int) {
	n.Oversubscribed = rapid.IntRange(0, 4).Draw(t, "oversubscribed") == 4
	n.Hold = amount(t, "hold")
	promised := 0.0
	for range rapid.IntRange(1, 6).Draw(t, "children") {
		c := f.class(t, rapid.IntRange(0, depth-1).Draw(t, "below"))
		promised += c.Rate
		n.Children = append(n.Children, c)
	}
	n.Rate = amount(t, "rate")
	if f.covered && !n.Oversubscribed {
		n.Rate += promised
	} else {
		n.Rate += promised * rapid.SampledFrom([]float64{1, .5, 0}).Draw(t, "kept")
	}
}

// all lists n and what is below it, a parent before its children.
func all(n *Node) []*Node {
	list := []*Node{n}
	for _, c := range n.Children {
		list = append(list, all(c)...)
	}
	return list
}

// dust is the rounding error that a tree of these sizes may show.
const dust = 1e-7

// near says whether a and b differ by no more than 1e-9 of the larger, or by dust.
func near(a, b float64) bool {
	return a == b || !math.IsInf(a-b, 0) && math.Abs(a-b) <= max(1e-9*max(math.Abs(a), math.Abs(b)), dust)
}

func TestNear(t *testing.T) {
	assert.True(t, near(1, 1+1e-8))
	assert.True(t, near(0, 0))
	assert.True(t, near(1e12, 1e12+1))
	assert.True(t, near(inf, inf))
	assert.False(t, near(1, 1000))
	assert.False(t, near(1, 1.001))
	assert.False(t, near(0, 1e-6))
	assert.False(t, near(1e12, 1e12+1e4))
	assert.False(t, near(math.NaN(), math.NaN()))
	assert.False(t, near(1, inf))
}

func show(n *Node) string {
	var s strings.Builder
	fmt.Fprintf(&s, "{rate %v ceil %v burst %v hold %v over %v prio %v quantum %v want %v: gets %v",
		n.Rate, n.Ceil, n.Burst, n.Hold, n.Oversubscribed, n.Prio, n.Quantum, n.Want, n.Gets)
	for _, c := range n.Children {
		s.WriteString(" " + show(c))
	}
	return s.String() + "}"
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func lawConservation(t failer, root *Node) {
	t.Helper()
	for _, n := range all(root) {
		if n.leaf() {
			continue
		}
		sum := 0.0
		for _, c := range n.Children {
			sum += c.Gets
		}
		if math.Abs(sum-n.Gets) > 1e-9*n.Gets || math.IsNaN(sum) {
			t.Fatalf("children get %v of %v in %s", sum, n.Gets, show(root))
		}
	}
}

func law1Conservation(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	d.divide(root)
	lawConservation(t, root)
}

func law2Limits(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	d.divide(root)
	var offered func(n *Node) float64
	offered = func(n *Node) float64 {
		if n.leaf() {
			return n.Want
		}
		sum := 0.0
		for _, c := range n.Children {
			sum += offered(c)
		}
		return sum
	}
	for _, n := range all(root) {
		limit := max(0, min(offered(n), n.Ceil))
		switch {
		case d.shares != nil:
			limit = min(limit, d.shares(root)[n].ceil)
		case !n.leaf():
			below := 0.0
			for _, c := range n.Children {
				below += unborrowed(c)
			}
			limit = max(below, limit)
		}
		if n.Gets > limit && !near(n.Gets, limit) || !(n.Gets >= 0) {
			t.Fatalf("%s gets more than %v in %s", show(n), limit, show(root))
		}
	}
	if d.shares != nil && root.Borrowed != 0 {
		t.Fatalf("root borrows in %s", show(root))
	}
}

// unborrowed is the most that n and those below it may send in kernel with nothing from above n.
func unborrowed(n *Node) float64 {
	if n.leaf() {
		return max(0, min(n.Rate, n.Ceil, n.Want))
	}
	below := 0.0
	for _, c := range n.Children {
		below += unborrowed(c)
	}
	return max(below, n.Rate)
}

func law3Guarantee(t *rapid.T, d dialect) {
	root := forest{covered: true}.draw(t)
	d.divide(root)
	var check func(n *Node)
	check = func(n *Node) {
		if n.leaf() {
			if has := min(n.Want, n.Rate, n.Ceil); n.Gets < has && !near(n.Gets, has) {
				t.Fatalf("%s gets less than %v in %s", show(n), has, show(root))
			}
		}
		if n.Oversubscribed && d.shares != nil {
			return
		}
		for _, c := range n.Children {
			check(c)
		}
	}
	check(root)
}

func law4WorkConservation(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	d.divide(root)
	// used says whether n has come up to what limits it, and left nothing.
	used := func(n *Node, limit float64) bool { return n.Gets >= limit || near(n.Gets, limit) }
	if d.shares == nil {
		// Every class from a hungry leaf to the root has lent all it had, unless one on the way is at its ceil.
		var walk func(n *Node) (hungry bool)
		walk = func(n *Node) (hungry bool) {
			if n.leaf() {
				hungry = n.Gets < n.Want
			}
			for _, c := range n.Children {
				hungry = walk(c) || hungry
			}
			hungry = hungry && !used(n, n.Ceil)
			if hungry && !n.leaf() && !used(n, n.Rate) {
				t.Fatalf("%s could lend more in %s", show(n), show(root))
			}
			return hungry && !near(n.Gets, n.Want)
		}
		walk(root)
		return
	}
	shares := d.shares(root)
	var walk func(n *Node) (hungry bool)
	walk = func(n *Node) (hungry bool) {
		if n.leaf() {
			hungry = n.Gets < n.Want && !near(n.Gets, n.Want)
		}
		for _, c := range n.Children {
			hungry = walk(c) || hungry
		}
		return hungry && !used(n, shares[n].ceil)
	}
	if walk(root) && !used(root, shares[root].rate) {
		t.Fatalf("capacity is left over in %s", show(root))
	}
}

// rivals calls f for every class that gets less than it wants of its parent's excess, and every sibling.
func rivals(root *Node, shares map[*Node]*share, f func(hungry, sibling *Node)) {
	for _, n := range all(root) {
		guaranteed := 0.0
		for _, c := range n.Children {
			guaranteed += shares[c].has()
		}
		if guaranteed > n.Gets { // no excess, and law 3 does not hold either
			continue
		}
		for _, a := range n.Children {
			if a.Gets >= shares[a].wants || near(a.Gets, shares[a].wants) {
				continue
			}
			for _, b := range n.Children {
				f(a, b)
			}
		}
	}
}

func law5MaxMin(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	d.divide(root)
	shares := d.shares(root)
	rivals(root, shares, func(hungry, sibling *Node) {
		h := (hungry.Gets - shares[hungry].has()) / hungry.weight()
		s := (sibling.Gets - shares[sibling].has()) / sibling.weight()
		if sibling.Prio == hungry.Prio && s > h && math.Abs(s-h) > 10*dust { // the smallest weight is a tenth
			t.Fatalf("%s has an increment of %v per quantum while %s has %v in %s", show(sibling), s, show(hungry), h, show(root))
		}
	})
}

func law6Prio(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	d.divide(root)
	shares := d.shares(root)
	rivals(root, shares, func(hungry, sibling *Node) {
		if sibling.Prio > hungry.Prio && !near(sibling.Gets, shares[sibling].has()) {
			t.Fatalf("%s has an increment while %s is hungry in %s", show(sibling), show(hungry), show(root))
		}
	})
}

func law7Scale(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	k := rapid.SampledFrom([]float64{1e-3, 1. / 3, 7, 1e6}).Draw(t, "k")
	d.divide(root)
	before := gets(all(root))
	for _, n := range all(root) {
		n.Rate, n.Ceil, n.Burst, n.Hold, n.Want = k*n.Rate, k*n.Ceil, k*n.Burst, k*n.Hold, k*n.Want
	}
	d.divide(root)
	for i, after := range gets(all(root)) {
		if !near(before[i], after/k) {
			t.Fatalf("class %d gets %v instead of %v*%v in %s", i, after, before[i], k, show(root))
		}
	}
}

func law8Symmetry(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	d.divide(root)
	list := all(root)
	before := gets(list)
	for _, n := range list {
		if !n.leaf() {
			n.Children = rapid.Permutation(slices.Clone(n.Children)).Draw(t, "order")
		}
	}
	d.divide(root)
	for i, n := range list {
		if !near(before[i], n.Gets) {
			t.Fatalf("%s gets %v instead of %v in %s", show(n), n.Gets, before[i], show(root))
		}
	}
}

// lawNaive is the sum of them: there is but one division that the package comment describes.
func lawNaive(t *rapid.T, d dialect) {
	root := forest{}.draw(t)
	d.divide(root)
	if d.shares == nil {
		naive := naiveKernel(root)
		for _, leaf := range leaves(root) {
			if !near(naive[leaf], leaf.Gets) {
				t.Fatalf("%s should get %v in %s", show(leaf), naive[leaf], show(root))
			}
		}
		return
	}
	shares := d.shares(root)
	for _, n := range all(root) {
		if !near(shares[n].gets, n.Gets) {
			t.Fatalf("%s should get %v in %s", show(n), shares[n].gets, show(root))
		}
	}
}
