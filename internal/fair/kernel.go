package fair

import (
	"cmp"
	"math"
	"slices"
)

// Kernel divides root's capacity as Linux's sch_htb does, with its packets made infinitely
// small. It sets Gets and Borrowed of every class.
//
// Every leaf sends what it wants within its Rate and its own Ceil, whatever the classes above it have left;
// that may put them in debt. Then the inner classes lend, the deepest first, to the leaves
// below them that want more: by the leaves' prio, then max-min fairly by the leaves' quantum. A
// lend needs tokens and room under the ceil at the lender, room under the ceil of every class between it and
// the leaf, and nothing above the lender, where it is charged all the same.
//
// It takes O(n log n) time for a tree of given depth, and panics as [Strict] does.
func Kernel(root *Node) {
	root.check()
	var k kernel
	k.add(root, -1, 0)
	for _, leaf := range k.leaves {
		n := k.classes[leaf].Node
		n.Gets = max(0, min(n.Want, n.Rate, n.Ceil))
		for c := k.classes[leaf].parent; c >= 0; c = k.classes[c].parent {
			k.classes[c].tokens -= n.Gets
			k.classes[c].ctokens -= n.Gets
		}
	}
	// Classes of one depth have no class in common but those above them, which do not limit
	// their lending: they lend at the same time, in whatever order they are visited.
	slices.SortStableFunc(k.inner, func(a, b int) int {
		return cmp.Compare(k.classes[b].depth, k.classes[a].depth)
	})
	for _, lender := range k.inner {
		k.lend(lender)
	}
	for i := len(k.classes) - 1; i >= 0; i-- { // children come after their parent
		n := k.classes[i].Node
		if !n.leaf() {
			n.Gets = 0
			for _, c := range n.Children {
				n.Gets += c.Gets
			}
		}
		n.Borrowed = max(0, n.Gets-max(0, n.Rate))
	}
}

// kernel is the tree laid out in slices; classes are known by their index.
//
// INVARIANT: a parent comes before its children, and the leaves below any one class are
// neighbours in leaves, in the order of their indices.
type kernel struct {
	classes []class
	inner   []int // those with children
	leaves  []int
	hungry  []int   // scratch of lend
	claims  []claim // scratch of lend, a stack
}

// class is a Node with its place in the tree and what it has left.
type class struct {
	*Node
	parent, depth   int     // parent is -1 at the root
	first, last     int     // the leaves below it are kernel.leaves[first:last]
	tokens, ctokens float64 // of an inner class, below zero when in debt
	level           float64 // in one round of lending: how high it, as a limit, lets claims below it rise
}

func (c *class) room() float64 { return min(c.Want, c.Ceil) - c.Gets }

func (k *kernel) add(n *Node, parent, depth int) {
	self := len(k.classes)
	k.classes = append(k.classes, class{
		Node: n, parent: parent, depth: depth, first: len(k.leaves), tokens: n.Rate, ctokens: n.Ceil,
	})
	if n.leaf() {
		k.leaves = append(k.leaves, self)
	} else {
		k.inner = append(k.inner, self)
	}
	for _, c := range n.Children {
		k.add(c, self, depth+1)
	}
	k.classes[self].last = len(k.leaves)
}

// lend shares what a class has left among the leaves below it.
func (k *kernel) lend(lender int) {
	x := &k.classes[lender]
	left := min(x.tokens, x.ctokens)
	if left <= 0 {
		return
	}
	k.hungry = k.hungry[:0]
	for _, leaf := range k.leaves[x.first:x.last] {
		if k.classes[leaf].room() > 0 {
			k.hungry = append(k.hungry, leaf)
		}
	}
	slices.SortFunc(k.hungry, func(a, b int) int {
		return cmp.Or(cmp.Compare(k.classes[a].Prio, k.classes[b].Prio), cmp.Compare(a, b))
	})
	lent := 0.0
	for rest := k.hungry; len(rest) > 0 && left > 0; {
		same := 1
		for same < len(rest) && k.classes[rest[same]].Prio == k.classes[rest[0]].Prio {
			same++
		}
		k.claims = k.claims[:0]
		k.bind(lender, rest[:same], left)
		given := k.pour(lender, rest[:same], math.Inf(1))
		lent += given
		left -= given
		if !math.IsInf(x.level, 1) {
			left = 0 // a rounding error is no token
		}
		rest = rest[same:]
	}
	for c := x.parent; c >= 0; c = k.classes[c].parent {
		k.classes[c].tokens -= lent
		k.classes[c].ctokens -= lent
	}
}

// bind finds the level of c and of every inner class on the way to leaves (all below c), where no more
// than budget passes c. It leaves their claims on top of the stack.
//
// Limits are nested, so they are settled from below: once a class is known to bind at a level, all claims
// that would rise above it act as one claim that is full there. The levels above cannot
// change that, only stop everything earlier.
func (k *kernel) bind(c int, leaves []int, budget float64) {
	mark := len(k.claims)
	for len(leaves) > 0 {
		child, n := k.branch(c, leaves)
		if down := &k.classes[child]; down.leaf() {
			k.claims = append(k.claims, newClaim(down.room(), down.weight()))
		} else {
			k.bind(child, leaves[:n], down.ctokens)
		}
		leaves = leaves[n:]
	}
	claims := k.claims[mark:]
	height := level(budget, claims)
	k.classes[c].level = height
	if math.IsInf(height, 1) {
		return
	}
	first, _ := slices.BinarySearchFunc(claims, height, func(c claim, h float64) int { return cmp.Compare(c.full, h) })
	if first < len(claims) {
		rest := claims[first].rest
		claims[first] = claim{limit: rest * height, weight: rest, full: height}
		k.claims = k.claims[:mark+first+1]
	}
}

// pour raises the leaves to the lowest level between them and the lender, and returns what that
// took. It charges the ceils of the classes on the way.
func (k *kernel) pour(c int, leaves []int, height float64) float64 {
	height = min(height, k.classes[c].level)
	sum := 0.0
	for len(leaves) > 0 {
		child, n := k.branch(c, leaves)
		if down := &k.classes[child]; down.leaf() {
			increment := at(height, down.room(), down.weight())
			down.Gets += increment
			sum += increment
		} else {
			sum += k.pour(child, leaves[:n], height)
		}
		leaves = leaves[n:]
	}
	k.classes[c].ctokens -= sum
	return sum
}

// branch returns the child of c above the first of the leaves, and how many of the leaves
// are below that child.
func (k *kernel) branch(c int, leaves []int) (child, n int) {
	child = leaves[0]
	for k.classes[child].parent != c {
		child = k.classes[child].parent
	}
	end := k.classes[child].last
	n = 1
	for n < len(leaves) && k.classes[leaves[n]].first < end {
		n++
	}
	return child, n
}
