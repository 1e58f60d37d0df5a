package plan

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/config"
)

func options() Options {
	return Options{Refuse: 0.01, Growth: 1, Saved: time.Second, Few: 10}
}

// poisson records n requests at random, so many per second, of costs up to most.
func poisson(r *Recorder, n int, perSecond float64, most int64, class ...string) time.Duration {
	draw := rand.New(rand.NewPCG(uint64(n), uint64(most)))
	at := 0.0
	for range n {
		at += draw.ExpFloat64() / perSecond
		r.Add(time.Duration(at*1e9), class, 1+draw.Int64N(most))
	}
	return time.Duration(at * 1e9)
}

// What is said to be refused is, and half a percent less would refuse more than asked, but
// for the three digits that rates are rounded to.
func TestFitsAreTight(t *testing.T) {
	r := NewRecorder()
	length := poisson(r, 20_000, 50, 20, "a")
	groups := [][]request{r.order[0].requests}
	p, err := r.Make(t.Context(), options(), length, nil)
	require.NoError(t, err)
	require.Len(t, p.Classes, 1)
	last := math.Inf(1)
	for i, f := range p.Classes[0].Fits {
		require.Equal(t, Shares[i], f.Asked)
		require.LessOrEqual(t, f.Refused, f.Asked)
		require.Equal(t, f.Refused, float64(refuses(t, groups, f.Limit))/20_000)
		less := p.limit(f.Limit.Rate.PerSecond()*0.98, 20)
		require.Greater(t, float64(refuses(t, groups, less))/20_000, f.Asked, "%v", f)
		require.Less(t, f.Limit.Rate.PerSecond(), last, "the more is refused, the slower")
		last = f.Limit.Rate.PerSecond()
	}
	// On traffic that stays the same the second half is refused what was asked.
	again := NewRecorder()
	poisson(again, 20_001, 50, 20, "a")
	share := float64(refuses(t, [][]request{again.order[0].requests}, p.Classes[0].Planned.Limit)) / 20_001
	t.Logf("steady traffic: 1 %% asked, %.2f %% refused on other arrivals", 100*share)
	require.InDelta(t, 0.01, share, 0.005)
}

// Growth plans for arrivals that come faster.
func TestGrowth(t *testing.T) {
	plan := func(growth float64) Class {
		r := NewRecorder()
		o := options()
		o.Growth = growth
		p, err := r.Make(t.Context(), o, poisson(r, 5000, 50, 1, "a"), nil)
		require.NoError(t, err)
		return p.Classes[0]
	}
	one, two := plan(1), plan(2)
	require.Equal(t, one.Fits, two.Fits, "of what was recorded")
	require.Equal(t, one.Planned.Refused, one.Recorded)
	require.Less(t, two.Recorded, two.Planned.Refused)
	require.InEpsilon(t, 2, two.Planned.Limit.Rate.PerSecond()/one.Planned.Limit.Rate.PerSecond(), 0.2)
}

func TestSmallClassesShareATemplate(t *testing.T) {
	r := NewRecorder()
	poisson(r, 100, 10, 1, "big")
	poisson(r, 5, 10, 1, "tiny")
	poisson(r, 6, 10, 1, "small")
	poisson(r, 100, 10, 1, "team", "big")
	length := poisson(r, 5, 10, 3, "team", "lonely")
	p, err := r.Make(t.Context(), options(), length, nil)
	require.NoError(t, err)
	var got []string
	for _, c := range p.Classes {
		got = append(got, c.Name())
	}
	require.Equal(t, []string{"big", "*", "team/big", "team/lonely"}, got)
	require.Equal(t, []int64{2, 11}, []int64{int64(p.Classes[1].Names), p.Classes[1].Requests})
	var tree strings.Builder
	require.NoError(t, p.Tree(&tree, "x\ny: z", "requests"))
	require.Contains(t, tree.String(), `for x\ny: z: 216 requests`)
	require.Contains(t, tree.String(), "a guess, plan again with more traffic")
}

func TestRound(t *testing.T) {
	for perSecond, want := range map[float64]string{
		123456: "124000/s", 100: "100/s", 99.91: "100/s", 1.5: "90/m", 1e-9: "1/d", 1e13: "1000000000000/s",
	} {
		require.Equal(t, want, round(perSecond).String(), "%v", perSecond)
	}
	for x := 1e-4; x < 1e11; x *= 1.37 {
		got := round(x).PerSecond()
		require.GreaterOrEqual(t, got, x*(1-1e-8))
		require.LessOrEqual(t, got, max(x*1.02, x+1.01/86400), "%v", x)
	}
}

func TestNothingToPlanFor(t *testing.T) {
	_, err := NewRecorder().Make(t.Context(), options(), 0, nil)
	require.ErrorContains(t, err, "no requests")
	r := NewRecorder()
	r.Add(0, []string{"a"}, math.MaxInt64)
	p, err := r.Make(t.Context(), options(), 0, nil)
	require.NoError(t, err, "one request of no length")
	require.Equal(t, int64(math.MaxInt64), p.Classes[0].Planned.Limit.Burst)
	require.NotEqual(t, algo.Rate{}, p.Classes[0].Planned.Limit.Rate)
}

// What no tree can hold is an error, not a tree that is wrong.
func TestTooFastForATree(t *testing.T) {
	r := NewRecorder()
	for _, class := range []string{"a", "b"} {
		for range 3 {
			r.Add(0, []string{class}, math.MaxInt64/4)
		}
	}
	o := options()
	o.Few = 0
	p, err := r.Make(t.Context(), o, 0, nil)
	require.NoError(t, err)
	require.ErrorContains(t, p.Tree(io.Discard, "x", "units"), "no tree refuses as little as was asked: \"a\" is refused 66.7 %")
}

// Many classes with others above them, in any order.
func TestManyLevels(t *testing.T) {
	r := NewRecorder()
	for i := range 20_000 {
		r.Add(time.Duration(i)*time.Millisecond, []string{fmt.Sprint("t", i%200), fmt.Sprint("c", i%7), fmt.Sprint("d", i%3)}, 1)
	}
	p, err := r.Make(t.Context(), options(), 20*time.Second, nil)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, p.Tree(&b, "x", "requests"))
	f, err := config.Parse("x", []byte(b.String()))
	require.NoError(t, err)
	require.Len(t, f.Root.Children, 200)
}
