package htb

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// A request that a record pays for leaves what one does that its class pays for, whatever
// the record says.
func TestARecordPaysAsItsClass(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	paid := 0
	for i := range 30_000 {
		template := perSecond(Template, 1+r.Int64N(10_000), 0)
		template.Burst = 1 + r.Int64N(1<<r.IntN(40))
		if i%2 > 0 {
			template.Ceil, template.CBurst = algo.PerSecond(1e12), template.Burst+r.Int64N(1<<30)
		}
		root := perSecond("", 1e12, 0, template)
		now := Time(r.Int64N(1 << 40))
		state := record{
			at: now - Time(r.Int64N(1<<r.IntN(60))), owed: [2]uint64{r.Uint64() >> r.IntN(64), r.Uint64() >> r.IntN(64)},
			lo: r.Uint64(), hi: r.Uint64() >> 8, // any counters
		}
		switch i % 8 {
		case 0:
			state.at = now + Time(r.Int64N(100)) // no record is so, now
		case 1, 2, 3:
			state.owed[1] = state.owed[0]
		}
		cost := 1 + r.Int64N(template.Burst)
		var trees [2]*Tree
		for j := range trees {
			tree := mustTree(t, root)
			_, err := tree.Allow(0, 0, "a")
			require.NoError(t, err)
			rec := tree.root.in.dyn.table.record(0)
			was := rec.name
			state.name, state.mark = was, rec.mark
			what := rec.what()
			*rec = state
			rec.setWhat(what)
			trees[j] = tree
		}
		quick, full := trees[0], trees[1]
		tab := quick.root.in.dyn.table
		quick.advance(now)
		x := tab.point(0, "a")
		ok := tab.record(0).own(x, now, x.ticks.Cost(cost), cost)
		if x.park(now); !ok {
			continue
		}
		paid++
		d, err := full.decideSlowly(now, cost)
		require.NoError(t, err)
		require.True(t, d.Allowed, "%d", i)
		require.Zero(t, d.Up)
		require.Equal(t, *full.root.in.dyn.table.record(0), *tab.record(0), "%d: %+v, %d", i, state, cost)
		require.Equal(t, full.root.in.reserveTAT, quick.root.in.reserveTAT)
		require.Equal(t, full.Stats(now), quick.Stats(now))
	}
	require.Greater(t, paid, 10_000)
}

// decideSlowly is Allow for the leaf in the root's first record, without a shortcut.
func (t *Tree) decideSlowly(now Time, cost int64) (d Decision, err error) {
	x := t.root.in.dyn.table.open(0, "a")
	err = t.weigh(&d, x, t.advance(now), cost)
	x.park(now)
	return d, err
}
