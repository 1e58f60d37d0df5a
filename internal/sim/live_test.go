package sim

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
)

// inMemory is a gateway that shares nothing.
type inMemory struct {
	tree  *htb.Tree
	begin time.Time
	takes time.Duration // a decision
	err   error
}

func (g *inMemory) Allow(_ context.Context, cost int64, names ...string) (htb.Decision, error) {
	if g.err != nil {
		return htb.Decision{}, g.err
	}
	d, err := g.tree.Allow(htb.Time(time.Since(g.begin)), cost, names...)
	time.Sleep(g.takes)
	return d, err
}

// inBubble runs n gateways in memory under a load, on time that is exact.
func inBubble(t *testing.T, f *config.File, l *config.LoadFile, n int, skew []float64, set func(*inMemory)) (out *result.Run, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var gateways []Gateway
		for range n {
			tree, err := htb.New(f.Root)
			require.NoError(t, err)
			g := &inMemory{tree: tree, begin: time.Now()}
			if set != nil {
				set(g)
			}
			gateways = append(gateways, g)
		}
		out, err = Live(t.Context(), f, l, gateways, skew, Options{Step: time.Second, Seed: 7, Top: 3})
	})
	return out, err
}

func liveFiles(t *testing.T, tree, load string) (*config.File, *config.LoadFile) {
	t.Helper()
	f, err := config.Parse("tree.yaml", []byte(tree))
	require.NoError(t, err)
	l, err := config.ParseLoad("load.yaml", []byte(load), f.Unit)
	require.NoError(t, err)
	return f, l
}

const (
	liveTree = `tree: t
redis: {addr: "localhost:1"}
global:
  rate: 100/s
  sync: 100ms
  children:
    a: {rate: 60/s, ceil: 100/s, burst: 10, sync: 200ms}
    b:
      rate: 30/s
      ceil: 50/s
      children:
        "*": {rate: 1/s, ceil: 10/s, burst: 5, store: redis}
    c: {rate: 10/s}
`
	liveLoad = `duration: 6500ms
flows:
  - {class: a, arrivals: poisson, rate: 120/s, cost: {min: 1, max: 3}}
  - {class: a, arrivals: burst, at: 2s, count: 3, cost: 20}
  - {class: c, from: 500ms, to: 4s, arrivals: backlogged}
  - {class: c, arrivals: onoff, on: 1s, off: 500ms, rate: 20/s}
  - {class: "b/*", clients: 20, zipf: 1, arrivals: poisson, rate: 80/s}
`
)

// One gateway on exact time does what the virtual run does, to the last number.
func TestLiveIsTheVirtualRun(t *testing.T) {
	f, l := liveFiles(t, liveTree, liveLoad)
	want, err := Load(t.Context(), f, l, Options{Step: time.Second, Seed: 7, Top: 3})
	require.NoError(t, err)
	got, err := inBubble(t, f, l, 1, nil, nil)
	require.NoError(t, err)
	require.NotNil(t, got.Gateways)
	all := got.Gateways.Sum()
	require.Equal(t, []int64{want.Rows[0].Wants, want.Rows[0].Gets}, []int64{all.Wants, all.Gets})
	got.Gateways = nil
	for i := range got.Rows {
		shared := got.Rows[i].Shared
		require.Equal(t, want.Rows[i].Shared != nil, shared != nil)
		if shared != nil {
			require.Zero(t, shared.Over, "a tree keeps to its own limits: %s", got.Rows[i].Path)
			require.Zero(t, shared.Beyond)
		}
		got.Rows[i].Shared, want.Rows[i].Shared = nil, nil
	}
	require.Equal(t, want, got)
}

// Parts are kept to, and a backlogged flow stays at one gateway unless they differ.
func TestLiveDeals(t *testing.T) {
	f, l := liveFiles(t, liveTree, `duration: 20s
flows:
  - {class: c, arrivals: backlogged}
  - {class: a, arrivals: constant, rate: 200/s}
`)
	for _, deal := range []struct{ skew, want []float64 }{{nil, []float64{1, 1, 1}}, {[]float64{6, 0, 2}, []float64{3, 0, 1}}} {
		got, err := inBubble(t, f, l, len(deal.want), deal.skew, nil)
		require.NoError(t, err)
		c := got.Rows[slices.IndexFunc(got.Rows, func(r result.Row) bool { return r.Path == "c" })]
		least := got.Gateways.Each[len(deal.want)-1].Wants
		if deal.skew == nil {
			require.InDelta(t, float64(10*20+10), float64(c.Gets), 3, "one gateway's part of c")
			least = got.Gateways.Each[1].Wants
		} else {
			require.Greater(t, c.Gets, int64(300), "of two gateways' parts of c")
		}
		for i, part := range deal.want {
			if deal.skew == nil && i == 0 { // has c
				continue
			}
			require.InDelta(t, part, float64(got.Gateways.Each[i].Wants)/float64(least), .5, i)
		}
	}
}

