package htb

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// checkState checks what must hold of a tree after anything: the sums and heaps
// behind the reserves, the children's books and, unless there were upward
// settlements, that every class holds what its children may claim.
func checkState(t require.TestingT, tree *Tree, solvent bool) {
	now := tree.last
	var walk func(x *class)
	walk = func(x *class) {
		require.False(t, x.dropped, x.path())
		if x.in == nil {
			return
		}
		live := 0
		for name, c := range x.in.index {
			require.Equal(t, name, c.name)
			require.Same(t, x, c.parent)
			if c.dynamic {
				live++
			}
			walk(c)
		}
		require.Equal(t, live, x.in.dyn.live, x.path())
		require.Len(t, x.in.dyn.resting, live, x.path())
		checkTable(t, x)
		if o := x.in.dyn.overflow; o != nil {
			walk(o)
		}
		if x.oversub {
			require.Empty(t, x.in.filling, x.path())
			return
		}
		reserve := x.reserved(now)
		var owed, held Ticks
		filling := 0
		for _, c := range x.in.named {
			owed = owed.Add(c.rate.Owed(c.claimTAT, now))
			held = held.Add(c.rate.Tokens(c.rateTAT, now))
			if c.filling > 0 {
				filling++
				require.Same(t, c, x.in.filling[c.filling-1])
				require.LessOrEqual(t, c.fullAt, c.claimsAll())
			}
		}
		require.Len(t, x.in.filling, filling, x.path())
		require.Equal(t, owed, x.owed(now), x.path())
		require.False(t, reserve.Less(held), "%s keeps less than its children hold", x.path())
		if solvent {
			require.True(t, x.covers(now), "%s cannot pay what its children hold", x.path())
		}
	}
	walk(tree.root)
}

// genAny draws trees over few names, so that one replaced by another has classes
// that stay, go, come, become leaves, inner classes, named or made on sight.
func genAny(t *rapid.T) Spec {
	period := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute}).Draw(t, "period")
	var below func(s *Spec, units, ceil int64, level int)
	below = func(s *Spec, units, ceil int64, level int) {
		left := units
		for i := range rapid.IntRange(1, 4).Draw(t, "children") {
			share := rapid.Int64Range(1, max(1, left/int64(4-i))).Draw(t, "share")
			if left -= share; left < 0 {
				return
			}
			most := rapid.Int64Range(share, max(share, ceil)).Draw(t, "ceil")
			c := Spec{Name: string(rune('a' + i)), Rate: rate(share, period), Ceil: rate(most, period)}
			if i == 0 && rapid.IntRange(0, 2).Draw(t, "template") == 0 {
				c.Name, c.Max, c.Idle = Template, rapid.IntRange(0, 2).Draw(t, "max"), time.Duration(rapid.IntRange(0, 1).Draw(t, "idle"))*time.Second
			}
			switch {
			case level < 2 && rapid.Bool().Draw(t, "inner"):
				below(&c, share, most, level+1)
				c.Oversubscribed = rapid.IntRange(0, 3).Draw(t, "oversubscribed") == 0
			default:
				c.Burst = rapid.Int64Range(0, 12).Draw(t, "burst")
				if c.Burst > 0 {
					c.CBurst = c.Burst + rapid.Int64Range(0, 12).Draw(t, "cburst")
				}
				if rapid.IntRange(0, 4).Draw(t, "also") == 0 {
					c.Also = []Limit{{rate(3, time.Second), 9}, {rate(100, time.Hour), 60}}
				}
			}
			s.Children = append(s.Children, c)
		}
	}
	units := rapid.Int64Range(8, 100).Draw(t, "root")
	s := Spec{Rate: rate(units, period)}
	below(&s, units, units, 0)
	return s
}

