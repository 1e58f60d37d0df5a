package htb

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// The bound of these tests is that of the comment on Leased and of docs/adr/0014-leases.md.

// by is Allow of a goroutine whose shard is the i-th.
func (l *Leased) by(i int, now Time, cost int64) (Decision, error) {
	sp := l.spread.Load()
	at := uint64(i) & sp.mask
	if up, ok := sp.shards[at].take(now, cost); ok {
		return sp.says[up], nil
	}
	return l.ask(at, now, cost)
}

// over gives l shards, as if goroutines had met.
func (l *Leased) over(now Time, shards int) {
	l.leaf.tree.mu.Lock()
	defer l.leaf.tree.mu.Unlock()
	x, err := l.leaf.live(l.leaf.tree.advance(now), 0)
	if err != nil {
		return
	}
	l.assign(x, now, false)
	l.spread.Store(newSpread(shards, l.says(x), nil))
}

// hand returns what is in hand.
func (l *Leased) hand() (units int64) {
	sp := l.spread.Load()
	for i := range sp.shards {
		units += sp.shards[i].hand.Load() >> upBits
	}
	return units
}

// bound returns L for a leaf with such a ceil.
func (o Lease) bound(ceil algo.Rate, shards int) int64 {
	brings := new(big.Rat).Mul(ceil.Fraction(), big.NewRat(int64(o.TTL), 1))
	units := new(big.Int).Quo(brings.Num(), brings.Denom()).Int64()
	return min(int64(shards)*o.Most, units)
}

// leasedTree is a random tree most of whose leaves are leased.
type leasedTree struct {
	tree   *Tree
	spec   Spec
	leaves [][]string
	leased []*Leased         // nil: asked without
	extra  map[string]int64  // L, by path
	meters map[string]*meter // cburst + ceil*w + L
	shards int

	got, rejected int64
}

func genLeased(t *rapid.T) *leasedTree {
	spec := genTree(t, treeKind{})
	if rapid.Bool().Draw(t, "oversubscribe") {
		oversubscribe(&spec)
	}
	return newLeasedTree(t, spec)
}

func newLeasedTree(t *rapid.T, spec Spec) *leasedTree {
	tree := mustTree(t, spec)
	lt := &leasedTree{tree: tree, spec: spec.Resolved(), leaves: leavesOf(spec), extra: map[string]int64{}, meters: map[string]*meter{}}
	lt.shards = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "shards")
	o := Lease{
		Most: rapid.SampledFrom([]int64{1, 3, 50, 1000}).Draw(t, "most"),
		TTL:  rapid.SampledFrom([]time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second, time.Minute}).Draw(t, "ttl"),
	}
	for _, names := range lt.leaves {
		if rapid.IntRange(0, 3).Draw(t, "leased") == 0 {
			lt.leased = append(lt.leased, nil)
			continue
		}
		leaf, err := tree.Leaf(names...)
		require.NoError(t, err)
		l, err := leaf.Leased(Lease{Most: o.Most})
		require.NoError(t, err)
		l.lease = o // of longer than it may be: these trees are slow
		l.over(0, lt.shards)
		lt.leased = append(lt.leased, l)
		for i := range len(names) + 1 {
			lt.extra[Path(names[:i]...)] += o.bound(specOf(lt.spec, names).Ceil, lt.shards)
		}
	}
	var walk func(s Spec, path ...string)
	walk = func(s Spec, path ...string) {
		p := Path(path...)
		lt.meters[p] = newMeter(s.Ceil, s.CBurst+lt.extra[p])
		for _, c := range s.Children {
			walk(c, append(path[:len(path):len(path)], c.Name)...)
		}
	}
	walk(lt.spec)
	return lt
}

func specOf(s Spec, names []string) Spec {
	for _, n := range names {
		for _, c := range s.Children {
			if c.Name == n {
				s = c
				break
			}
		}
	}
	return s
}

// ask decides on a request of a leaf, by some shard.
func (lt *leasedTree) ask(now Time, leaf, shard int, cost int64) (Decision, error) {
	if l := lt.leased[leaf]; l != nil {
		return l.by(shard, now, cost)
	}
	return lt.tree.Allow(now, cost, lt.leaves[leaf]...)
}

// book fails if what has passed now is more than the bound.
func (lt *leasedTree) book(t require.TestingT, now Time, leaf int, cost int64) {
	lt.got += cost
	names := lt.leaves[leaf]
	for i := range len(names) + 1 {
		m := lt.meters[Path(names[:i]...)]
		require.True(t, m.fits(now, cost), "%s over its ceil and L at %d", Path(names[:i]...), now)
		m.add(cost)
	}
}

