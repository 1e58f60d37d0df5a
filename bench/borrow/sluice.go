package main

import (
	"math"
	"strconv"
	"time"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
)

// sluice is the real thing: the leaves of a tree of one level.
type sluice []*htb.Leaf

// tokens of the tree make one unit. A child may save up but one of its own, which never pays
// for a request: whatever passes is lent, of what the root holds over that one for each child.
const tokens = 2

func newSluice(p pool) sluice {
	held, n := int64(math.Round(tokens*p.depth)), int64(len(p.quanta))
	hardly, err := algo.NewRate(1, 1000*time.Second)
	must(err)
	root := htb.Spec{Rate: algo.PerSecond(int64(math.Round(tokens * p.capacity))), Burst: n + held, CBurst: n + held}
	for i, q := range p.quanta {
		root.Children = append(root.Children, htb.Spec{
			Name: strconv.Itoa(i), Rate: hardly, Burst: 1, Ceil: root.Rate, CBurst: held, Quantum: int64(q),
		})
	}
	tree, err := htb.New(root)
	must(err)
	s := make(sluice, n)
	for i := range s {
		s[i], err = tree.Leaf(root.Children[i].Name)
		must(err)
	}
	return s
}

func (s sluice) allow(now float64, child int, cost float64) (bool, float64) {
	d, err := s[child].Allow(htb.Time(math.Round(now*1e9)), int64(tokens*cost))
	must(err)
	return d.Allowed, d.RetryAfter.Seconds()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
