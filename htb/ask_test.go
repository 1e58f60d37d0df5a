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

// Requests that wait for the store count as used: however many there are, no more pass than
// there are tokens, also where other gateways share the class above.
func TestWhatIsHeldIsUsed(t *testing.T) {
	tree, err := New(Spec{Rate: algo.PerSecond(10), Burst: 50, Sync: 50 * time.Millisecond, Children: []Spec{
		{Name: "*", Rate: algo.PerSecond(10), Burst: 40, Remote: true},
	}})
	require.NoError(t, err)
	store := common{}
	var waiting []*Pending
	for i := range 1000 {
		p, d, err := tree.Ask(0, 1, string(rune('a'+i%20)))
		require.NoError(t, err)
		if p == nil {
			require.Equal(t, AtCeil, d.Reason)
			continue
		}
		waiting = append(waiting, p)
		reports := tree.Reports(0, nil)
		for i, s := range store.tell(0, 0, reports) {
			tree.Reconcile(0, reports[i], s)
		}
	}
	require.Len(t, waiting, 50)
	for i, p := range waiting {
		d := p.Answer(0, Answer{Allowed: i%2 == 0, Reason: AtCeil})
		require.Equal(t, i%2 == 0, d.Allowed)
	}
	require.EqualValues(t, 25, tree.Stats(0)[0].Gets)
	require.Equal(t, [2]int64{}, tree.root.twin.held)
}

// A replacement of the tree while the store answers takes nothing down, and everything is
// counted.
func TestAPendingOutlivesItsLeaf(t *testing.T) {
	leaf := func(name string, prio int) Spec {
		return Spec{Name: name, Rate: algo.PerSecond(10), Burst: 1, Ceil: algo.PerSecond(1000), CBurst: 100, Prio: prio, Remote: true}
	}
	parent := func(children ...Spec) Spec { return Spec{Rate: algo.PerSecond(1000), Children: children} }
	before := parent(leaf("a", 0), leaf("b", 1))
	inner := leaf("a", 0)
	inner.Remote, inner.Children = false, []Spec{leaf("x", 0)}
	inner.Burst, inner.CBurst = 0, 0
	for name, after := range map[string]Spec{
		"gone": parent(leaf("b", 1)), "inner": parent(inner, leaf("b", 1)), "root": {Rate: algo.PerSecond(1000)}, "limits": parent(leaf("a", 1), leaf("b", 0)),
	} {
		for how, end := range map[string]func(*Pending) Decision{
			"own":      func(p *Pending) Decision { return p.Answer(0, Answer{Allowed: true}) },
			"borrowed": func(p *Pending) Decision { return p.Answer(0, Answer{Allowed: true, Borrowed: true}) },
			"refused":  func(p *Pending) Decision { return p.Answer(0, Answer{Reason: NothingToBorrow}) },
			"alone":    func(p *Pending) Decision { return p.Alone(0, 2) },
			"pass":     func(p *Pending) Decision { return p.Pass(0) },
			"refuse":   func(p *Pending) Decision { return p.Refuse(0, time.Second) },
			"cancel":   func(p *Pending) Decision { p.Cancel(0); return Decision{} },
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				tree, err := New(before)
				require.NoError(t, err)
				p, _, err := tree.Ask(0, 1, "a")
				require.NoError(t, err)
				rate, _, _ := p.Limits()
				require.NoError(t, tree.Replace(0, after))
				p.Attach("for the old limits")
				if name != "gone" && name != "root" {
					require.Nil(t, p.Attached())
				}
				require.Equal(t, before.Children[0].Rate, rate.Rate)
				d := end(p)
				_, _, _ = d.Remaining(), d.Reset(), d.Lender()
				rows := tree.Stats(0)
				require.Equal(t, rows[0].Gets+rows[0].Rejected, rows[0].Wants)
				want := int64(1)
				if how == "cancel" {
					want = 0
				}
				require.Equal(t, want, rows[0].Wants)
				below := int64(0)
				for _, r := range rows[1:] {
					if r.Depth == 1 {
						below += r.Wants
					}
				}
				if len(after.Children) > 0 {
					require.Equal(t, want, below)
				}
			})
		}
	}
}

// What a hold gives back is as much as was taken, also of a gateway's part in an outage.
func TestHoldsAlone(t *testing.T) {
	for _, gateways := range []int{1, 4} {
		tree, err := New(Spec{Rate: algo.PerSecond(100_000), Children: []Spec{{Name: "a", Rate: algo.PerSecond(1000), Burst: 4000, Remote: true}}})
		require.NoError(t, err)
		used := int64(0)
		for ms := range 60_000 {
			now := Time(ms) * Time(time.Millisecond)
			p, _, _, err := tree.AskHold(now, 500, "a")
			require.NoError(t, err)
			if p.Alone(now, gateways).Allowed {
				require.NoError(t, p.Hold().Settle(now, 50))
				used += 50
			}
		}
		require.InDelta(t, 60*1000/gateways+4000/gateways, used, 600)
	}
}
