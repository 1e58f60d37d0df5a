package htb

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// A refusal is the tree's own, with nothing in hand, and the time it tells is right.
func TestLeaseRefusals(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		lt := genLeased(t)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
		now := Time(0)
		pace := rapid.Int64Range(1, 200).Draw(t, "pace")
		for _, c := range genCalls(t, len(lt.leaves), 100) {
			now = now.Add(c.after).Add(lt.spec.Ceil.Takes(r.Int64N(pace)))
			l := lt.leased[c.leaf]
			if l == nil {
				continue
			}
			for range 50 {
				d, err := l.by(r.IntN(lt.shards), now, c.cost)
				if err != nil {
					require.ErrorIs(t, err, ErrCost)
					break
				}
				if d.Allowed {
					continue
				}
				refused++
				require.Zero(t, l.hand(), "refused with units in hand")
				require.Zero(t, l.out)
				own, err := lt.tree.Allow(now, c.cost, lt.leaves[c.leaf]...)
				require.NoError(t, err)
				require.False(t, own.Allowed)
				require.Equal(t, own.Reason, d.Reason)
				require.Equal(t, own.RetryAfter, d.RetryAfter)
				require.Equal(t, own.RefusedBy(), d.RefusedBy())
				before := levels(lt.tree, now)
				_, err = l.by(r.IntN(lt.shards), now, c.cost)
				require.NoError(t, err)
				after := levels(lt.tree, now)
				for i := range after { // law (c)
					before[i].counts.rejected, after[i].counts.rejected = 0, 0
				}
				require.Equal(t, before, after)
				break
			}
		}
	})
	require.Greater(t, refused, 500)
}

// What was not used is as if it had not been taken: no bucket and no counter tells.
func TestLeaseGivesBackWhatIsLeft(t *testing.T) {
	lent := 0
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		borrows := rapid.Bool().Draw(t, "borrows")
		if borrows {
			poor := perSecond("poor", 1, 1000)
			poor.CBurst = 500
			spec = perSecond("", 1000, 0, perSecond("a", 100, 1000, poor), perSecond("b", 100, 1000))
			spec.Burst, spec.Children[0].Burst = 3000, 1000
		}
		tree, plain := mustTree(t, spec), mustTree(t, spec)
		leaves := leavesOf(spec)
		names := leaves[rapid.IntRange(0, len(leaves)-1).Draw(t, "leaf")]
		leaf, err := tree.Leaf(names...)
		require.NoError(t, err)
		l, err := leaf.Leased(Lease{TTL: time.Second})
		require.NoError(t, err)
		for range 200 { // so that no bucket is full
			d, err := tree.Allow(0, 1, names...)
			require.NoError(t, err)
			_, err = plain.Allow(0, 1, names...)
			require.NoError(t, err)
			if !borrows || d.Up > 0 {
				break
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			a, err := l.by(0, 0, 1)
			require.NoError(t, err)
			b, err := plain.Allow(0, 1, names...)
			require.NoError(t, err)
			if a.Up != b.Up || a.Allowed != b.Allowed { // several at once may be lent by another, or be fair
				return
			}
		}
		if borrows && l.hand() > 0 {
			lent++
		}
		tree.mu.Lock()
		l.recall(0)
		tree.mu.Unlock()
		require.Equal(t, levels(plain, 0), levels(tree, 0))
		marks := func(tree *Tree) (all []Ticks) {
			x, err := tree.find(0, names, 0)
			for require.NoError(t, err); x != nil; x = x.parent {
				all = append(all, x.mark)
			}
			return all
		}
		require.Equal(t, marks(plain), marks(tree))
	})
	require.Greater(t, lent, 5)
}

// Who is served by a lease has no claim any more.
func TestLeaseAnswersAClaim(t *testing.T) {
	wide := algo.PerSecond(100)
	tree := mustTree(t, Spec{Rate: wide, Burst: 60, Children: []Spec{
		{Name: "a", Rate: algo.PerSecond(1), Burst: 1, Ceil: wide, CBurst: 50},
		{Name: "b", Rate: algo.PerSecond(1), Burst: 1, Ceil: wide, CBurst: 50},
	}})
	leaf, err := tree.Leaf("a")
	require.NoError(t, err)
	answered := 0
	for now := Time(0); now < 20*second; now = now.Add(5 * time.Millisecond) {
		_, err := tree.Allow(now, 1, "b")
		require.NoError(t, err)
		_, err = leaf.Allow(now, 20)
		require.NoError(t, err)
		if leaf.class.Load().staked {
			if _, ok := leaf.class.Load().lend(now, 2); ok {
				answered++
				require.False(t, leaf.class.Load().staked)
				require.Nil(t, tree.root.in.claim.by)
			}
		}
	}
	require.Greater(t, answered, 10)
}