// (a) No window has more than cburst + ceil*window + L, at any level; nothing is out for
// longer than its ttl; every number is right at any time.
func TestLeaseLawCeil(t *testing.T) {
	inHand := 0
	rapid.Check(t, func(t *rapid.T) {
		lt := genLeased(t)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		now := Time(0)
		atOnce := rapid.SampledFrom([]int{2, 5, 30}).Draw(t, "at once")
		pace := rapid.Int64Range(1, 200).Draw(t, "pace")
		for _, c := range genCalls(t, len(lt.leaves), 300) {
			now = now.Add(c.after).Add(lt.spec.Ceil.Takes(r.Int64N(pace)))
			for range 1 + r.IntN(atOnce) {
				cost := min(c.cost, 1+r.Int64N(3))
				if d, _ := lt.ask(now, c.leaf, r.IntN(lt.shards), cost); d.Allowed {
					lt.book(t, now, c.leaf, cost)
				} else {
					lt.rejected += cost
				}
			}
			if l := lt.leased[c.leaf]; l != nil && l.hand() > 0 {
				inHand++
				require.LessOrEqual(t, l.hand(), l.lease.bound(specOf(lt.spec, lt.leaves[c.leaf]).Ceil, lt.shards))
			}
			if r.IntN(20) == 0 {
				rows := lt.tree.Stats(now)
				checkSums(t, rows)
				require.Equal(t, []int64{lt.got, lt.rejected}, []int64{rows[0].Gets, rows[0].Rejected})
			}
		}
		now = now.Add(2 * time.Minute)
		rows := lt.tree.Stats(now)
		checkSums(t, rows)
		require.Equal(t, lt.got, rows[0].Gets)
		require.Empty(t, lt.tree.leased, "nothing is out")
		for _, l := range lt.leased {
			require.True(t, l == nil || l.hand() == 0 && l.out == 0)
		}
	})
	t.Log(inHand)
	require.Greater(t, inHand, 200, "and much was in hand")
}

// (b) A leaf inside rate*t + burst loses nothing: leased or not, whatever the others do,
// and whoever of its goroutines asks.
func TestLeaseLawGuarantee(t *testing.T) {
	handed := 0
	rapid.Check(t, func(t *rapid.T) {
		lt := newLeasedTree(t, genTree(t, treeKind{}))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4))
		good := rapid.IntRange(0, len(lt.leaves)-1).Draw(t, "good")
		s := specOf(lt.spec, lt.leaves[good])
		inside := newMeter(s.Rate, s.Burst)
		now := Time(0)
		pace := rapid.Int64Range(1, 200).Draw(t, "pace")
		for i, c := range genCalls(t, len(lt.leaves), 300) {
			now = now.Add(c.after).Add(lt.spec.Ceil.Takes(r.Int64N(pace)))
			for leaf := range lt.leaves {
				for range 30 * r.IntN(2) {
					if leaf == good {
						break
					}
					if d, err := lt.ask(now, leaf, r.IntN(lt.shards), 1+r.Int64N(c.cost)); err == nil && d.Allowed {
						handed++
					}
				}
			}
			for range 1 + r.IntN(10) {
				if cost := 1 + r.Int64N(c.cost); inside.fits(now, cost) {
					inside.add(cost)
					d, err := lt.ask(now, good, r.IntN(lt.shards), cost)
					require.NoError(t, err)
					require.True(t, d.Allowed, "call %d: refused within its rate by %s: %v", i, d.RefusedBy(), d.Reason)
				}
			}
		}
	})
	require.Greater(t, handed, 1000)
}

// The bound of (a) is not only kept: who takes all that it may in advance, waits until the
// buckets are full but for a moment, and then takes that and the bursts, gets most of it.
func TestLeaseBoundIsAttained(t *testing.T) {
	const ttl = 10 * time.Millisecond
	for _, most := range []int64{50, 1000} {
		for _, shards := range []int{1, 4} {
			for _, leaves := range []int{1, 2} {
				ceil := algo.PerSecond(100_000)
				spec := Spec{Rate: algo.PerSecond(100_000 * int64(leaves)), Burst: 20_000, CBurst: 20_000}
				for i := range leaves {
					spec.Children = append(spec.Children, Spec{Name: fmt.Sprint(i), Rate: ceil, Burst: 20_000 / int64(leaves)})
				}
				o := Lease{Most: most, TTL: ttl}
				extra := int64(leaves) * o.bound(ceil, shards)
				got := adversary(t, mustTree(t, spec), o, shards, leaves, newMeter(spec.Rate, spec.CBurst+extra))
				share := float64(got-spec.CBurst) / float64(extra)
				t.Logf("%d leaves, %d shards, most %d: %d at once, cburst %d and %.1f %% of L = %d", leaves, shards, most, got, spec.CBurst, 100*share, extra)
				require.GreaterOrEqual(t, share, 0.9)
				require.LessOrEqual(t, share, 1.0)
			}
		}
	}
}

