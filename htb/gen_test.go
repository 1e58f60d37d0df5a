package htb

import (
	"fmt"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// options of the random trees.
type treeKind struct {
	maxBurst int64 // of leaves; 0: default bursts too
	wide     bool  // every ceil is the root's rate
}

// genTree draws a covered tree: depth 2 to 4, 1 to 4 children, rates that add up
// to at most the parent's, some of them awkward.
func genTree(t *rapid.T, k treeKind) Spec {
	period := rapid.SampledFrom([]time.Duration{time.Second, time.Second, time.Minute, 7 * time.Second, 1234567 * time.Microsecond}).Draw(t, "period")
	units := rapid.Int64Range(20, 2000).Draw(t, "root units")
	root := Spec{Rate: rate(units, period)}
	root.Children = genChildren(t, k, &root, units, period, 1, rapid.IntRange(2, 4).Draw(t, "depth"))
	return root
}

func genChildren(t *rapid.T, k treeKind, parent *Spec, units int64, period time.Duration, level, depth int) []Spec {
	n := rapid.IntRange(1, 4).Draw(t, "children")
	left := units
	ceil := parent.Ceil
	if ceil.IsZero() {
		ceil = parent.Rate
	}
	var out []Spec
	for i := range n {
		share := rapid.Int64Range(1, max(1, left/int64(n-i))).Draw(t, "units")
		if left -= share; left < 0 {
			break
		}
		s := Spec{Name: fmt.Sprintf("%c%d", 'a'+level-1, i), Rate: rate(share, period), Prio: rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 7}).Draw(t, "prio")}
		s.Quantum = rapid.SampledFrom([]int64{0, 0, 0, 1, 3, 1000}).Draw(t, "quantum")
		s.Ceil = ceil
		if !k.wide && rapid.Bool().Draw(t, "capped") {
			s.Ceil = rate(rapid.Int64Range(share, share*4).Draw(t, "ceil"), period)
			if s.Ceil.Compare(ceil) > 0 {
				s.Ceil = ceil
			}
		}
		if level < depth-1 && rapid.IntRange(0, 3).Draw(t, "inner") > 0 {
			s.Children = genChildren(t, k, &s, share, period, level+1, depth)
		} else if b := rapid.Int64Range(0, max(k.maxBurst, 30)).Draw(t, "burst"); b > 0 || k.maxBurst > 0 {
			s.Burst = max(1, b)
		}
		out = append(out, s)
	}
	return out
}

func rate(units int64, period time.Duration) algo.Rate {
	r, err := algo.NewRate(units, period)
	if err != nil {
		panic(err)
	}
	return r
}

// call is one step of a random run.
type call struct {
	after time.Duration // since the call before
	leaf  int
	cost  int64
}

// genCalls draws how many calls and a seed, and the calls from that: drawn one by
// one they would be few, and long runs are what finds mistakes.
func genCalls(t *rapid.T, leaves int, most int) []call {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	units := []time.Duration{0, 0, 1, time.Microsecond, time.Millisecond, 20 * time.Millisecond, time.Second, time.Minute}
	units = units[:rapid.IntRange(3, len(units)).Draw(t, "units")]
	costs := []int64{1, 1, 1, 2, 3, 7, 20}
	calls := make([]call, rapid.IntRange(1, most).Draw(t, "calls"))
	for i := range calls {
		calls[i] = call{units[r.IntN(len(units))] * time.Duration(r.IntN(10)), r.IntN(leaves), costs[r.IntN(len(costs))]}
	}
	return calls
}

// leavesOf lists the paths of the leaves.
func leavesOf(s Spec, path ...string) [][]string {
	if len(s.Children) == 0 {
		return [][]string{path}
	}
	var out [][]string
	for _, c := range s.Children {
		out = append(out, leavesOf(c, append(path[:len(path):len(path)], c.Name)...)...)
	}
	return out
}

func mustTree(t interface{ Fatal(...any) }, s Spec) *Tree {
	tree, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// genBusy draws calls that together ask for more than the tree has, from a few leaves
// at a time, one of which asks most often, with pauses between.
func genBusy(t *rapid.T, root Spec, leaves, most int) []call {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
	cost := rapid.Int64Range(1, 10).Draw(t, "largest cost")
	over := rapid.Float64Range(0.5, 10).Draw(t, "overload")
	gap := float64(cost+1) / 2 / root.Rate.PerSecond() / over
	calls := make([]call, 0, most)
	for len(calls) < most {
		asking := r.Perm(leaves)[:1+r.IntN(leaves)]
		for range 20 + r.IntN(200) {
			leaf := asking[0]
			if r.IntN(2) == 0 {
				leaf = asking[r.IntN(len(asking))]
			}
			calls = append(calls, call{time.Duration(r.ExpFloat64() * gap * 1e9), leaf, 1 + r.Int64N(cost)})
		}
		calls[len(calls)-1].after += time.Duration(r.ExpFloat64() * float64([]time.Duration{time.Millisecond, 100 * time.Millisecond, 3 * time.Second}[r.IntN(3)]))
	}
	return calls
}