// After its ttl nothing is handed out, whoever asks and whether or not the tree was
// called meanwhile; until then everything is.
func TestLeaseEnds(t *testing.T) {
	spec := Spec{Rate: algo.PerSecond(1000), Children: []Spec{{Name: "a", Rate: algo.PerSecond(500), Ceil: algo.PerSecond(1000)}, {Name: "b", Rate: algo.PerSecond(500)}}}
	const ttl = 50 * time.Millisecond
	taken := func() (*Tree, *Leased, int64) {
		tree := mustTree(t, spec)
		leaf, err := tree.Leaf("a")
		require.NoError(t, err)
		l, err := leaf.Leased(Lease{TTL: ttl})
		require.NoError(t, err)
		for l.hand() < 20 {
			d, err := l.by(0, 7, 1)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
		return tree, l, l.hand()
	}
	tree, l, had := taken()
	_, err := l.by(0, 7+Time(ttl)-1, 1)
	require.NoError(t, err)
	require.Equal(t, had-1, l.hand(), "by then it is handed out")
	owed := func() Ticks { x := tree.root; return x.ceil.Owed(x.ceilTAT, 7+Time(ttl)) }
	before := owed()
	d, err := l.by(0, 7+Time(ttl), 1)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.NotEqual(t, before, owed(), "from then on the tree is asked")

	for name, call := range map[string]func(now Time){
		"a decision of another": func(now Time) { _, _ = tree.Allow(now, 1, "b") },
		"statistics":            func(now Time) { tree.Stats(now) },
	} {
		tree, l, had = taken()
		call(7 + Time(ttl) - 1)
		require.Equal(t, had, l.hand(), name)
		call(7 + Time(ttl))
		require.Zero(t, l.hand(), name)
		require.Empty(t, tree.leased, name)
	}
}

// A tree that is replaced, by itself or another, has nothing in hand of the old one.
func TestLeaseOfReplacedTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lt := genLeased(t)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
		now := Time(0)
		pace := rapid.Int64Range(1, 200).Draw(t, "pace")
		for i, c := range genCalls(t, len(lt.leaves), 200) {
			now = now.Add(c.after).Add(lt.spec.Ceil.Takes(r.Int64N(pace)))
			for range 1 + r.IntN(30) {
				if d, err := lt.ask(now, c.leaf, r.IntN(lt.shards), 1); err == nil && d.Allowed {
					lt.book(t, now, c.leaf, 1)
				}
			}
			if i%7 == 0 {
				require.NoError(t, lt.tree.Replace(now, lt.spec))
				for _, l := range lt.leased {
					require.True(t, l == nil || l.hand() == 0)
				}
			}
			if i%5 == 0 {
				if l := lt.leased[c.leaf]; l != nil {
					l.over(now, lt.shards)
				}
			}
		}
		rows := lt.tree.Stats(now)
		checkSums(t, rows)
		require.Equal(t, lt.got, rows[0].Gets)
	})

	small := perSecond("", 1000, 0, perSecond("a", 10, 10))
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("a", 1000, 1000)))
	leaf, err := tree.Leaf("a")
	require.NoError(t, err)
	l, err := leaf.Leased(Lease{TTL: time.Second})
	require.NoError(t, err)
	for range 100 {
		_, err := l.by(0, 0, 1)
		require.NoError(t, err)
	}
	require.NoError(t, tree.Replace(1, small))
	got := 0
	for range 100 {
		if d, err := l.by(0, 1, 1); err == nil && d.Allowed {
			got++
		}
	}
	require.LessOrEqual(t, got, 10, "the new burst")
	require.NoError(t, tree.Replace(2, perSecond("", 1000, 0, perSecond("b", 10, 10))))
	_, err = l.by(0, 2, 1)
	require.ErrorIs(t, err, ErrUnknown)
}

