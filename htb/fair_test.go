package htb

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// A clock keeps a few numbers of all its past; the reference looks the same up in a
// list of all loans.
func TestClockForgetsInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		const w = window(10)
		parent := &class{plan: &plan{sharing: sharing{window: w}}, in: &inner{clocks: make([]clock, 1)}}
		k, model := &parent.in.clocks[0], &refShare{window: uint64(w), loans: make([][]refLoan, 1)}
		marks := make([]uint64, 3)
		of := func(n *big.Int) Ticks { return ticks(n.Uint64()) }
		now := Time(0)
		for range 60 {
			now += Time(r.IntN([]int{1, 12, 30, 400, 1500}[r.IntN(5)]))
			at := w.at(now)
			_, begin, least := model.clockAt(0, now)
			require.Equal(t, of(least), k.least(at), "least at %d", now)
			require.Equal(t, of(model.forgotten(0, now)), k.forgotten(at), "forgotten at %d", now)
			require.Equal(t, of(new(big.Int).Sub(begin, least)), k.pace(at), "pace at %d", now)

			i, lead := r.IntN(len(marks)), uint64(r.IntN(3))
			clock, _, least := model.clockAt(0, now)
			_, top := model.before(0, math.MaxInt64)
			from := most(new(big.Int).SetUint64(marks[i]), least)
			step := 1 + uint64(r.IntN(5))
			parent.lead = ticks(lead)
			x := &class{plan: &plan{sharing: sharing{step: step}}, parent: parent, mark: ticks(marks[i])}
			x.advance(now, 1)
			marks[i] = from.Uint64() + step
			require.Equal(t, ticks(marks[i]), x.mark)
			served := most(clock, new(big.Int).Sub(from, new(big.Int).SetUint64(lead)))
			model.loans[0] = append(model.loans[0], refLoan{now, served, most(top, new(big.Int).SetUint64(marks[i]))})
			for _, m := range marks { // when it is forgotten is told to the nanosecond
				if m := ticks(m); k.least(at).Less(m) {
					passes := k.passes(w, m)
					require.Less(t, now, passes)
					require.True(t, k.least(w.at(passes-1)).Less(m))
					require.False(t, k.least(w.at(passes)).Less(m))
				}
			}
		}
	})
}

func ticks(n uint64) Ticks { return algo.Times(n, 1) }

// wide is a root of 1000/s over n leaves that are guaranteed next to nothing, and may
// borrow all there is.
func wide(n int) Spec {
	root := perSecond("", 1000, 0)
	for i := range n {
		c := perSecond(fmt.Sprint("c", i), 1, 1000)
		c.Rate, c.Burst, c.CBurst = rate(1, time.Hour), 1, 100
		root.Children = append(root.Children, c)
	}
	return root
}

// A decision costs the same whatever the number of children: nine of ten requests are a
// loud one's, the tenth that of one of ten modest ones or of any there is. What the
// latter costs more is memory that the processor has not at hand.
func BenchmarkBorrow(b *testing.B) {
	for _, n := range []int{11, 1000, 100_000} {
		tree := mustTree(b, Spec{Rate: algo.PerSecond(1000), Children: []Spec{
			{Name: Template, Rate: rate(1, time.Hour), Burst: 1, Ceil: algo.PerSecond(1000), CBurst: 100, Idle: math.MaxInt64},
		}})
		leaves := make([]*Leaf, n)
		now := Time(0)
		for i := range leaves {
			leaves[i], _ = tree.Leaf(fmt.Sprint("client-", i))
			leaves[i].Allow(now, 1)
		}
		for _, asking := range []int{11, n} {
			b.Run(fmt.Sprintf("children=%d/asking=%d", n, asking), func(b *testing.B) {
				b.ReportAllocs()
				r := rand.New(rand.NewPCG(1, 2))
				passed := 0
				for i := 0; b.Loop(); i++ {
					now += Time(100 * time.Microsecond) // ten times what there is
					leaf := leaves[0]
					if i%10 == 0 {
						leaf = leaves[1+r.IntN(asking-1)]
					}
					if d, _ := leaf.Allow(now, 1); d.Allowed {
						passed++
					}
				}
				b.ReportMetric(100*float64(passed)/float64(b.N), "%passed")
			})
		}
	}
}

// The law of docs/fair-borrowing.md: the marks of children that keep asking lie between
// the clock of two windows ago and what one request and the leeway take them over it.
func TestBorrowersStayTogether(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 3))
		const n, over, largest = 5, 100, 10
		root := wide(n)
		root.Rate, root.Burst, root.CBurst = algo.PerSecond(400), over+n, over+n // the window is 0.25 s
		least, sum := 10., 0.
		for i := range root.Children {
			c := &root.Children[i]
			c.Quantum = 1 + r.Int64N(4)
			least, sum = min(least, c.Weight()), sum+c.Weight()
		}
		tree := mustTree(t, root)
		spread := 2 * (largest/least + over/leeway + 0.5*400/sum)
		borrowed := make([]float64, n)
		now := Time(0)
		for now < 16*second {
			if now < second/2 { // until what was saved up is spent
				clear(borrowed)
			}
			now = now.Add(time.Duration(r.Int64N(400_000)))
			i := 0 // asks most often by far
			if r.IntN(10) == 0 {
				i = r.IntN(n)
			}
			cost := 1 + r.Int64N(largest)
			d, err := tree.Allow(now, cost, fmt.Sprint("c", i))
			require.NoError(t, err)
			if d.Allowed && d.Up > 0 {
				borrowed[i] += float64(cost) / root.Children[i].Weight()
			}
			if d := slices.Max(borrowed) - slices.Min(borrowed); d > spread {
				require.Failf(t, "apart", "by %.1f, more than %.1f, at %v: %v", d, spread, now, borrowed)
			}
		}
		require.Greater(t, slices.Min(borrowed), 3*spread, "it could have been more")
	}
}

