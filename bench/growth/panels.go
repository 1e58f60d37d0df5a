package main

import (
	"math/rand/v2"
	"strconv"

	"golang.org/x/time/rate"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/bench/internal/rig"
	"github.com/go-sluice/sluice/htb"
)

// on returns decisions on handles, in their order.
func on(leaves ...*htb.Leaf) func(n int) int {
	at := 0
	return func(n int) (allowed int) {
		for range n {
			if d, _ := leaves[at].Allow(sluice.Now(), 1); d.Allowed {
				allowed++
			}
			if at++; at == len(leaves) {
				at = 0
			}
		}
		return allowed
	}
}

func flat() func(n int) int {
	l := rate.NewLimiter(rate.Limit(rig.Fast), rig.Fast)
	return func(n int) (allowed int) {
		for range n {
			if l.Allow() {
				allowed++
			}
		}
		return allowed
	}
}

// depth is of trees that are one chain of classes, with a leaf beside the last.
func depth() *panel {
	own, lent, refused := &curve{name: "own guarantee"}, &curve{name: "lent by the root"}, &curve{name: "refused, at its ceil"}
	for levels := 1; levels <= htb.MaxDepth; levels++ {
		own.add(float64(levels), true, on(chain(levels, algo.PerSecond(rig.Fast), algo.PerSecond(rig.Fast))))
		root := rig.Hardly()
		if levels == 1 {
			root = algo.PerSecond(rig.Fast) // the root is its own leaf, and there is nobody else to lend
		}
		lent.add(float64(levels), true, on(chain(levels, root, algo.PerSecond(rig.Fast))))
		leaf := chain(levels, rig.Hardly(), rig.Hardly())
		on(leaf)(2) // what it has at first
		refused.add(float64(levels), false, on(leaf))
	}
	return &panel{title: "Depth of the tree", x: "levels", logCost: true, cores: 1, curves: []*curve{refused, own, lent}}
}

// chain returns the leaf at the end. Classes below the root have the rate given, a half for
// each level, and the leaf the ceil.
func chain(levels int, r, ceil algo.Rate) *htb.Leaf {
	fast := algo.PerSecond(rig.Fast)
	var below []htb.Spec
	var names []string
	for level := levels - 1; level > 0; level-- {
		c := rig.Class("c", r, fast, below...)
		if below == nil {
			c.Ceil = ceil
		}
		if r == fast {
			c.Rate = algo.PerSecond(rig.Fast >> level)
		}
		other := c
		other.Name, other.Children = "other", nil
		c.Oversubscribed = below != nil && r != fast
		below = []htb.Spec{c, other}
		names = append(names, "c")
	}
	root := rig.Class("", fast, fast, below...)
	if levels == 1 {
		root.Rate, root.Ceil = r, ceil
	}
	return rig.Must(rig.Must(htb.New(root)).Leaf(names...))
}

// children is of trees of two levels, of classes by name.
func children() *panel {
	one, all := &curve{name: "always the same child"}, &curve{name: "children in random order"}
	for n := 10; n <= 1_000_000; n *= 10 {
		root := rig.Class("", algo.PerSecond(rig.Fast), algo.Rate{})
		for i := range n {
			root.Children = append(root.Children, rig.Class(strconv.Itoa(i), algo.PerSecond(int64(rig.Fast/n)), algo.PerSecond(rig.Fast)))
		}
		tree := rig.Must(htb.New(root))
		leaves := make([]*htb.Leaf, n)
		for at, i := range rand.New(rand.NewPCG(5, 6)).Perm(n) {
			leaves[at] = rig.Must(tree.Leaf(root.Children[i].Name))
		}
		on(leaves...)(n)
		one.add(float64(n), true, on(leaves[0]))
		all.add(float64(n), true, on(leaves...))
	}
	return &panel{title: "Children of a class", x: "children", log: true, cores: 1, curves: []*curve{all, one}}
}

// goroutines is of a tree of three levels: each has a leaf of its own.
func goroutines() *panel {
	const most = 64
	ours, theirs := &curve{name: "a leaf each, under one root"}, &curve{name: "x/time, one limiter"}
	for n := 1; n <= most; n *= 2 {
		root := rig.Class("", algo.PerSecond(rig.Fast), algo.Rate{})
		for t := range 8 {
			tenant := rig.Class(strconv.Itoa(t), algo.PerSecond(rig.Fast/8), algo.PerSecond(rig.Fast))
			for c := range most / 8 {
				tenant.Children = append(tenant.Children, rig.Class(strconv.Itoa(c), algo.PerSecond(rig.Fast/most), algo.PerSecond(rig.Fast)))
			}
			root.Children = append(root.Children, tenant)
		}
		tree := rig.Must(htb.New(root))
		var loops, shared []func(n int) int
		limiter := flat()
		for i := range n {
			loops = append(loops, on(rig.Must(tree.Leaf(strconv.Itoa(i%8), strconv.Itoa(i/8)))))
			shared = append(shared, limiter)
		}
		ours.add(float64(n), true, loops...)
		theirs.add(float64(n), true, shared...)
	}
	return &panel{title: "Goroutines, on two cores", x: "goroutines", log: true, cores: 2, curves: []*curve{ours, theirs}}
}

// perLeaf is how much memory a live leaf and its peer may need.
const perLeaf = 1000

// liveLeaves is of clients by name, below a template.
func liveLeaves(most int) *panel {
	ours, theirs := &curve{name: "Sluice, three levels"}, &curve{name: "x/time, a map in 256 shards"}
	for n := 1000; n <= most; n *= 10 {
		if free, ok := rig.Available(); ok && free < perLeaf*float64(n) {
			break
		}
		tree, order := rig.ByName(n), rig.Zipf(n, 1<<20)
		ask := func(name string) bool {
			d, err := tree.Allow(sluice.Now(), 1, "free", name)
			return err == nil && d.Allowed
		}
		ours.add(float64(n), true, inOrder(n, order, ask))
		theirs.add(float64(n), true, inOrder(n, order, rig.Shards(func() *rate.Limiter { return rate.NewLimiter(rig.Fast/100, rig.Fast/100) })))
	}
	return &panel{title: "Live leaves, by name, Zipf 1.1", x: "live leaves", log: true, cores: 1, curves: []*curve{ours, theirs}}
}

// inOrder sees n names, twice, then returns decisions by name.
func inOrder(n int, order []string, decide func(name string) bool) func(n int) int {
	for i := range 2 * n {
		decide(rig.Name(i % n))
	}
	at := 0
	return func(n int) (allowed int) {
		for range n {
			if decide(order[at%len(order)]) {
				allowed++
			}
			at++
		}
		return allowed
	}
}
