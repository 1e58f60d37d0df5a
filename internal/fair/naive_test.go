package fair

import (
	"cmp"
	"math"
	"slices"
)

// A second way to the same numbers, slow and plain: progressive filling in rounds, as the
// package comment words it. Both dialects must agree with it on every random tree.

// fluid is a leaf or child in a round of filling, under any number of limits.
type fluid struct {
	room, weight float64
	limits       []*float64 // what is left of each limit that it shares with others
	got          float64
}

// fill raises all fluids at the speeds of their weights, until each is stopped by its room or a limit.
func fill(fluids []*fluid) {
	active := slices.Clone(fluids)
	for len(active) > 0 {
		speed := map[*float64]float64{}
		for _, f := range active {
			for _, l := range f.limits {
				speed[l] += f.weight
			}
		}
		until := func(f *fluid) float64 {
			t := f.room / f.weight
			for _, l := range f.limits {
				t = min(t, max(0, *l)/speed[l])
			}
			return t
		}
		rise := math.Inf(1)
		for _, f := range active {
			rise = min(rise, until(f))
		}
		var stay []*fluid
		for _, f := range active {
			if until(f) > rise*(1+1e-12) {
				stay = append(stay, f)
			}
		}
		for _, f := range active {
			f.got += rise * f.weight
			f.room -= rise * f.weight
		}
		for l, s := range speed {
			*l -= rise * s
		}
		active = stay
	}
}

// share is a class as Strict sees it: what it wants, its guarantee, and its results.
type share struct{ wants, rate, ceil, gets float64 }

func (s *share) has() float64 { return min(s.wants, s.rate) }

// naiveStrict returns the share of each class below root and of root itself.
func naiveStrict(root *Node, reserve bool) map[*Node]*share {
	shares := map[*Node]*share{}
	var measure func(n *Node) *share
	measure = func(n *Node) *share {
		s := &share{wants: max(0, n.Want), rate: n.Rate, ceil: n.Ceil}
		shares[n] = s
		if len(n.Children) > 0 {
			var own, held float64
			s.wants = 0
			for _, c := range n.Children {
				down := measure(c)
				s.wants += down.wants
				own += down.has()
				held += max(0, min(c.Burst, c.Rate-down.has()))
			}
			if n.Oversubscribed {
				held = n.Hold
			}
			if reserve {
				s.rate = max(min(own, n.Rate), n.Rate-held)
				s.ceil = max(min(own, n.Ceil), n.Ceil-held)
			}
		}
		s.rate, s.ceil = max(0, s.rate), max(0, s.ceil)
		s.wants = min(s.wants, s.ceil)
		return s
	}
	var divide func(n *Node)
	divide = func(n *Node) {
		left := shares[n].gets
		guaranteed := 0.0
		for _, c := range n.Children {
			guaranteed += shares[c].has()
		}
		if guaranteed > left {
			var all []*fluid
			for _, c := range n.Children {
				f := &fluid{room: shares[c].has(), weight: shares[c].rate, limits: []*float64{&left}}
				if f.weight > 0 {
					all = append(all, f)
					defer func() { shares[c].gets = f.got; divide(c) }()
				} else {
					defer divide(c)
				}
			}
			fill(all)
			return
		}
		left -= guaranteed
		for _, c := range n.Children {
			shares[c].gets = shares[c].has()
		}
		for _, prio := range prios(n.Children) {
			var all []*fluid
			var who []*Node
			for _, c := range n.Children {
				if c.Prio == prio && shares[c].wants > shares[c].has() {
					all = append(all, &fluid{room: shares[c].wants - shares[c].has(), weight: c.weight(), limits: []*float64{&left}})
					who = append(who, c)
				}
			}
			fill(all)
			for i, f := range all {
				shares[who[i]].gets += f.got
			}
		}
		for _, c := range n.Children {
			divide(c)
		}
	}
	top := measure(root)
	top.gets = top.has()
	divide(root)
	return shares
}

// naiveKernel returns what each leaf gets.
func naiveKernel(root *Node) map[*Node]float64 {
	result := map[*Node]float64{}
	tokens, ctokens := map[*Node]*float64{}, map[*Node]*float64{}
	paths := map[*Node][]*Node{} // from the class to the root
	var inner []*Node
	var walk func(n *Node, above []*Node)
	walk = func(n *Node, above []*Node) {
		tokens[n], ctokens[n] = &[]float64{n.Rate}[0], &[]float64{n.Ceil}[0]
		paths[n] = append([]*Node{n}, above...)
		if len(n.Children) > 0 {
			inner = append(inner, n)
		}
		for _, c := range n.Children {
			walk(c, paths[n])
		}
	}
	walk(root, nil)
	for _, leaf := range leaves(root) {
		result[leaf] = max(0, min(leaf.Want, leaf.Rate, leaf.Ceil))
		for _, n := range paths[leaf] {
			*tokens[n] -= result[leaf]
			*ctokens[n] -= result[leaf]
		}
	}
	slices.SortStableFunc(inner, func(a, b *Node) int { return cmp.Compare(len(paths[b]), len(paths[a])) })
	for _, x := range inner {
		for _, prio := range prios(leaves(x)) {
			left := min(*tokens[x], *ctokens[x])
			if left <= 1e-9 { // the rounds leave dust
				continue
			}
			var all []*fluid
			var who []*Node
			budget := map[*Node]*float64{x: &left}
			for _, leaf := range leaves(x) {
				if leaf.Prio != prio {
					continue
				}
				f := &fluid{room: max(0, min(leaf.Want, leaf.Ceil)-result[leaf]), weight: leaf.weight()}
				for _, n := range paths[leaf][1:] {
					if budget[n] == nil {
						budget[n] = &[]float64{*ctokens[n]}[0]
					}
					f.limits = append(f.limits, budget[n])
					if n == x {
						break
					}
				}
				all = append(all, f)
				who = append(who, leaf)
			}
			fill(all)
			for i, f := range all {
				result[who[i]] += f.got
				between := true
				for _, n := range paths[who[i]] {
					between = between && n != x
					*ctokens[n] -= f.got
					if !between {
						*tokens[n] -= f.got
					}
				}
			}
		}
	}
	return result
}

func prios(nodes []*Node) []int {
	var all []int
	for _, n := range nodes {
		all = append(all, n.Prio)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
