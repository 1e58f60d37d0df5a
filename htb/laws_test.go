package htb

import (
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// The laws stand in doc.go under the same letters.

// meter says whether what passes it stays within burst + rate*window in every
// window: it is the leaky bucket that overflows just when some window is over.
type meter struct {
	rate  *big.Rat
	burst *big.Rat
	level *big.Rat
	at    Time
}

func newMeter(r algo.Rate, burst int64) *meter {
	return &meter{r.Fraction(), big.NewRat(burst, 1), new(big.Rat), 0}
}

func (m *meter) drain(now Time) {
	m.level.Sub(m.level, new(big.Rat).Mul(m.rate, big.NewRat(int64(now-m.at), 1)))
	if m.level.Sign() < 0 {
		m.level.SetInt64(0)
	}
	m.at = now
}

func (m *meter) fits(now Time, cost int64) bool {
	m.drain(now)
	return new(big.Rat).Add(m.level, big.NewRat(cost, 1)).Cmp(m.burst) <= 0
}

func (m *meter) add(cost int64) { m.level.Add(m.level, big.NewRat(cost, 1)) }

func TestMeterSeesAWindowThatIsOver(t *testing.T) { // the guard's own test
	m := newMeter(algo.PerSecond(10), 5)
	for range 5 {
		require.True(t, m.fits(0, 1))
		m.add(1)
	}
	require.False(t, m.fits(99_999_999, 1))
	require.True(t, m.fits(100_000_000, 1))
}

// (a) At every level gets stay within cburst + ceil*window in any window.
func TestLawCeilHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		if rapid.Bool().Draw(t, "oversubscribe") {
			oversubscribe(&spec)
		}
		tree := mustTree(t, spec)
		spec = spec.Resolved()
		leaves := leavesOf(spec)
		meters := map[string]*meter{}
		var walk func(s Spec, path ...string)
		walk = func(s Spec, path ...string) {
			meters[Path(path...)] = newMeter(s.Ceil, s.CBurst)
			for _, c := range s.Children {
				walk(c, append(path[:len(path):len(path)], c.Name)...)
			}
		}
		walk(spec)
		now := Time(0)
		for _, c := range genCalls(t, len(leaves), 300) {
			now = now.Add(c.after)
			for range 20 { // hammer
				names := leaves[c.leaf]
				h, d, err := tree.Hold(now, c.cost, names...)
				if err != nil || !d.Allowed {
					break
				}
				used := c.cost
				if c.cost > 2 { // a settlement counts when it is made
					used = c.cost / 3
				}
				require.NoError(t, h.Settle(now, used))
				for i := range len(names) + 1 {
					m := meters[Path(names[:i]...)]
					require.True(t, m.fits(now, used), "%s over its ceil at %d", Path(names[:i]...), now)
					m.add(used)
				}
			}
		}
	})
}

// (b) A leaf that stays inside rate*t + burst is never refused, whatever the others do.
func TestLawGuaranteeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		tree := mustTree(t, spec)
		spec = spec.Resolved()
		leaves := leavesOf(spec)
		good := rapid.IntRange(0, len(leaves)-1).Draw(t, "good")
		s := spec
		for _, n := range leaves[good] {
			for _, c := range s.Children {
				if c.Name == n {
					s = c
					break
				}
			}
		}
		inside := newMeter(s.Rate, s.Burst)
		now := Time(0)
		for i, c := range genCalls(t, len(leaves), 300) {
			now = now.Add(c.after)
			for j, l := range leaves { // everybody else takes whatever there is
				for range 15 {
					if j == good {
						break
					}
					if d, err := tree.Allow(now, c.cost, l...); err != nil || !d.Allowed {
						break
					}
				}
			}
			if inside.fits(now, c.cost) {
				inside.add(c.cost)
				d, err := tree.Allow(now, c.cost, leaves[good]...)
				require.NoError(t, err)
				require.True(t, d.Allowed, "call %d: refused within its rate by %s: %v", i, d.RefusedBy(), d.Reason)
			}
		}
	})
}

// level is what can be told of a class: its buckets now, and its counters.
type level struct {
	path              string
	rate, ceil, keeps Ticks
	also              string
	counts            counts
}

