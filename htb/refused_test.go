package htb

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// twoTrees are the same tree twice: one is asked through handles, which remember what they
// refused, one by name, which does not.
type twoTrees struct {
	byHandle, byName *Tree
	paths            [][]string
	leaves           []*Leaf
	holds            [][2]*Hold
	remembered       int
}

func (w *twoTrees) allow(t require.TestingT, now Time, leaf int, cost int64) {
	uncounted := func() (n int64) {
		if x := w.leaves[leaf].class.Load(); x != nil {
			if r := x.refused.Load(); r != nil {
				n = r.uncounted.Load()
			}
		}
		return n
	}
	before := uncounted()
	a, errA := w.leaves[leaf].Allow(now, cost)
	if uncounted() > before {
		w.remembered++
	}
	b, errB := w.byName.Allow(now, cost, w.paths[leaf]...)
	require.Equal(t, errB, errA)
	require.Equal(t, b.said(), a.said(), "%v at %d", w.paths[leaf], now)
	sameClaims(t, w.byHandle.root, w.byName.root)
	if a.tree != nil {
		require.Equal(t, b.RefusedBy()+b.Lender(), a.RefusedBy()+a.Lender())
	}
}

// sameClaims requires that two trees keep as much for the same leaves for as long.
func sameClaims(t require.TestingT, a, b *class) {
	require.Equal(t, [2]any{b.staked, b.stakedUntil}, [2]any{a.staked, a.stakedUntil}, "stake of %s", a.path())
	if a.in == nil {
		return
	}
	c, d := a.in.claim, b.in.claim
	require.Equal(t, d.by == nil, c.by == nil, a.path())
	if c.by != nil {
		require.Equal(t, d.by.path(), c.by.path())
	}
	c.by, d.by = nil, nil
	require.Equal(t, d, c, a.path())
	for i := range a.in.named {
		sameClaims(t, a.in.named[i], b.in.named[i])
	}
}

// Who takes what another asks for gets as much.
func TestTakeIsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{maxBurst: 20})
		paths := leavesOf(spec)
		asks, takes := mustTree(t, spec), mustTree(t, spec)
		var ask, take []*Leaf
		for _, path := range paths {
			a, err := asks.Leaf(path...)
			require.NoError(t, err)
			b, err := takes.Leaf(path...)
			require.NoError(t, err)
			ask, take = append(ask, a), append(take, b)
		}
		now := Time(0)
		for _, c := range genCalls(t, len(paths), 300) {
			now = now.Add(c.after)
			d, err := ask[c.leaf].Allow(now, c.cost)
			require.Equal(t, err == nil && d.Allowed, take[c.leaf].Take(now, c.cost))
		}
		require.Equal(t, asks.Stats(now), takes.Stats(now))
	})
	tree := mustTree(t, perSecond("", 10, 0, perSecond("a", 10, 0)))
	a, err := tree.Leaf("a")
	require.NoError(t, err)
	leased, err := a.Leased(Lease{})
	require.NoError(t, err)
	passed := 0
	for range 30 {
		if leased.Take(0, 1) {
			passed++
		}
	}
	require.Equal(t, 10, passed)
}

// said is a decision without what it refers to.
func (d Decision) said() Decision {
	d.tree, d.leaf, d.name, d.at = nil, nil, "", 0
	return d
}