// Everything at once: calls by name and by handle, holds settled late, up and down,
// on classes that may be gone, replacement by any other tree. The state stays
// sound, and the counters add up.
func TestChaos(t *testing.T) {
	var pool []Spec
	for seed := 0; len(pool) < 150; seed++ {
		s := rapid.Custom(genAny).Example(seed)
		if _, err := New(s); err == nil {
			pool = append(pool, s)
		}
	}
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 7))
		upward := seed%3 == 0
		tree := mustTree(t, pool[r.IntN(len(pool))])
		var now Time
		var holds []*Hold
		var handles []*Leaf
		var decisions []Decision
		for range 300 {
			now = now.Add([]time.Duration{0, 0, 1, time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second, time.Minute}[r.IntN(8)])
			names := make([]string, 1+r.IntN(3))
			for i := range names {
				names[i] = string(rune('a' + r.IntN(5)))
			}
			cost := []int64{0, 1, 1, 2, 5, 9, 1 << 50, -1}[r.IntN(8)]
			switch r.IntN(10) {
			case 0, 1, 2:
				for range 8 {
					d, err := tree.Allow(now, cost, names...)
					if err != nil || !d.Allowed {
						break
					}
					decisions = append(decisions, d)
				}
			case 3, 4:
				h, d, _ := tree.Hold(now, cost, names...)
				if h != nil {
					holds = append(holds, h)
				}
				decisions = append(decisions, d)
			case 5, 6:
				if len(holds) > 0 {
					h := holds[r.IntN(len(holds))]
					actual := r.Int64N(h.cost + 1)
					if upward {
						actual = r.Int64N(40)
					}
					_ = h.Settle(now, actual)
				}
			case 7:
				if l, err := tree.Leaf(names...); err == nil {
					handles = append(handles, l)
				}
				for _, l := range handles {
					_, _ = l.Allow(now, 1)
				}
			case 8:
				if r.IntN(4) == 0 {
					require.NoError(t, tree.Replace(now, pool[r.IntN(len(pool))]))
				}
			case 9:
				for _, d := range decisions {
					_, _, _ = d.Lender(), d.RefusedBy(), d.Reset()
					if !d.leafGone() {
						require.GreaterOrEqual(t, d.Remaining(), int64(0))
					}
				}
				decisions = nil
			}
			checkState(t, tree, !upward)
		}
		rows := tree.Stats(now)
		for i := range rows { // a class that was a leaf, or had a template, may have lent
			if rows[i].Leaf {
				rows[i].Lends = 0
			}
		}
		checkSums(t, rows)
	}
}

func (d Decision) leafGone() bool { return d.leaf == nil || d.leaf.dropped || d.leaf.in != nil }

// What follows was wrong once.

func TestTheSharedChildGoesWithItsParent(t *testing.T) {
	below := perSecond("free", 100, 0, perSecond(Template, 5, 0))
	below.Children[0].Max = 1
	tree := mustTree(t, perSecond("", 100, 0, below))
	ask(t, tree, 0, 1, "free", "a")
	h, _, err := tree.Hold(0, 1, "free", "b")
	require.NoError(t, err)
	l, err := tree.Leaf("free", "b")
	require.NoError(t, err)
	d, err := l.Allow(0, 1)
	require.NoError(t, err)
	require.NoError(t, tree.Replace(0, perSecond("", 100, 0, perSecond("free", 100, 0))))
	require.NoError(t, h.Settle(0, 0))
	_, err = l.Allow(0, 1)
	require.ErrorIs(t, err, ErrUnknown)
	require.Zero(t, d.Remaining())
	require.NotEmpty(t, d.Lender())
}

func TestReplacingAReserveOfNothing(t *testing.T) {
	spec := perSecond("", 100, 0, perSecond(Template, 5, 0))
	spec.Burst = 10 // no more than headroom
	tree := mustTree(t, spec)
	ask(t, tree, 0, 1, "a")
	spec.Rate, spec.Ceil = rate(90, time.Second), rate(90, time.Second)
	require.NoError(t, tree.Replace(0, spec))
}

// After a replacement every class can pay what its children may claim then, also
// when sums and names are the same as before.
func TestReplacingCoversWhatChildrenMayClaim(t *testing.T) {
	leaf := func(name string, units, burst, cburst int64) Spec {
		s := perSecond(name, units, 20)
		s.Burst, s.CBurst = burst, cburst
		return s
	}
	two := func(a, b int64) Spec {
		s := perSecond("", 20, 0, leaf("a", 10, a, a), leaf("b", 10, b, b))
		s.Burst = 60
		return s
	}
	tree := mustTree(t, two(10, 40))
	ask(t, tree, 0, 60, "b")
	require.NoError(t, tree.Replace(0, two(40, 10)))
	require.Equal(t, 40, ask(t, tree, 0, 40, "a"))

	nested := func(more ...Spec) Spec {
		p := perSecond("p", 20, 40, append([]Spec{leaf("a", 5, 10, 100)}, more...)...)
		p.Burst = 60
		s := perSecond("", 40, 0, p, leaf("q", 10, 30, 100))
		s.Burst = 100
		return s
	}
	tree = mustTree(t, nested())
	ask(t, tree, 0, 200, "p", "a")
	ask(t, tree, 0, 200, "q")
	require.NoError(t, tree.Replace(0, nested(leaf("n", 5, 40, 40))))
	require.Equal(t, 40, ask(t, tree, 0, 40, "p", "n"))
}

