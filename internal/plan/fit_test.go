package plan

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// refuses counts with a token bucket for each group.
func refuses(t *testing.T, groups [][]request, l algo.Limit) (n int) {
	for _, g := range groups {
		b, err := algo.NewTokenBucket(l.Rate, l.Burst)
		require.NoError(t, err)
		for _, q := range g {
			v, err := b.Allow(q.at, q.cost)
			require.NoError(t, err)
			if !v.Allowed {
				n++
			}
		}
	}
	return n
}

// Where no rate refuses as little as was asked it is said, and there is no tree.
func TestNoRateIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		cost    int64
		saved   time.Duration
		refused float64
	}{
		"at one instant": {20, 1, 0, 0.9},
		"huge":           {100, 1e18, time.Second, 0.99},
	} {
		r := NewRecorder()
		for range c.n {
			r.Add(0, []string{"a"}, c.cost)
		}
		o := options()
		o.Saved = c.saved
		p, err := r.Make(t.Context(), o, time.Second, nil)
		require.NoError(t, err, name)
		require.True(t, p.Classes[0].Planned.Over(), name)
		require.Equal(t, c.refused, p.Classes[0].Planned.Refused, name)
		require.Len(t, p.Notes, 1, name)
		require.Contains(t, p.Notes[0], `"a" is refused `+Percent(c.refused), name)
		require.ErrorContains(t, p.Tree(io.Discard, "x", "units"), `no tree refuses as little as was asked: "a" is refused`, name)
	}
}

// A template whose children come together, each alone.
func TestNoRateForAllTogether(t *testing.T) {
	r := NewRecorder()
	for i := range 40 {
		r.Add(0, []string{fmt.Sprint("c", i)}, 1)
	}
	o := options()
	o.Saved = 0
	p, err := r.Make(t.Context(), o, 0, nil)
	require.NoError(t, err)
	require.False(t, p.Classes[0].Planned.Over())
	require.Contains(t, p.Notes[0], `the children of "*" together are refused some`)
	require.Error(t, p.Tree(io.Discard, "x", "units"))
}

// Many names that share a template take no time for each pair of them; an interrupt is
// heard, and progress only rises.
func TestManyNamesAndInterrupt(t *testing.T) {
	const names = 200_000
	r := NewRecorder()
	for i := range names {
		r.Add(time.Duration(i)*time.Millisecond, []string{fmt.Sprint("c", i)}, 1)
	}
	begin, last := time.Now(), 0.0
	_, err := r.Make(t.Context(), options(), names*time.Millisecond, func(done float64) {
		require.GreaterOrEqual(t, done, last)
		last = done
	})
	require.NoError(t, err)
	require.Equal(t, 1.0, last)
	require.Less(t, time.Since(begin), 20*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Make(ctx, options(), time.Second, nil)
	require.ErrorIs(t, err, context.Canceled)
}