// What is remembered of refusals is what the tree would say: the same decisions, reasons,
// retry times and counters, whatever comes between.
func TestRefusalsAreRememberedAsTheyAre(t *testing.T) {
	remembered := 0
	rapid.Check(t, func(t *rapid.T) {
		kind := treeKind{maxBurst: rapid.SampledFrom([]int64{0, 3, 30}).Draw(t, "burst")}
		spec := genTree(t, kind)
		if rapid.Bool().Draw(t, "oversubscribed") {
			oversubscribeAll(&spec)
		}
		if rapid.Bool().Draw(t, "the root's rate is below its ceil") {
			spec.Ceil = rate(5*spec.Rate.Over(time.Hour), time.Hour)
		}
		w := &twoTrees{byHandle: mustTree(t, spec), byName: mustTree(t, spec), paths: leavesOf(spec)}
		for _, path := range w.paths {
			leaf, err := w.byHandle.Leaf(path...)
			require.NoError(t, err)
			w.leaves = append(w.leaves, leaf)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		unit := spec.Rate.Takes(1)
		steps := []time.Duration{0, 1, unit / 100, unit / 10, unit / 3, unit, 10 * unit}
		now := Time(0)
		for range 60 {
			switch now = now.Add(steps[r.IntN(len(steps))]); r.IntN(12) {
			case 0:
				i, cost := r.IntN(len(w.paths)), int64(1+r.IntN(5))
				a, _, errA := w.leaves[i].Hold(now, cost)
				b, _, errB := w.byName.Hold(now, cost, w.paths[i]...)
				require.Equal(t, errB == nil, errA == nil)
				if a != nil {
					w.holds = append(w.holds, [2]*Hold{a, b})
				}
			case 1:
				if n := len(w.holds); n > 0 {
					h, cost := w.holds[n-1], r.Int64N(9)
					w.holds = w.holds[:n-1]
					require.NoError(t, h[0].Settle(now, cost))
					require.NoError(t, h[1].Settle(now, cost))
				}
			case 2:
				if r.IntN(4) == 0 {
					require.NoError(t, w.byHandle.Replace(now, spec))
					require.NoError(t, w.byName.Replace(now, spec))
				}
			case 3:
				require.Equal(t, w.byName.Stats(now), w.byHandle.Stats(now))
			default: // a few that insist
				i, cost := r.IntN(len(w.paths)), []int64{1, 2, 5, 10}[r.IntN(4)]
				step := steps[r.IntN(len(steps))]
				for range r.IntN(40) {
					now = now.Add(step)
					w.allow(t, now, i, cost)
					if r.IntN(3) == 0 {
						w.allow(t, now, r.IntN(len(w.paths)), 1+r.Int64N(3))
					}
				}
			}
		}
		require.Equal(t, w.byName.Stats(now), w.byHandle.Stats(now))
		remembered += w.remembered
	})
	require.Greater(t, remembered, 1000)
}

func oversubscribeAll(s *Spec) {
	for i := range s.Children {
		oversubscribeAll(&s.Children[i])
	}
	if len(s.Children) > 0 {
		s.Oversubscribed = true
	}
}

// The class that refuses changes while the root is in debt: what a sibling saves up leaves
// too little under the ceil of their parent.
func TestARefusalIsForgottenWhenAnotherClassMayRefuse(t *testing.T) {
	root := perSecond("", 2, 1000,
		perSecond("t", 1, 1000, perSecond("s", 1, 1000), perSecond("l", 1, 1000)),
		perSecond("o", 1, 1000))
	sibling, leaf := &root.Children[0].Children[0], &root.Children[0].Children[1]
	root.Children[0].Oversubscribed = false
	sibling.Rate, sibling.Burst = rate(9, 10*time.Second), 8
	leaf.Rate, leaf.Burst, leaf.CBurst = rate(1, time.Minute), 1, 10
	w := &twoTrees{byHandle: mustTree(t, root), byName: mustTree(t, root), paths: [][]string{{"t", "l"}}}
	l, err := w.byHandle.Leaf("t", "l")
	require.NoError(t, err)
	w.leaves = []*Leaf{l}
	for _, tree := range []*Tree{w.byHandle, w.byName} {
		require.Equal(t, 8, ask(t, tree, 0, 8, "t", "s"))
		h, _, err := tree.Hold(0, 1, "o")
		require.NoError(t, err)
		require.NoError(t, h.Settle(0, 100))
	}
	by := map[string]int{}
	for now := Time(10 * time.Millisecond); now < Time(20*time.Second); now += Time(50 * time.Millisecond) {
		w.allow(t, now, 0, 9)
		d, err := w.byHandle.Allow(now, 9, "t", "l")
		require.NoError(t, err)
		by[d.RefusedBy()]++
	}
	require.Len(t, by, 2, "%v", by)
}

// Who has had more than others is first in line again some windows later, and then claims
// what it is refused.
func TestARefusalIsForgottenWhenPlacesMayChange(t *testing.T) {
	root := perSecond("", 10, 1000, perSecond("l", 1, 1000), perSecond("o", 5, 1000))
	root.Children[0].CBurst = 20
	w := &twoTrees{byHandle: mustTree(t, root), byName: mustTree(t, root), paths: [][]string{{"l"}}}
	l, err := w.byHandle.Leaf("l")
	require.NoError(t, err)
	w.leaves = []*Leaf{l}
	for _, tree := range []*Tree{w.byHandle, w.byName} {
		require.Equal(t, 2, ask(t, tree, 0, 2, "l")) // one of its own, one that is lent
		h, _, err := tree.Hold(0, 1, "o")
		require.NoError(t, err)
		require.NoError(t, h.Settle(0, 500))
	}
	w.allow(t, Time(10*time.Millisecond), 0, 1)
	require.False(t, w.byName.root.in.named[0].staked)
	for now := Time(10 * time.Millisecond); now < Time(20*time.Second); now += Time(10 * time.Millisecond) {
		w.allow(t, now, 0, 1)
	}
	require.True(t, w.byName.root.in.named[0].staked)
	require.Positive(t, w.remembered)
}

// Of refusals that many goroutines get while others are admitted and counters are read,
// each is counted once.
func TestEveryRememberedRefusalIsCounted(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0,
		perSecond("few", 1, 2),
		perSecond("many", 500, 1000)))
	few, err := tree.Leaf("few")
	require.NoError(t, err)
	many, err := tree.Leaf("many")
	require.NoError(t, err)
	var clock, asked, got atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				d, err := few.Allow(Time(clock.Add(100)), 1)
				require.NoError(t, err)
				if asked.Add(1); d.Allowed {
					got.Add(1)
				} else {
					require.Equal(t, "few", d.RefusedBy())
				}
			}
		})
	}
	for range 200 {
		_, err := many.Allow(Time(clock.Load()), 1)
		require.NoError(t, err)
		tree.Stats(Time(clock.Load()))
	}
	wg.Wait()
	rows := tree.Stats(Time(clock.Load()))
	require.Equal(t, [2]int64{asked.Load(), got.Load()}, [2]int64{rows[1].Wants, rows[1].Gets})
	require.Equal(t, rows[1].Rejected, rows[0].Rejected)
	checkSums(t, rows)
}