func levels(tree *Tree, now Time) (out []level) {
	tree.root.countAllRefused()
	var walk func(x *class)
	walk = func(x *class) {
		l := level{path: x.path(), counts: x.counts}
		l.rate, l.ceil = x.rate.Owed(x.rateTAT, now), x.ceil.Owed(x.ceilTAT, now)
		for i, b := range x.also {
			l.also += fmt.Sprint(b.Owed(x.alsoTAT[i], now))
		}
		if x.in == nil {
			out = append(out, l)
			return
		}
		l.keeps = x.reserved(now)
		out = append(out, l)
		for _, c := range x.in.named {
			walk(c)
		}
	}
	walk(tree.root)
	return out
}

// (c) A refused request changes no bucket, and no counter but wants and rejected.
func TestLawRefusalChargesNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		if rapid.Bool().Draw(t, "also") {
			addAlso(&spec)
		}
		tree := mustTree(t, spec)
		leaves := leavesOf(spec)
		now, refused := Time(0), 0
		for _, c := range genCalls(t, len(leaves), 300) {
			now = now.Add(c.after)
			for range 30 {
				before := levels(tree, now)
				d, err := tree.Allow(now, c.cost, leaves[c.leaf]...)
				if err == nil && d.Allowed {
					continue
				}
				refused++
				after := levels(tree, now)
				for i := range after {
					path := leaves[c.leaf]
					for k := range len(path) + 1 {
						if after[i].path == Path(path[:k]...) {
							after[i].counts.rejected -= c.cost
						}
					}
				}
				require.Equal(t, before, after)
				break
			}
		}
	})
}

func addAlso(s *Spec) {
	if len(s.Children) == 0 {
		s.Also = []Limit{{rate(7, time.Minute), 9}, {algo.PerSecond(3), 4}}
	}
	for i := range s.Children {
		addAlso(&s.Children[i])
	}
}

// checkSums is law (d) on a tree's counters.
func checkSums(t require.TestingT, rows []Stats) {
	require.Zero(t, rows[0].Borrows, "the root borrows from nobody")
	for i, r := range rows {
		require.Equal(t, r.Wants, r.Gets+r.Rejected, r.Path)
		require.Equal(t, r.Own, r.Gets-r.Borrows, r.Path)
		if r.Leaf {
			require.Zero(t, r.Lends, r.Path)
			continue
		}
		var sum Stats
		for _, c := range rows[i+1:] {
			if c.Depth <= r.Depth {
				break
			}
			if c.Depth == r.Depth+1 {
				sum.Wants += c.Wants
				sum.Gets += c.Gets
				sum.Rejected += c.Rejected
				sum.Borrows += c.Borrows
			}
		}
		require.Equal(t, r.Wants, sum.Wants, "wants below %s", r.Path)
		require.Equal(t, r.Gets, sum.Gets, "gets below %s", r.Path)
		require.Equal(t, r.Rejected, sum.Rejected, "rejected below %s", r.Path)
		require.Equal(t, r.Lends+r.Borrows, sum.Borrows, "borrows below %s", r.Path)
	}
}

// (d) What is lent equals the borrows below, the root never borrows, and the
// counters add up level by level: also with templates, holds and dropped children.
func TestLawSumsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		spec.Children = append(spec.Children, Spec{Name: Template, Rate: rate(2, time.Minute), Burst: 2, Max: rapid.IntRange(1, 5).Draw(t, "max")})
		tree := mustTree(t, spec)
		leaves := leavesOf(spec)
		now := Time(0)
		for i, c := range genCalls(t, len(leaves), 300) {
			now = now.Add(c.after)
			names := leaves[c.leaf]
			if names[len(names)-1] == Template {
				names = []string{fmt.Sprintf("client-%d", i%7)}
			}
			if h, _, _ := tree.Hold(now, c.cost, names...); h != nil {
				require.NoError(t, h.Settle(now.Add(time.Duration(i)*time.Millisecond), int64(i%5)))
			}
			_, _ = tree.Allow(now, c.cost, names...)
		}
		checkSums(t, tree.Stats(now))
	})
}