// A child's debt does not hide what its siblings have saved.
func TestADebtStaysWithItsChild(t *testing.T) {
	leaf := func(name string, units, burst int64) Spec {
		s := perSecond(name, units, 1000)
		s.Burst = burst
		return s
	}
	tree := mustTree(t, perSecond("", 1000, 0, leaf("a", 1, 10), leaf("b", 900, 900), leaf("c", 1, 10)))
	h, _, err := tree.Hold(0, 1, "a")
	require.NoError(t, err)
	require.NoError(t, h.Settle(0, 3000)) // a owes for an hour, the root for 2 s
	for now := 10 * second; now < 40*second; now += second / 1000 {
		for ask(t, tree, now, 1, "c") == 1 {
		}
		if now >= 20*second && now%(second/500) == 0 {
			require.Equal(t, 1, ask(t, tree, now, 1, "b"), "500/s of its 900, at %d ms", now/1e6)
		}
	}
}

func TestAHandleLeavesTheSharedChild(t *testing.T) {
	template := Spec{Name: Template, Rate: rate(1, time.Second), Burst: 3, Max: 1}
	tree := mustTree(t, perSecond("", 100, 0, template))
	ask(t, tree, 0, 1, "a")
	l, err := tree.Leaf("b")
	require.NoError(t, err)
	_, err = l.Allow(0, 1)
	require.NoError(t, err)
	require.Equal(t, 3, ask(t, tree, 100*second, 9, "b"), "a child of its own by now")
	d, err := l.Allow(100*second, 1)
	require.NoError(t, err)
	require.False(t, d.Allowed, "b has had its burst")

	tree = mustTree(t, perSecond("", 100, 0, template))
	ask(t, tree, 0, 1, "a")
	l, err = tree.Leaf("b")
	require.NoError(t, err)
	_, err = l.Allow(0, 3)
	require.NoError(t, err)
	require.NoError(t, tree.Replace(0, perSecond("", 100, 0, perSecond("b", 50, 0), template)))
	d, err = l.Allow(0, 30)
	require.NoError(t, err)
	require.True(t, d.Allowed, "b has a class of 50/s now")
}

func TestMistakenCallsMakeNoChildren(t *testing.T) {
	tree := mustTree(t, perSecond("", 100, 0, perSecond(Template, 10, 0, perSecond("web", 5, 0))))
	_, err := tree.Allow(0, 1, "x", "nosuch")
	require.ErrorIs(t, err, ErrUnknown)
	_, err = tree.Allow(0, 1, "x")
	require.ErrorIs(t, err, ErrNotLeaf)
	_, err = tree.Allow(0, -1, "x", "web")
	require.ErrorIs(t, err, ErrCost)
	require.Zero(t, tree.Stats(0)[0].Live)
}

func TestTheEndOfTime(t *testing.T) {
	tree := mustTree(t, perSecond("", 100, 0, Spec{Name: Template, Rate: rate(1, time.Second), Burst: 1}))
	const end = Time(1<<63 - 1)
	require.Equal(t, 1, ask(t, tree, end, 50, "a"), "nothing comes back any more")
}

// A leaf at rest is as good as none: whether shares start anew does not depend on it.
func TestReplacingSharesByThePlans(t *testing.T) {
	spec := func(quantum int64) Spec {
		n, rest := perSecond("n", 1, 1000), perSecond(Template, 1, 1000)
		n.Quantum, n.CBurst, rest.Quantum = 100, 100, quantum
		return perSecond("", 1000, 0, n, rest)
	}
	var marks [2]Ticks
	for i, seen := range []bool{false, true} {
		tree := mustTree(t, spec(10))
		if seen {
			require.Equal(t, 1, ask(t, tree, 0, 1, "x"))
		}
		now := Time(100 * time.Second)
		require.Equal(t, 5, ask(t, tree, now, 5, "n"))
		require.False(t, tree.root.in.named[0].mark.IsZero())
		require.Equal(t, seen, tree.root.in.dyn.all() == 1)
		require.NoError(t, tree.Replace(now, spec(20)))
		marks[i] = tree.root.in.named[0].mark
	}
	require.Equal(t, marks[0], marks[1])
}