// loudBeside drives a tree for a minute: loud asks a hundred times per token, others
// come back when they are told to, with costs of their own. It returns what each got.
func loudBeside(t *testing.T, tree *Tree, loud string, others map[string]int64) map[string]int64 {
	token := tree.root.spec.Rate.Takes(1)
	got, next := map[string]int64{}, map[string]Time{}
	for now := Time(0); now < Time(0).Add(1000*token); now = now.Add(token / 100) {
		for name, cost := range others {
			if now < next[name] {
				continue
			}
			d, err := tree.Allow(now, cost, name)
			require.NoError(t, err)
			if next[name] = now.Add(d.RetryAfter); d.Allowed {
				got[name] += cost
			}
		}
		d, err := tree.Allow(now, 1, loud)
		require.NoError(t, err)
		if d.Allowed {
			got[loud]++
		}
	}
	return got
}

// Where a class has one token to lend at a time nothing can be kept for others, but who
// comes back when told finds it.
func TestOneTokenAtATime(t *testing.T) {
	root := wide(2)
	for _, r := range []algo.Rate{rate(100, time.Hour), algo.PerSecond(1), algo.PerSecond(10)} {
		root.Rate, root.Ceil, root.Burst = r, r, 0
		for i := range root.Children {
			root.Children[i].Rate, root.Children[i].Ceil, root.Children[i].CBurst = rate(1, 1000*time.Hour), r, 1
		}
		got := loudBeside(t, mustTree(t, root), "c0", map[string]int64{"c1": 1})
		require.InDelta(t, got["c0"], got["c1"], 10, "%v: %v", r, got)
	}
}

// Large requests that come back when told get their share beside small ones.
func TestLargeRequestsPass(t *testing.T) {
	for _, cost := range []int64{20, 50, 90} {
		root := wide(2)
		root.Burst, root.CBurst = 102, 102
		got := loudBeside(t, mustTree(t, root), "c0", map[string]int64{"c1": cost})
		require.InDelta(t, got["c0"], got["c1"], 110, "cost %d: %v", cost, got)
	}
}

// Who asks for much and never comes back keeps little from the others.
func TestClaimsAreNotForNothing(t *testing.T) {
	root := wide(2)
	root.Burst, root.CBurst = 102, 102
	for _, attack := range []bool{false, true} {
		tree := mustTree(t, root)
		r := rand.New(rand.NewPCG(1, 1))
		got, next := int64(0), Time(0)
		for now := Time(0); now < 60*second; now = now.Add(time.Duration(r.ExpFloat64() * 1e9 / 90)) {
			d, err := tree.Allow(now, 10, "c0")
			require.NoError(t, err)
			if d.Allowed {
				got += 10
			}
			if attack && now > next {
				next = now.Add(850 * time.Millisecond)
				d, err := tree.Allow(now, 0, "c1")
				require.NoError(t, err)
				if d.Remaining() < 100 { // only when it will be refused
					_, err := tree.Allow(now, 100, "c1")
					require.NoError(t, err)
				}
			}
		}
		t.Logf("attack %v: %d/s of 900", attack, got/60)
		require.GreaterOrEqual(t, got/60, int64(820))
	}
}

// A class that is guaranteed little and may borrow much shares at the pace of what it
// borrows, and forgets as fast.
func TestSmallGuaranteesForgetFast(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0, Spec{Name: "t", Rate: rate(1, time.Minute), Ceil: algo.PerSecond(1000),
		Children: []Spec{{Name: Template, Rate: rate(1, time.Minute), Burst: 10, Ceil: algo.PerSecond(1000)}}}))
	now := Time(0)
	for i := range 60_000 {
		now = now.Add(10 * time.Millisecond)
		_, err := tree.Allow(now, 1, "t", fmt.Sprint("name-", i))
		require.NoError(t, err)
	}
	require.Less(t, tree.Stats(now)[1].Live, 7000, "those of the last minute, in which a unit comes back")
}

// Asking with cost 0 only asks, also where it is refused.
func TestAQuestionIsNoClaim(t *testing.T) {
	root := wide(3)
	root.Burst, root.CBurst = 103, 103
	tree := mustTree(t, root)
	ask(t, tree, 0, 100, "c0")
	_, err := tree.Allow(0, 90, "c1")
	require.NoError(t, err)
	claimed := tree.root.in.claim
	require.Equal(t, "c1", claimed.by.name)
	h, _, err := tree.Hold(second/10, 1, "c0")
	require.NoError(t, err)
	if h == nil { // c0 has had its share
		h, _, err = tree.Hold(second/10, 1, "c2")
		require.NoError(t, err)
	}
	require.NoError(t, h.Settle(second/10, 3000))
	d, err := tree.Allow(second/10, 0, "c2")
	require.NoError(t, err)
	require.False(t, d.Allowed, "the root is in debt")
	require.Equal(t, claimed, tree.root.in.claim)
}