// Leaves under a template stay while something of theirs is in hand, and no longer.
func TestLeaseUnderATemplate(t *testing.T) {
	for _, kind := range []string{"table", "classes", "crowded"} {
		template := perSecond(Template, 50, 1000)
		names := func(i int) []string { return []string{fmt.Sprint(i)} }
		switch kind {
		case "classes":
			template.Children = []Spec{perSecond("web", 20, 1000)}
			names = func(i int) []string { return []string{fmt.Sprint(i), "web"} }
		case "crowded":
			template.Max = 2
		}
		tree := mustTree(t, perSecond("", 1000, 0, template))
		var all []*Leased
		for i := range 5 {
			leaf, err := tree.Leaf(names(i)...)
			require.NoError(t, err)
			l, err := leaf.Leased(Lease{})
			require.NoError(t, err)
			all = append(all, l)
		}
		r := rand.New(rand.NewPCG(1, 8))
		now, got := Time(0), int64(0)
		dropped := false
		for i := range 4000 {
			now = now.Add(time.Duration(r.IntN(1000)) * time.Microsecond)
			l := all[r.IntN(len(all))]
			if i/500%2 == 1 {
				l = all[0] // the others come to rest
			}
			if i%1000 == 999 {
				now = now.Add(time.Minute)
				_, err := tree.Allow(now, 0, names(9)...) // which drops
				require.NoError(t, err)
			}
			for range r.IntN(20) {
				d, err := l.by(0, now, 1)
				require.NoError(t, err)
				if d.Allowed {
					got++
					require.NotEmpty(t, d.Lender())
					require.GreaterOrEqual(t, d.Remaining(), int64(0))
				}
			}
			if i%100 == 0 {
				rows := tree.Stats(now)
				require.Equal(t, got, rows[0].Gets, kind)
				dropped = dropped || rows[len(rows)-1].Gets > 0
			}
		}
		require.True(t, dropped, kind)
		now = now.Add(time.Hour)
		require.Equal(t, got, tree.Stats(now)[0].Gets)
		for i := range 40 { // a look or two at each
			_, err := tree.Allow(now, 0, names(10+i)...)
			require.NoError(t, err)
			now = now.Add(2 * time.Second)
		}
		for _, row := range tree.Stats(now) {
			require.NotContains(t, []string{"0", "1", "2", "3", "4"}, row.Path, "%s: nothing keeps it", kind)
		}
	}
}

// Who asks little takes little: nothing in advance if that is less than once in a ttl.
func TestLeaseSizes(t *testing.T) {
	const ttl = 10 * time.Millisecond
	most := func(every time.Duration, cost int64, ceil int64) (most, last int64) {
		tree := mustTree(t, perSecond("", 1_000_000, 0, perSecond("a", min(ceil, 1000), ceil)))
		leaf, err := tree.Leaf("a")
		require.NoError(t, err)
		l, err := leaf.Leased(Lease{Most: 512, TTL: ttl})
		require.NoError(t, err)
		for now, n := Time(0), 0; now < second; now, n = now.Add(every), n+1 {
			if every == 0 {
				now = Time(n/2) * 11 * Time(time.Millisecond)
			}
			d, err := l.by(0, now, cost)
			require.NoError(t, err)
			require.True(t, d.Allowed || ceil < 1000, "%v %d", every, cost)
			most, last = max(most, l.hand()), max(0, l.spread.Load().shards[0].more)
		}
		return most, last
	}
	for _, c := range []struct {
		every             time.Duration
		cost, ceil        int64
		atMost, lastAbout int64
	}{
		{11 * time.Millisecond, 1, 1_000_000, 0, 0},
		{4 * time.Millisecond, 1, 1_000_000, 3, 2},
		{4 * time.Millisecond, 10, 1_000_000, 30, 25},
		{time.Millisecond, 1, 1_000_000, 11, 10},
		{100 * time.Microsecond, 1, 1_000_000, 101, 100},
		{time.Microsecond, 1, 1_000_000, 512, 512},
		{0, 1, 1_000_000, 1, 1},             // two at once, and again after more than a ttl
		{2 * time.Millisecond, 1, 50, 0, 0}, // half a unit a ttl
		{2 * time.Millisecond, 1, 1000, 5, 5},
		{time.Millisecond, 1, 1000, 10, 10},
	} {
		got, last := most(c.every, c.cost, c.ceil)
		require.LessOrEqual(t, got, c.atMost, "%+v", c)
		require.InDelta(t, c.lastAbout, last, 0.3*float64(c.lastAbout)+1, "%+v", c)
	}
}

