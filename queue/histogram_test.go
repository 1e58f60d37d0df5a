package queue

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogramQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var h, half Histogram
	require.Zero(t, h.Quantile(0.5))
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Duration(1)<<(i%40)))
		all = append(all, d)
		if i%2 == 0 {
			h.Add(d)
		} else {
			half.Add(d)
		}
	}
	h.Merge(&half)
	slices.Sort(all)
	require.Equal(t, int64(len(all)), h.N())
	require.Equal(t, all[len(all)-1], h.Max())
	for _, q := range []float64{0, 0.01, 0.25, 0.5, 0.9, 0.99, 1} {
		want := all[min(len(all)-1, int(q*float64(len(all))))]
		require.InDelta(t, float64(want), float64(h.Quantile(q)), float64(want)*0.033+1, "%v", q)
	}
}

// A Tally says what a Histogram says.
func TestTally(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all, sum Histogram
	var tally Tally
	for i := range 1000 {
		sum = Histogram{}
		tally.AddTo(&sum)
		require.Equal(t, all, sum, "after %d", i)
		d := time.Duration(r.ExpFloat64() * float64(time.Duration(1)<<(i%50)))
		if i%7 == 0 {
			d = -d
		}
		all.Add(d)
		tally.Add(d)
	}
	all.Add(math.MaxInt64)
	tally.Add(math.MaxInt64)
	sum = Histogram{}
	tally.AddTo(&sum)
	require.Equal(t, all, sum)
}