// drive lets leaves ask at every chance, each again when it was told to, and
// returns what each got.
func drive(tree *Tree, leaves [][]string, from, until Time, cost int64) []int64 {
	got := make([]int64, len(leaves))
	next := make([]Time, len(leaves))
	for i := range next {
		next[i] = from
	}
	for {
		now := until
		for _, n := range next {
			now = min(now, n)
		}
		if now >= until {
			return got
		}
		for i, l := range leaves {
			for next[i] <= now {
				d, err := tree.Allow(now, cost, l...)
				if err != nil {
					panic(err)
				}
				if d.Allowed {
					got[i] += cost
				} else {
					next[i] = now.Add(d.RetryAfter)
				}
			}
		}
	}
}

// (e) A lone leaf reaches its ceil, and a saturated tree gives out all it has.
func TestLawWorkConserving(t *testing.T) {
	const trees, units = 40, 5000
	for seed := range trees {
		spec := rapid.Custom(func(t *rapid.T) Spec { return genTree(t, treeKind{maxBurst: 20, wide: seed%2 == 0}) }).Example(seed)
		tree := mustTree(t, spec)
		spec = spec.Resolved()
		leaves := leavesOf(spec)
		lone := seed % len(leaves)
		least := spec.Ceil // the lowest ceil on its path
		for s, i := spec, 0; i < len(leaves[lone]); i++ {
			for _, c := range s.Children {
				if c.Name == leaves[lone][i] {
					s = c
					break
				}
			}
			if s.Ceil.Compare(least) < 0 {
				least = s.Ceil
			}
		}
		warm := Time(0).Add(least.Takes(500))
		drive(tree, leaves[lone:lone+1], 0, warm, 1)
		got := drive(tree, leaves[lone:lone+1], warm, warm.Add(least.Takes(units)), 1)
		require.InEpsilon(t, units, float64(got[0]), 0.001, "tree %d: lone %s under ceil %v", seed, Path(leaves[lone]...), least)

		if !allWide(spec, spec.Rate) {
			continue
		}
		from := warm.Add(least.Takes(units) + time.Hour)
		warm = from.Add(spec.Rate.Takes(units))
		drive(tree, leaves, from, warm, 1)
		sum := int64(0)
		for _, g := range drive(tree, leaves, warm, warm.Add(spec.Rate.Takes(4*units)), 1) {
			sum += g
		}
		kept := float64(spec.Burst - spec.Reserve()) // which may fill up meanwhile
		require.InDelta(t, 4*units, float64(sum), 0.001*4*units+0.6*kept, "tree %d saturated", seed)
	}
}

func allWide(s Spec, r algo.Rate) bool {
	for _, p := range flatten(s) {
		if p.Ceil != r {
			return false
		}
	}
	return true
}

// (f) Settling to the true cost ends in the state of charging it at first.
func TestLawSettling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		if rapid.Bool().Draw(t, "oversubscribe") {
			oversubscribe(&spec)
		}
		first, later := mustTree(t, spec), mustTree(t, spec)
		leaves := leavesOf(spec)
		now := Time(0)
		for i, c := range genCalls(t, len(leaves), 300) {
			now = now.Add(c.after)
			names := leaves[c.leaf]
			actual := c.cost
			charged := rapid.Int64Range(0, 25).Draw(t, "charged")
			if !sameLender(first, now, names, charged, actual) {
				continue
			}
			_, err := first.Allow(now, actual, names...)
			require.NoError(t, err)
			h, d, err := later.Hold(now, charged, names...)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "ms")) * time.Millisecond)
			if fullOnPath(first, now, names) || fullOnPath(later, now, names) {
				return
			}
			require.NoError(t, h.Settle(now, actual))
			require.ErrorIs(t, h.Settle(now, actual), ErrSettled)
			require.Equal(t, levels(first, now), levels(later, now), "call %d", i)
		}
	})
}

// fullOnPath says whether a bucket on the path, or a reserve, is full.
func fullOnPath(tree *Tree, now Time, names []string) bool {
	x, err := tree.find(tree.advance(now), names, 0)
	if err != nil {
		panic(err)
	}
	for ; x != nil; x = x.parent {
		if x.rate.Owed(x.rateTAT, now).IsZero() || x.ceil.Owed(x.ceilTAT, now).IsZero() || x.in != nil && !x.reserved(now).Less(x.promised) {
			return true
		}
	}
	return false
}

