package plot

import (
	"math"

	"github.com/go-sluice/sluice/internal/result"
)

// timeline cuts a run into at most so many points, each the mean of a whole
// number of steps: more could not be told apart, and would only fatten the file.
// A mean keeps areas true, at the price of peaks shorter than a point.
type timeline struct {
	edges []float64 // seconds, ascending, one more than points; empty without time
	per   int       // steps in one point; the last may have fewer
}

func newTimeline(run *result.Run, points int) timeline {
	n := 0
	for i := range run.Rows {
		s := &run.Rows[i].Series
		n = max(n, len(s.Wants), len(s.Gets), len(s.Fair))
	}
	step := run.Step
	if !(step > 0) && n > 0 {
		step = run.Seconds / float64(n)
	}
	if n == 0 || !(step > 0) || math.IsInf(step*float64(n), 1) {
		return timeline{}
	}
	end := float64(n) * step
	if last := float64(n-1) * step; run.Seconds > last && run.Seconds < end {
		end = run.Seconds // the last step was cut short
	}
	t := timeline{per: (n + points - 1) / points}
	for i := 0; i < n; i += t.per {
		t.edges = append(t.edges, float64(i)*step)
	}
	t.edges = append(t.edges, end)
	return t
}

func (t timeline) end() float64 { return t.edges[len(t.edges)-1] }

// perSecond turns a series of units per step into units per second per point;
// steps that the series lacks count as zero.
func perSecond[V int64 | float64](t timeline, series []V) []float64 {
	out := make([]float64, len(t.edges)-1)
	for i := range out {
		from := min(i*t.per, len(series))
		var sum float64
		for _, v := range series[from:min(from+t.per, len(series))] {
			sum += finite(float64(v))
		}
		out[i] = finite(sum / (t.edges[i+1] - t.edges[i]))
	}
	return out
}

// finite makes anything that cannot be drawn a zero.
func finite(v float64) float64 {
	if v > 0 && !math.IsInf(v, 1) {
		return v
	}
	return 0
}

func top(values []float64) float64 {
	var most float64
	for _, v := range values {
		most = max(most, v)
	}
	return most
}