// A leaf that insists on what its ceil, or the root, does not have costs the tree nothing.
func TestARememberedRefusalTakesNoLock(t *testing.T) {
	for _, root := range []Spec{
		perSecond("", 1000, 0, perSecond("a", 1, 1), perSecond("b", 1, 1000)),
		perSecond("", 10, 0, perSecond("a", 5, 10), perSecond("b", 5, 10)),
	} {
		tree := mustTree(t, root)
		a, err := tree.Leaf("a")
		require.NoError(t, err)
		var d Decision
		for d.Allowed = true; d.Allowed; {
			d, err = a.Allow(0, 1)
			require.NoError(t, err)
		}
		tree.mu.Lock()
		later, err := a.Allow(1, 1)
		tree.mu.Unlock()
		require.NoError(t, err)
		require.Equal(t, d.RetryAfter-1, later.RetryAfter)
		require.Equal(t, d.Reason, later.Reason)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = a.Allow(1, 1) }))
	}
}

// What a request that passes changes at the root, and in the tree, is one line of the cache
// each: the allocator begins one with each object whose size is whole lines.
func TestLinesOfTheCache(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("laid out for 64 bits")
	}
	const line = 64
	require.Zero(t, unsafe.Sizeof(class{})%line)
	require.Zero(t, unsafe.Sizeof(Tree{})%line)
	require.Less(t, unsafe.Offsetof(class{}.counts)+unsafe.Offsetof(counts{}.gets), uintptr(line))
	require.GreaterOrEqual(t, unsafe.Offsetof(class{}.plan), uintptr(2*line))
	require.GreaterOrEqual(t, unsafe.Offsetof(Tree{}.version), uintptr(line))
}
