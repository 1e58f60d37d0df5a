package htb

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// outside keeps the buckets of leaves as the store of a Remote leaf does.
type outside struct{ tats map[string][2]Ticks }

func (o *outside) decide(now Time, p *Pending) Answer {
	rate, ceil, _ := p.Limits()
	tat, need := o.tats[p.Path()], Ticks{}
	buckets := [2]algo.Bucket{}
	s := p.leaf.ticks
	for i, l := range [...]Limit{rate, ceil} {
		buckets[i] = s.Bucket(l.Rate, l.Burst)
		need = s.Cost(p.Cost())
	}
	own, borrow := p.Ways()
	own = own && buckets[0].Has(tat[0], now, need)
	a := Answer{Reason: AtCeil}
	if buckets[1].Has(tat[1], now, need) {
		a.Reason = NothingToBorrow
		if own || borrow {
			a = Answer{Allowed: true, Borrowed: !own}
			tat[1] = buckets[1].Charge(tat[1], now, need)
			if own {
				tat[0] = buckets[0].Charge(tat[0], now, need)
			}
		}
	}
	o.tats[p.Path()] = tat
	for i, b := range buckets {
		if full, ok := b.Reaches(tat[i]); ok {
			a.Owed[i] = max(0, full.Sub(now))
		}
	}
	return a
}

func remote(s Spec) Spec {
	s = s.clone()
	s.Remote = len(s.Children) == 0
	for i := range s.Children {
		s.Children[i] = remote(s.Children[i])
	}
	return s
}

func leaves(s Spec, names []string) (all [][]string) {
	if len(s.Children) == 0 {
		return [][]string{names}
	}
	for _, c := range s.Children {
		all = append(all, leaves(c, append(names[:len(names):len(names)], c.Name))...)
	}
	return all
}

// A tree whose leaves are kept outside decides as one that has them itself, while the
// store answers at once: who passes, and who lends.
func TestAskDecidesAsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{})
		whole, err := New(spec)
		if err != nil {
			t.Skip(err)
		}
		halves, err := New(remote(spec))
		require.NoError(t, err)
		store := outside{map[string][2]Ticks{}}
		all := leaves(spec, nil)
		now := Time(0)
		for range rapid.IntRange(1, 150).Draw(t, "calls") {
			names := rapid.SampledFrom(all).Draw(t, "leaf")
			cost := rapid.SampledFrom([]int64{1, 1, 1, 2, 5, 20}).Draw(t, "cost")
			now += Time(rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond, time.Millisecond, 50 * time.Millisecond, 3 * time.Second}).Draw(t, "pause"))
			want, err := whole.Allow(now, cost, names...)
			p, got, err2 := halves.Ask(now, cost, names...)
			require.Equal(t, err == nil, err2 == nil)
			if p != nil {
				got = p.Answer(now, store.decide(now, p))
			}
			require.Equal(t, want.Allowed, got.Allowed, "%v of %d: %+v, %+v", names, cost, want, got)
			if want.Allowed {
				require.Equal(t, want.Up, got.Up)
			}
		}
		require.Equal(t, whole.Stats(now), halves.Stats(now))
	})
}

// What a Pending holds is given back, and counted as nothing, if it is cancelled.
func TestACancelledPendingLeavesNoTrace(t *testing.T) {
	spec := Spec{Rate: algo.PerSecond(10), Burst: 30, Children: []Spec{{Name: "a", Rate: algo.PerSecond(5), Burst: 10, Ceil: algo.PerSecond(10), Remote: true}}}
	tree, err := New(spec)
	require.NoError(t, err)
	var all []*Pending
	for range 10 { // all that the leaf may ever hold
		p, d, err := tree.Ask(0, 1, "a")
		require.NoError(t, err)
		require.NotNil(t, p, "%v", d)
		all = append(all, p)
	}
	for _, p := range all {
		p.Cancel(0)
		p.Pass(0) // the second word counts for nothing
	}
	require.Zero(t, tree.Stats(0)[0].Wants)
	d, err := tree.Allow(0, 10, "a")
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// Alone, each of n gateways has an n-th of the leaf.
func TestAloneIsAnEqualPart(t *testing.T) {
	spec := Spec{Rate: algo.PerSecond(1000), Children: []Spec{{Name: "a", Rate: algo.PerSecond(100), Burst: 40, Remote: true}}}
	tree, err := New(spec)
	require.NoError(t, err)
	admitted := 0
	for ms := range 10_000 {
		now := Time(ms) * Time(time.Millisecond)
		p, d, err := tree.Ask(now, 1, "a")
		require.NoError(t, err)
		if p != nil {
			d = p.Alone(now, 4)
		}
		require.True(t, d.Outage)
		if d.Allowed {
			admitted++
		} else {
			require.Positive(t, d.RetryAfter)
		}
	}
	require.InDelta(t, 40/4+100/4*10, admitted, 1)
}