// sameLender says whether both costs would pass now with the same lender, leaving
// every bucket short of full.
func sameLender(tree *Tree, now Time, names []string, a, b int64) bool {
	tree.mu.Lock()
	defer tree.mu.Unlock()
	x, err := tree.find(tree.advance(now), names, 0)
	if err != nil || a > x.maxCost || b > x.maxCost {
		return false
	}
	va, vb := x.decide(now, x.ticks.Cost(a)), x.decide(now, x.ticks.Cost(b))
	return va.why == 0 && va == vb
}

// (g) Below max, dropping children at rest changes no decision.
func TestLawDroppingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		template := Spec{Name: Template, Rate: rate(3, time.Second), Ceil: rate(30, time.Second), Burst: 4, CBurst: 6}
		if rapid.Bool().Draw(t, "tenants") {
			template.Children = []Spec{{Name: "web", Rate: rate(1, time.Second), Ceil: rate(20, time.Second), CBurst: 5},
				{Name: "api", Rate: rate(1, time.Second), Ceil: rate(30, time.Second)}}
			template.Burst, template.CBurst = 0, 0
		}
		spec := Spec{Rate: rate(50, time.Second), Children: []Spec{
			{Name: "acme", Rate: rate(20, time.Second), Ceil: rate(50, time.Second)},
			{Name: "free", Rate: rate(10, time.Second), Ceil: rate(40, time.Second), Children: []Spec{template}},
		}}
		dropping := mustTree(t, spec)
		spec.Children[1].Children[0].Idle = 1 << 62
		keeping := mustTree(t, spec)
		now := Time(0)
		calls := genCalls(t, 8, 300)
		if rapid.Bool().Draw(t, "busy") {
			calls = genBusy(t, spec, 8, 2000)
		}
		for i, c := range calls {
			now = now.Add(c.after)
			names := []string{"free", fmt.Sprint("client-", c.leaf)}
			if c.leaf == 0 {
				names = []string{"acme"}
			} else if template.Children != nil {
				names = append(names, []string{"web", "api"}[c.cost%2])
			}
			a, errA := dropping.Allow(now, c.cost, names...)
			b, errB := keeping.Allow(now, c.cost, names...)
			require.Equal(t, errA == nil, errB == nil)
			a.tree, b.tree, a.leaf, b.leaf = nil, nil, nil, nil
			require.Equal(t, b, a, "call %d", i)
		}
	})
}

// (h) Concurrent callers never get more than some order of the same calls.
func TestLawConcurrentCallsAreSomeOrder(t *testing.T) {
	spec := Spec{Rate: algo.PerSecond(100), Children: []Spec{
		{Name: "a", Rate: algo.PerSecond(60), Ceil: algo.PerSecond(100)},
		{Name: "b", Rate: algo.PerSecond(30), Ceil: algo.PerSecond(100), Children: []Spec{{Name: Template, Rate: algo.PerSecond(5), Ceil: algo.PerSecond(100), Max: 3}}},
	}}
	tree := mustTree(t, spec)
	shared, err := tree.Leaf("a")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := int64(0)
	const step = time.Millisecond
	for g := range 16 {
		wg.Go(func() {
			mine := int64(0)
			for i := range 2000 {
				now := Time(i) * Time(step)
				var d Decision
				var err error
				switch {
				case g%2 == 0:
					d, err = shared.Allow(now, 1)
				default:
					d, err = tree.Allow(now, 1, "b", fmt.Sprint(i%5))
				}
				if err != nil {
					panic(err)
				}
				_, _ = d.Lender(), d.RefusedBy()
				if d.Allowed {
					mine++
				}
				if i%500 == 0 {
					tree.Stats(now)
					if err := tree.Replace(now, spec); err != nil {
						panic(err)
					}
				}
			}
			mu.Lock()
			total += mine
			mu.Unlock()
		})
	}
	wg.Wait()
	rows := tree.Stats(0)
	checkSums(t, rows)
	require.Equal(t, total, rows[0].Gets)
	resolved := spec.Resolved()
	require.LessOrEqual(t, total, resolved.CBurst+100*2, "burst and two seconds of rate: the most that any order gets")
	require.GreaterOrEqual(t, total, int64(100*2-1), "and demand was far above that")
}