func TestLeaseOptions(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("a", 1000, 1000)))
	leaf, err := tree.Leaf("a")
	require.NoError(t, err)
	for _, o := range []Lease{{Most: -1}, {Most: math.MaxInt64}, {TTL: -1}, {TTL: 2 * time.Second}, {TTL: 1}} {
		_, err := leaf.Leased(o)
		require.ErrorContains(t, err, `htb: lease of class "a": `)
	}
	l, err := leaf.Leased(Lease{})
	require.NoError(t, err)
	require.Equal(t, Lease{DefaultLeaseMost, DefaultLeaseTTL}, l.lease)
	require.Equal(t, "a", l.Path())
	for range 100 {
		_, err := l.Allow(0, 1)
		require.NoError(t, err)
	}
	for cost, want := range map[int64]error{-1: ErrCost, 1001: ErrCost, 0: nil} {
		had := l.hand()
		_, err := l.Allow(0, cost)
		require.True(t, errors.Is(err, want), "%d: %v", cost, err)
		if cost <= 0 {
			require.Equal(t, had, l.hand(), "what takes nothing changes nothing")
		}
	}
	rows := tree.Stats(0)
	require.Equal(t, int64(100), rows[1].Gets)
	require.Equal(t, int64(1001), rows[1].Rejected)
}

// Goroutines get, together, no more than some order of the same calls and L, and every unit
// is counted once, while the tree is asked, replaced and counted.
func TestLeaseConcurrentCalls(t *testing.T) {
	spec := perSecond("", 100_000, 0,
		perSecond("a", 60_000, 100_000),
		perSecond("b", 30_000, 100_000, perSecond(Template, 500, 100_000)))
	spec.Children[1].Children[0].Max = 3
	tree := mustTree(t, spec)
	var handles []*Leased
	for _, names := range [][]string{{"a"}, {"b", "0"}, {"b", "1"}, {"b", "2"}, {"b", "3"}} {
		leaf, err := tree.Leaf(names...)
		require.NoError(t, err)
		l, err := leaf.Leased(Lease{TTL: 5 * time.Millisecond})
		require.NoError(t, err)
		handles = append(handles, l)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := int64(0)
	const steps, step = 20_000, 10 * time.Microsecond
	for g := range 16 {
		wg.Go(func() {
			mine := int64(0)
			for i := range steps {
				now := Time(i) * Time(step)
				l := handles[0]
				if g%2 == 1 {
					l = handles[1+(g+i/100)%4]
				}
				d, err := l.Allow(now, 1+int64(i%3))
				if err != nil {
					panic(err)
				}
				if d.Allowed {
					mine += 1 + int64(i%3)
				}
				switch i % 5000 {
				case 1000:
					tree.Stats(now)
					_, _, _, _ = d.Lender(), d.RefusedBy(), d.Remaining(), d.Reset()
				case 2000:
					if err := tree.Replace(now, spec); err != nil {
						panic(err)
					}
				case 3000:
					l.over(now, 1+g%2*7)
				case 4000:
					runtime.Gosched()
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
	seconds := float64(steps) * step.Seconds()
	require.LessOrEqual(t, float64(total), float64(spec.Resolved().CBurst)+100_000*seconds+5*100_000*0.005)
	tree.Stats(Time(steps) * Time(step) * 2)
	require.Empty(t, tree.leased)
}

// Where goroutines meet there are more shards, as long as each has enough; where they do
// not, or the leaf has little, there is one.
func TestLeaseShards(t *testing.T) {
	shards := func(name string, meet bool) int {
		tree := mustTree(t, perSecond("", 1_000_000_000, 0, perSecond("fast", 500_000_000, 1_000_000_000), perSecond("slow", 1000, 1000)))
		leaf, err := tree.Leaf(name)
		require.NoError(t, err)
		l, err := leaf.Leased(Lease{})
		require.NoError(t, err)
		for i := range 20_000 {
			now := Time(i) * 20_000
			if meet {
				l.spread.Load().shards[0].meets.Add(1)
			}
			_, err := l.by(0, now, 1)
			require.NoError(t, err)
		}
		return len(l.spread.Load().shards)
	}
	require.Equal(t, 1, shards("fast", false))
	require.Equal(t, 1, shards("slow", true))
	n := shards("fast", true)
	require.Greater(t, n, 1)
	require.LessOrEqual(t, n, 8*runtime.GOMAXPROCS(0))
}

func TestLeaseAllocatesNothing(t *testing.T) {
	tree := mustTree(t, perSecond("", 1_000_000, 0, perSecond("a", 1000, 1_000_000), perSecond(Template, 1000, 1_000_000)))
	for _, name := range []string{"a", "any"} {
		leaf, err := tree.Leaf(name)
		require.NoError(t, err)
		l, err := leaf.Leased(Lease{})
		require.NoError(t, err)
		now := Time(0)
		for range 10_000 {
			now += 5000
			_, err = l.Allow(now, 1)
			require.NoError(t, err)
		}
		require.Zero(t, testing.AllocsPerRun(20_000, func() {
			now += 5000
			_, _ = l.Allow(now, 1)
		}), name)
	}
}