// Two gateways that share nothing admit twice the limit, and the run says so.
func TestLiveOver(t *testing.T) {
	f, l := liveFiles(t, liveTree, "duration: 5s\nflows:\n  - {class: a, arrivals: constant, rate: 1000/s}\n")
	got, err := inBubble(t, f, l, 2, nil, nil)
	require.NoError(t, err)
	a := got.Rows[1]
	require.Equal(t, "a", a.Path)
	require.InDelta(t, 10+5*100, a.Shared.Over, 3)
	require.InDelta(t, a.Shared.Over, a.Shared.Beyond, 3)
	require.Positive(t, got.Rows[0].Shared.Over)
	require.Equal(t, 10+2*100*.2, a.Shared.Bound)
	require.Zero(t, got.Rows[len(got.Rows)-2].Shared.Bound, "b/*, kept in Redis")
}

// A machine that is too slow is told of, and what it had no time for.
func TestLiveTooSlow(t *testing.T) {
	f, l := liveFiles(t, liveTree, "duration: 5s\nflows:\n  - {class: a, arrivals: constant, rate: 100/s}\n")
	got, err := inBubble(t, f, l, 1, nil, func(g *inMemory) { g.takes = 20 * time.Millisecond })
	require.NoError(t, err)
	require.Equal(t, 5., got.Seconds)
	require.InDelta(t, 6000/20, got.Rows[0].Wants, 2)
	require.InDelta(t, 500-6000/20, got.Gateways.Missed, 2)
	require.Len(t, got.Notes, 2)
	require.Regexp(t, `^this machine did not keep up: \d+ of \d+ requests were asked more than 20ms late, by up to 2.9`, got.Notes[0])
	require.Regexp(t, `^this machine did not keep up: \d+ requests were due and not asked`, got.Notes[1])

	// A store that is slow delays nobody else.
	f, l = liveFiles(t, liveTree, "duration: 5s\nflows:\n  - {class: b/x, arrivals: constant, rate: 100/s}\n  - {class: b/y, arrivals: backlogged}\n")
	got, err = inBubble(t, f, l, 1, nil, func(g *inMemory) { g.takes = 500 * time.Millisecond })
	require.NoError(t, err)
	require.Empty(t, got.Notes)
	require.Equal(t, int64(500), got.Rows[slices.IndexFunc(got.Rows, func(r result.Row) bool { return r.Path == "b/x" })].Wants)
}

func TestLiveErrors(t *testing.T) {
	f, l := liveFiles(t, liveTree, "duration: 5s\nflows:\n  - {class: b/x, arrivals: constant, rate: 100/s}\n")
	broken := errors.New("broken")
	_, err := inBubble(t, f, l, 1, nil, func(g *inMemory) { g.err = broken })
	require.EqualError(t, err, "load.yaml:3: broken")
	_, l = liveFiles(t, liveTree, "duration: 5s\nflows:\n  - {class: z, arrivals: constant, rate: 100/s}\n")
	_, err = inBubble(t, f, l, 1, nil, nil)
	require.ErrorContains(t, err, "name a leaf of the tree")
}

// Two numbers find the worst of all windows.
func TestExcess(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := &htb.Spec{Ceil: algo.PerSecond(10 + r.Int64N(90)), CBurst: 1 + r.Int64N(20), Remote: true}
		type admission struct{ at, units float64 }
		var all []admission
		var e excess
		worst, now := math.Inf(-1), 0.
		for range 60 {
			if r.IntN(4) > 0 { // some come together
				now += r.ExpFloat64() * .05
			}
			units := 1 + r.Int64N(5)
			all = append(all, admission{now, float64(units)})
			worst = max(worst, e.admit(s, now, units))
		}
		naive := math.Inf(-1)
		for i := range all {
			sum := 0.
			for j := i; j < len(all); j++ {
				sum += all[j].units
				naive = max(naive, sum-(all[j].at-all[i].at)*s.Ceil.PerSecond()-float64(s.CBurst))
			}
		}
		require.InDelta(t, naive, worst, 1e-9)
		require.False(t, e.settled(s, now))
		require.True(t, e.settled(s, now+100))
	}
}