// (i) Replacing a tree by itself changes no decision.
func TestLawReplacingByItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		if rapid.Bool().Draw(t, "oversubscribe") {
			oversubscribe(&spec)
		}
		spec.Children = append(spec.Children, Spec{Name: Template, Rate: rate(2, time.Minute), Burst: 2, Max: 3})
		plain, replaced := mustTree(t, spec), mustTree(t, spec)
		leaves := leavesOf(spec)
		now := Time(0)
		for i, c := range genCalls(t, len(leaves), 300) {
			now = now.Add(c.after)
			names := leaves[c.leaf]
			if names[len(names)-1] == Template {
				names = []string{fmt.Sprintf("client-%d", i%5)}
			}
			require.NoError(t, replaced.Replace(now, spec))
			a, errA := plain.Allow(now, c.cost, names...)
			b, errB := replaced.Allow(now, c.cost, names...)
			require.Equal(t, errA == nil, errB == nil)
			a.tree, b.tree, a.leaf, b.leaf = nil, nil, nil, nil
			require.Equal(t, a, b, "call %d", i)
		}
	})
}

// (j) An oversubscribed subtree takes nothing from its neighbours: they get what
// they get beside a covered class of the same rate, ceil and bursts.
func TestLawOversubscriptionDoesNotLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Int64Range(10, 300).Draw(t, "rate of o")
		child := Spec{Name: "x", Rate: algo.PerSecond(r), Ceil: algo.PerSecond(1000)}
		o := Spec{Name: "o", Rate: algo.PerSecond(r), Ceil: algo.PerSecond(1000), Oversubscribed: true, Children: []Spec{child}}
		for i := range rapid.IntRange(1, 5).Draw(t, "more") {
			c := child
			c.Name = fmt.Sprint("x", i)
			o.Children = append(o.Children, c)
		}
		acme := Spec{Name: "acme", Rate: algo.PerSecond(600), Ceil: algo.PerSecond(1000)}
		spec := Spec{Rate: algo.PerSecond(1000), Children: []Spec{acme, o}}
		tree := mustTree(t, spec)
		leaves := leavesOf(spec)
		inside := newMeter(acme.Rate, 600)
		now := Time(0)
		for _, c := range genCalls(t, 1, 300) {
			now = now.Add(c.after)
			for _, l := range leaves[1:] {
				for range 50 {
					if d, err := tree.Allow(now, c.cost, l...); err != nil || !d.Allowed {
						break
					}
				}
			}
			if inside.fits(now, c.cost) {
				inside.add(c.cost)
				d, err := tree.Allow(now, c.cost, "acme")
				require.NoError(t, err)
				require.True(t, d.Allowed, "refused by %s: %v", d.RefusedBy(), d.Reason)
			}
		}
	})
}

// (j) again: hammering, acme gets beside an oversubscribed class, marked or above a
// template, what it gets beside a covered one.
func TestLawOversubscribedNeighboursAreLikeOthers(t *testing.T) {
	got := map[string]int64{}
	for name, o := range map[string]Spec{
		"covered":  perSecond("o", 200, 1000, perSecond("x0", 100, 1000), perSecond("x1", 100, 1000)),
		"marked":   perSecond("o", 200, 1000, perSecond("x0", 200, 1000), perSecond("x1", 200, 1000)),
		"template": perSecond("o", 200, 1000, perSecond(Template, 5, 1000)),
	} {
		o.Oversubscribed = name == "marked"
		o.Burst, o.CBurst = 500, 500
		tree := mustTree(t, perSecond("", 1000, 0, perSecond("acme", 600, 1000), o))
		leaves := [][]string{{"acme"}, {"o", "x0"}, {"o", "x1"}}
		drive(tree, leaves, 0, 2*second, 1)
		got[name] = drive(tree, leaves, 2*second, 12*second, 1)[0]
	}
	require.InEpsilon(t, got["covered"], got["marked"], 0.02, "%v", got)
	require.InEpsilon(t, got["covered"], got["template"], 0.02, "%v", got)
	require.GreaterOrEqual(t, got["template"], int64(5990), "its 600/s")
}
