package fair

import (
	"cmp"
	"math"
	"slices"
)

// Options of [Strict].
type Options struct {
	// Reserve keeps back what children have not claimed of their guarantees, as a policer must.
	// The default, false, is for queues: everything that is wanted is known, so all of it can be lent.
	Reserve bool
}

// Strict divides root's capacity level by level: each class among its children, guarantees
// first, then by prio, then max-min fairly by quantum. It sets Gets and Borrowed of every class.
//
// A ceil is a hard cap for everything below it. Where guarantees exceed
// what there is (below an oversubscribed class, or in a tree that is not covered), each child gets in
// proportion to its Rate, up to the guaranteed part of what it wants.
//
// It takes O(n log n) time and panics on an amount that is NaN or infinite where Node says finite.
func Strict(root *Node, o Options) {
	root.check()
	s := strict{Options: o}
	s.want(root)
	s.give(root, root.has())
}

type strict struct {
	Options
	order  []*Node // scratch
	claims []claim // scratch
}

// want sets wants and rate of n and of everything below it.
func (s *strict) want(n *Node) {
	if n.leaf() {
		n.wants = max(0, min(n.Want, n.Ceil))
		n.rate = max(0, n.Rate)
		return
	}
	var wants, own, held float64
	for _, c := range n.Children {
		s.want(c)
		wants += c.wants
		own += c.has()
		held += max(0, min(c.Burst, c.Rate-c.has()))
	}
	rate, ceil := n.Rate, n.Ceil
	if s.Reserve {
		if n.Oversubscribed {
			held = n.Hold
		}
		rate = max(min(own, rate), rate-held)
		ceil = max(min(own, ceil), ceil-held)
	}
	n.wants = max(0, min(wants, ceil))
	n.rate = max(0, rate)
}

// give divides amount, at most n.wants, among n's children, and theirs among theirs.
func (s *strict) give(n *Node, amount float64) {
	n.Gets = amount
	n.Borrowed = max(0, amount-n.rate)
	if n.leaf() {
		return
	}
	guaranteed := 0.0
	for _, c := range n.Children {
		guaranteed += c.has()
	}
	if guaranteed > amount {
		s.ration(n, amount)
	} else {
		s.share(n, amount-guaranteed)
	}
	for _, c := range n.Children {
		s.give(c, c.Gets)
	}
}

// ration divides what is less than the guarantees of n's children together.
func (s *strict) ration(n *Node, amount float64) {
	s.claims = slices.Grow(s.claims[:0], len(n.Children))
	for _, c := range n.Children {
		if c.rate > 0 { // zero weight takes nothing, and 0/0 is no level
			s.claims = append(s.claims, newClaim(c.has(), c.rate))
		}
	}
	height := level(amount, s.claims)
	for _, c := range n.Children {
		c.Gets = 0
		if c.rate > 0 {
			c.Gets = at(height, c.has(), c.rate)
		}
	}
}

// share gives n's children their guaranteed parts, and excess on top.
func (s *strict) share(n *Node, excess float64) {
	s.order = append(s.order[:0], n.Children...)
	slices.SortStableFunc(s.order, func(a, b *Node) int { return cmp.Compare(a.Prio, b.Prio) })
	for rest := s.order; len(rest) > 0; {
		same := 1
		for same < len(rest) && rest[same].Prio == rest[0].Prio {
			same++
		}
		s.claims = slices.Grow(s.claims[:0], same)
		for _, c := range rest[:same] {
			s.claims = append(s.claims, newClaim(c.wants-c.has(), c.weight()))
		}
		height := level(excess, s.claims)
		for _, c := range rest[:same] {
			increment := at(height, c.wants-c.has(), c.weight())
			c.Gets = min(c.wants, c.has()+increment) // the sum may round to just above
			excess -= increment
		}
		if !math.IsInf(height, 1) {
			excess = 0 // a rounding error is no excess
		}
		excess = max(0, excess)
		rest = rest[same:]
	}
}
