package fair

import (
	"fmt"
	"math"
)

// Node is one class in one step: what it may send, what it wants and, after
// [Strict] or [Kernel], what it gets.
//
// A leaf needs Rate, Ceil and Want, an inner class Rate, Ceil and Children. The zero value is
// a leaf that may send nothing. A tree belongs to one goroutine at a time. It can be used
// again for the next step: results are overwritten, and no input is.
type Node struct {
	// Rate is what it may send within its guarantee in this step: rate*step plus the tokens it
	// had saved. Finite; below zero for a class in debt.
	Rate float64
	// Ceil is the most it may send in this step, borrowed or not: ceil*step plus what was saved.
	// +Inf is no limit.
	Ceil float64
	// Burst is the most guarantee it can keep for later. It counts with Options.Reserve only.
	Burst float64
	// Hold is what an oversubscribed class keeps back with Options.Reserve: the
	// state, at the end of the step, of the bucket that is its reserve. Finite.
	Hold float64
	// Oversubscribed says that its children's guarantees may add up to more than its own.
	Oversubscribed bool
	// Prio orders the claims on excess, the lowest first.
	Prio int
	// Quantum is its weight among claims of one prio. Zero or less counts as 1.
	Quantum float64
	// Want is what was offered to a leaf, +Inf for a backlogged one. An inner class wants what its
	// children want.
	Want     float64
	Children []*Node

	// Gets is the result: its share of this step.
	Gets float64
	// Borrowed is the part of Gets beyond Rate (with Reserve: beyond the rate that its
	// children's reserve left). In Kernel that includes the debt which leaves within their rates put
	// on an inner class.
	Borrowed float64

	// Strict's scratch: what it wants under all the ceils below and at it, and its guarantee, never
	// negative.
	wants, rate float64
}

func (n *Node) leaf() bool { return len(n.Children) == 0 }

func (n *Node) weight() float64 {
	if n.Quantum > 0 {
		return n.Quantum
	}
	return 1
}

// has is the guaranteed part of what n wants.
func (n *Node) has() float64 { return min(n.wants, n.rate) }

// check panics on amounts for which no division exists.
func (n *Node) check() {
	finite := n.Rate + n.Hold + n.Quantum // NaN and both infinities survive a sum
	if math.IsNaN(finite+n.Ceil+n.Burst+n.Want) || math.IsInf(finite, 0) {
		panic(fmt.Sprintf("fair: not an amount, or an infinite Rate, Hold or Quantum: Rate %v, Ceil %v, Burst %v, Hold %v, Quantum %v, Want %v",
			n.Rate, n.Ceil, n.Burst, n.Hold, n.Quantum, n.Want))
	}
	for _, c := range n.Children {
		c.check()
	}
}