func TestReplacingKeepsQuotas(t *testing.T) {
	daily, peak := Limit{rate(100, 24*time.Hour), 100}, Limit{rate(10, time.Second), 10}
	with := func(l ...Limit) Spec {
		s := perSecond("a", 1000, 0)
		s.Also = l
		return perSecond("", 1000, 0, s)
	}
	tree := mustTree(t, with(daily, peak))
	for s := range Time(10) {
		require.Equal(t, 10, ask(t, tree, s*second, 10, "a"))
	}
	require.NoError(t, tree.Replace(20*second, with(peak, daily)))
	require.Zero(t, ask(t, tree, 30*second, 10, "a"), "the day's are spent, wherever the limit stands")
	require.NoError(t, tree.Replace(30*second, with(Limit{rate(5, time.Second), 5}, peak, daily)))
	require.Zero(t, ask(t, tree, 40*second, 10, "a"))
}

func TestTheSpecIsACopy(t *testing.T) {
	spec := perSecond("", 100, 0, perSecond("a", 10, 0))
	tree := mustTree(t, spec)
	s := tree.Spec()
	s.Children[0].Rate, s.Children[0].Ceil = rate(1000, time.Second), rate(1000, time.Second)
	require.Error(t, tree.Replace(0, s))
	require.Equal(t, spec, tree.Spec())
}

// Law (i) holds with a template full of children, too.
func TestReplacingByItselfAtMax(t *testing.T) {
	spec := perSecond("", 1e9, 0, Spec{Name: Template, Rate: rate(1, time.Second), Burst: 100, Max: 3000})
	run := func(replace bool) bool {
		tree := mustTree(t, spec)
		for i := range 2999 {
			_, err := tree.Allow(0, 90, fmt.Sprintf("busy-%04d", i))
			require.NoError(t, err)
		}
		ask(t, tree, 0, 1, "zzz") // at rest after a second
		ask(t, tree, 0, 100, "sharing")
		for range 2000 {
			ask(t, tree, second/2, 1, "busy-0000")
		}
		if replace {
			require.NoError(t, tree.Replace(2*second, spec))
		}
		d, err := tree.Allow(2*second, 100, "new")
		require.NoError(t, err)
		return d.Allowed
	}
	require.Equal(t, run(false), run(true))
}

// With more children filling than a retry time allows for it is late, but it is told.
func TestRetryBesideManyFillingSiblings(t *testing.T) {
	spec := Spec{Rate: rate(701, time.Second)}
	for i := range 70 {
		spec.Children = append(spec.Children, perSecond(fmt.Sprint("c", i), 10, 0))
	}
	x := perSecond("x", 1, 701)
	x.Burst, x.CBurst = 60, 5000
	spec.Children = append(spec.Children, x)
	tree := mustTree(t, spec)
	for ask(t, tree, 0, 1, "x") == 1 {
	}
	for i := range 70 {
		ask(t, tree, 0, 1, fmt.Sprint("c", i))
	}
	d, err := tree.Allow(0, 72, "x")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Less(t, d.RetryAfter, time.Second)
	later, err := tree.Allow(Time(d.RetryAfter), 72, "x")
	require.NoError(t, err)
	require.True(t, later.Allowed)
}

func TestHoldsOfClassesThatChange(t *testing.T) {
	leaf := perSecond("a", 10, 100)
	tree := mustTree(t, perSecond("", 100, 0, leaf))
	h, _, err := tree.Hold(0, 10, "a")
	require.NoError(t, err)
	require.NoError(t, tree.Replace(0, perSecond("", 100, 0, perSecond("a", 10, 100, perSecond("x", 10, 100)))))
	require.NoError(t, h.Settle(0, 3))
	checkSums(t, tree.Stats(0))

	x := perSecond("x", 10, 100)
	x.CBurst = 50
	inner := perSecond("", 100, 0, perSecond("p", 50, 100, x))
	tree = mustTree(t, inner)
	ask(t, tree, 0, 10, "p", "x")
	h, d, err := tree.Hold(0, 5, "p", "x")
	require.NoError(t, err)
	require.Equal(t, "p", d.Lender())
	require.NoError(t, tree.Replace(0, perSecond("", 100, 0, perSecond("p", 50, 100))))
	require.NoError(t, h.Settle(0, 0))
	for _, r := range tree.Stats(0) {
		require.GreaterOrEqual(t, r.Lends, int64(0), r.Path)
	}
	require.NoError(t, tree.Replace(0, inner))
	checkSums(t, tree.Stats(0))
}
