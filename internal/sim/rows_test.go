package sim

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows that begin at any step, and merge in any order, add up.
func TestSeriesAddUp(t *testing.T) {
	const steps = 10 * perBlock
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var sum row
		want := make([]point, steps)
		for range 5 {
			var r row
			for step := rnd.IntN(steps); step < steps; step += 1 + rnd.IntN(3*perBlock) {
				x := point{rnd.Int64N(10), rnd.Int64N(10), float64(rnd.IntN(10))}
				*r.at(step) = x
				want[step].wants += x.wants
				want[step].gets += x.gets
				want[step].fair += x.fair
			}
			sum.merge(&r)
		}
		got := make([]point, steps)
		sum.series.each(func(step int, p *point) { got[step] = *p })
		require.Equal(t, want, got)
	}
}

// Every class watched has a series, so what each takes is to be little more than its
// entries, while it grows as well.
func TestSeriesTakeLittle(t *testing.T) {
	const rows, steps, entry = 100, 1000, 24
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rows {
		var r row
		for step := range steps {
			r.at(step).wants++
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(rows*steps*entry*11/10))
}
