package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/go-sluice/sluice/algo"
)

// fitter works out the limits of a plan.
type fitter struct {
	*Plan
	ctx       context.Context
	progress  func(float64) // nil for none
	done, all int64         // requests, once for every search
	decided   int
}

// searches is how many limits are looked for.
func (f *fitter) searches(c *Class) int64 {
	n := int64(len(Shares) + 1)
	if c.Template() {
		n++
	}
	return n
}

func (f *fitter) fit(c *Class) error {
	for _, s := range Shares {
		fit, err := f.search(c.groups, c.Largest, s)
		if err != nil {
			return err
		}
		c.Fits = append(c.Fits, fit)
	}
	grown := make([][]request, len(c.groups))
	for i, g := range c.groups {
		grown[i] = slices.Clone(g)
		for j := range g {
			grown[i][j].at = algo.Time(float64(g[j].at) / f.Growth)
		}
	}
	var err error
	if c.Planned, err = f.search(grown, c.Largest, f.Refuse); err != nil {
		return err
	}
	refused, err := f.refuses(c.groups, c.Planned.Limit, math.MaxInt)
	if err != nil {
		return err
	}
	c.Recorded = float64(refused) / float64(c.Requests)
	if c.Template() {
		// Twice what all of them need as one: the sum of what children are let through
		// should not be what refuses them.
		all := slices.Concat(grown...)
		slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.at, b.at) })
		one, err := f.search([][]request{all}, c.Largest, 0)
		if err != nil {
			return err
		}
		c.Crowded = one.Over()
		c.Together = f.limit(max(2*one.Limit.Rate.PerSecond(), c.Planned.Limit.Rate.PerSecond()), c.Largest)
	}
	c.groups = nil
	return nil
}

// perFactor is how many rates are tried between one and ten times as much: steps of half
// a percent, finer than the three digits that they are rounded to.
const perFactor = 460

// search finds a limit that refuses no more than a share, or else the fastest there is.
func (f *fitter) search(groups [][]request, largest int64, share float64) (Fit, error) {
	total := 0
	for _, g := range groups {
		total += len(g)
	}
	most := int(share * float64(total))
	low, high := -6*perFactor, 12*perFactor // 1e-6/s is enough, 1e12/s the fastest
	for low < high {
		mid := low + (high-low)/2
		refused, err := f.refuses(groups, f.limit(math.Pow(10, float64(mid)/perFactor), largest), most)
		switch {
		case err != nil:
			return Fit{}, err
		case refused <= most:
			high = mid
		default:
			low = mid + 1
		}
	}
	l := f.limit(math.Pow(10, float64(high)/perFactor), largest)
	refused, err := f.refuses(groups, l, math.MaxInt)
	if f.done += int64(total); f.progress != nil {
		f.progress(float64(f.done) / float64(f.all))
	}
	return Fit{Asked: share, Limit: l, Refused: float64(refused) / float64(total)}, err
}

// refuses counts the requests that a limiter for each group refuses, as far as one more
// than most.
func (f *fitter) refuses(groups [][]request, l algo.Limit, most int) (n int, err error) {
	scale, err := algo.NewScale(l.Rate)
	if err != nil {
		return 0, fmt.Errorf("plan: %w", err)
	}
	bucket := scale.Bucket(l.Rate, l.Burst)
	for _, g := range groups {
		var tat algo.Ticks
		for _, q := range g {
			if f.decided++; f.decided%4096 == 0 && f.ctx.Err() != nil {
				return 0, f.ctx.Err()
			}
			if cost := scale.Cost(q.cost); bucket.Has(tat, q.at, cost) {
				tat = bucket.Charge(tat, q.at, cost)
			} else if n++; n > most {
				return n, nil
			}
		}
	}
	return n, nil
}

// over says what c's limits refuse that they should not, "" if there is nothing.
func (c *Class) over() string {
	switch {
	case c.Planned.Over():
		return fmt.Sprintf("%q is refused %s even at %v with a burst of %d", c.Name(), Percent(c.Planned.Refused), c.Planned.Limit.Rate, c.Planned.Limit.Burst)
	case c.Crowded:
		return fmt.Sprintf("the children of %q together are refused some even at %v with a burst of %d", c.Name(), c.Together.Rate, c.Together.Burst)
	}
	return ""
}

// note says for which classes no rate is enough.
func (p *Plan) note() {
	const most = 3
	n := 0
	for i := range p.Classes {
		over := p.Classes[i].over()
		if over == "" {
			continue
		}
		if n++; n <= most {
			p.Notes = append(p.Notes, fmt.Sprintf("no rate refuses as little as was asked: %s; a longer --saved gives larger bursts", over))
		}
	}
	if n > most {
		p.Notes = append(p.Notes, fmt.Sprintf("nor is any rate enough for %d more classes", n-most))
	}
}