// adversary returns what passes at one moment.
func adversary(t *testing.T, tree *Tree, o Lease, shards, leaves int, bound *meter) (got int64) {
	var all []*Leased
	now, passed := Time(0), int64(0)
	pass := func(l *Leased, shard int) bool {
		d, err := l.by(shard, now, 1)
		require.NoError(t, err)
		if d.Allowed {
			passed++
		}
		return d.Allowed
	}
	later := func(at Time) { // books what has passed by now
		require.True(t, bound.fits(now, passed))
		bound.add(passed)
		now, passed = at, 0
	}
	each := func(do func(l *Leased, shard int)) {
		for _, l := range all {
			for shard := range shards {
				do(l, shard)
			}
		}
	}
	hand := func(l *Leased, shard int) int64 { return l.spread.Load().shards[shard].hand.Load() >> upBits }
	for i := range leaves {
		leaf, err := tree.Leaf(fmt.Sprint(i))
		require.NoError(t, err)
		l, err := leaf.Leased(o)
		require.NoError(t, err)
		l.over(0, shards)
		all = append(all, l)
	}
	each(func(l *Leased, shard int) {
		for range 20 * o.Most / int64(shards) {
			if pass(l, shard); hand(l, shard) >= min(o.Most, 1000/int64(shards)) {
				break
			}
		}
	})
	// From then on as much as ceil brings, but a little less: shards get what they had.
	for range 100 {
		taken := now
		later(taken.Add(o.TTL - 1))
		each(func(l *Leased, shard int) {
			for hand(l, shard) > 0 {
				require.True(t, pass(l, shard))
			}
		})
		later(taken.Add(o.TTL + o.TTL/time.Duration(min(o.Most, 1000/int64(shards))*95/100)))
		each(func(l *Leased, shard int) { require.True(t, pass(l, shard)) })
	}
	later(now.Add(o.TTL - 1))
	for before := int64(-1); passed > before; {
		before = passed
		each(func(l *Leased, shard int) { pass(l, shard) })
	}
	got = passed
	later(now)
	return got
}

// Whoever borrows finds less only for as long as others have it in hand, and no more than
// that less.
func TestLeaseKeepsFromOthersNoMoreThanIsInHand(t *testing.T) {
	wide := algo.PerSecond(1000)
	spec := Spec{Rate: wide, Burst: 400, Children: []Spec{
		{Name: "leased", Rate: algo.PerSecond(1), Burst: 1, Ceil: wide, CBurst: 300},
		{Name: "lone", Rate: algo.PerSecond(1), Burst: 1, Ceil: wide, CBurst: 300},
	}}
	o := Lease{Most: 1000, TTL: 100 * time.Millisecond}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 5))
		plain, tree := mustTree(t, spec), mustTree(t, spec)
		leaf, err := tree.Leaf("leased")
		require.NoError(t, err)
		l, err := leaf.Leased(o)
		require.NoError(t, err)
		var got, would int64 // of the lone one, that asks for all there is
		for now := Time(0); now < second; now = now.Add(time.Duration(r.IntN(5)) * time.Millisecond) {
			if r.IntN(4) == 0 { // the other does for a while what it did not do before
				for range r.IntN(12) {
					a, err := l.by(0, now, 1)
					require.NoError(t, err)
					b, err := plain.Allow(now, 1, "leased")
					require.NoError(t, err)
					if a.Allowed != b.Allowed { // which the lone one has or has not
						got, would = got+map[bool]int64{true: 1}[a.Allowed], would+map[bool]int64{true: 1}[b.Allowed]
					}
				}
			}
			for range 50 {
				a, err := tree.Allow(now, 1, "lone")
				require.NoError(t, err)
				b, err := plain.Allow(now, 1, "lone")
				require.NoError(t, err)
				got, would = got+map[bool]int64{true: 1}[a.Allowed], would+map[bool]int64{true: 1}[b.Allowed]
			}
			require.GreaterOrEqual(t, got, would-o.bound(wide, 1)-1, "seed %d at %d", seed, now)
		}
	}
}

// Leased leaves that ask for more than there is share as others do.
func TestLeaseKeepsShares(t *testing.T) {
	a, b := perSecond("a", 1, 10_000), perSecond("b", 1, 10_000)
	a.Quantum, b.Quantum = 3, 1
	a.CBurst, b.CBurst = 1000, 1000
	tree := mustTree(t, perSecond("", 10_000, 0, a, b))
	var got [2]int64
	var all [2]*Leased
	for i, name := range []string{"a", "b"} {
		leaf, err := tree.Leaf(name)
		require.NoError(t, err)
		all[i], err = leaf.Leased(Lease{})
		require.NoError(t, err)
	}
	for now := Time(0); now < 3*second; now = now.Add(20 * time.Microsecond) {
		for i, l := range all {
			d, err := l.by(0, now, 1)
			require.NoError(t, err)
			if d.Allowed && now > second {
				got[i]++
			}
		}
	}
	require.InEpsilon(t, 20_000, got[0]+got[1], 0.01)
	require.InEpsilon(t, 3, float64(got[0])/float64(got[1]), 0.03, "%v", got)
}
