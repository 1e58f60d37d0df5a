// Package conformance holds what every flat limiter of this module promises, as tests:
// those in memory and the one in Redis pass the same. What they promise differently is
// a [Promise].
package conformance

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// Limiter decides on requests that share one limit, with the time as an argument.
type Limiter = algo.Limiter

// Maker makes a limiter, as new and of its own. One that counts in windows takes the
// burst as its limit, and as its window the time in which the rate brings that.
type Maker func(t testing.TB, rate algo.Rate, burst int64) Limiter

// Promise is what kinds of limiters promise differently.
type Promise struct {
	// Most returns how much any window of length w lets through at most, both its ends
	// included.
	Most func(rate algo.Rate, burst int64, w time.Duration) *big.Rat

	// Plain says that it decides as one bucket of that rate and burst, to the last unit.
	Plain bool
}

// Bucket is the promise of a token bucket: burst + rate*w.
var Bucket = Promise{Plain: true, Most: func(r algo.Rate, burst int64, w time.Duration) *big.Rat {
	most := new(big.Rat).Mul(r.Fraction(), new(big.Rat).SetInt64(int64(w)))
	return most.Add(most, new(big.Rat).SetInt64(burst))
}}

// RunPromise checks the limiters that make makes, with times in nanoseconds, against
// what they promise.
func RunPromise(t *testing.T, p Promise, make Maker) {
	s := suite{p, time.Nanosecond, make}
	s.run(t)
	t.Run("OlderTimes", func(t *testing.T) { s.olderTimes(t) })
}

const (
	second = algo.Time(time.Second)
	day    = 24 * time.Hour

	// far is 36 years: a law that waits its way ahead stops there, where every limiter
	// can still say the time.
	far = algo.Time(math.MaxInt64 / 8)
)

// Run checks the buckets that make makes, whose times are whole multiples of
// resolution: at most a microsecond, and one of which a microsecond is a multiple.
func Run(t *testing.T, resolution time.Duration, make Maker) {
	suite{Bucket, resolution, make}.run(t)
}

type suite struct {
	Promise
	unit time.Duration
	make Maker
}

func (s suite) run(t *testing.T) {
	for _, law := range []struct {
		name  string
		check func(testing.TB)
		skip  bool
	}{
		{"Steps", s.steps, !s.Plain},
		{"CostErrors", s.costErrors, false},
		{"ZeroCostAsks", s.zeroCostAsks, false},
		{"Burst", s.burst, false},
		{"LongRunRate", s.longRunRate, !s.Plain},
		{"NoWindowIsOver", s.noWindowIsOver, false},
		{"RefusalsChargeNobody", s.refusalsChargeNobody, false},
		{"RetryAfterIsHonest", s.retryAfterIsHonest, false},
		{"RemainingAndReset", s.remainingAndReset, false},
	} {
		if !law.skip {
			t.Run(law.name, func(t *testing.T) { law.check(t) })
		}
	}
}

// rates are slow, fast, and without a whole period.
func rates(t testing.TB) []algo.Rate {
	return []algo.Rate{
		rate(t, 1, 365*day), rate(t, 1, day), rate(t, 7, day), rate(t, 5, time.Minute), algo.PerSecond(3),
		algo.PerSecond(1500), algo.PerSecond(999_983), algo.PerSecond(1_000_000), algo.PerSecond(700_000_000), algo.PerSecond(1_000_000_000),
	}
}

func rate(t testing.TB, units int64, period time.Duration) algo.Rate {
	r, err := algo.NewRate(units, period)
	require.NoError(t, err)
	return r
}

func allow(t testing.TB, l Limiter, now algo.Time, cost int64) algo.Verdict {
	v, err := l.Allow(now, cost)
	require.NoError(t, err)
	return v
}

// steps: 5 per minute, T = 12 s, by hand.
func (s suite) steps(t testing.TB) {
	l := s.make(t, rate(t, 5, time.Minute), 5)
	for _, step := range []struct {
		at   algo.Time
		cost int64
		want algo.Verdict
	}{
		{0, 1, algo.Verdict{Allowed: true, Remaining: 4, Reset: 12 * time.Second}},
		{0, 1, algo.Verdict{Allowed: true, Remaining: 3, Reset: 24 * time.Second}},
		{0, 0, algo.Verdict{Allowed: true, Remaining: 3, Reset: 24 * time.Second}},
		{0, 3, algo.Verdict{Allowed: true, Remaining: 0, Reset: 60 * time.Second}},
		{0, 1, algo.Verdict{RetryAfter: 12 * time.Second, Reset: 60 * time.Second}},
		{12*second - algo.Time(s.unit), 1, algo.Verdict{RetryAfter: s.unit, Reset: 48*time.Second + s.unit}},
		{12 * second, 1, algo.Verdict{Allowed: true, Reset: 60 * time.Second}},
		{24 * second, 2, algo.Verdict{RetryAfter: 12 * time.Second, Remaining: 1, Reset: 48 * time.Second}},
		{36 * second, 2, algo.Verdict{Allowed: true, Reset: 60 * time.Second}},
		{500 * second, 5, algo.Verdict{Allowed: true, Reset: 60 * time.Second}}, // idle: a burst, no more
		{500 * second, 1, algo.Verdict{RetryAfter: 12 * time.Second, Reset: 60 * time.Second}},
	} {
		got := allow(t, l, step.at, step.cost)
		got.Delay = 0 // a queue's
		require.Equal(t, step.want, got, "at %v, cost %d", time.Duration(step.at), step.cost)
	}
}

// costErrors: a cost that can never pass is an error, and takes nothing.
func (s suite) costErrors(t testing.TB) {
	l := s.make(t, algo.PerSecond(1), 4)
	for _, cost := range []int64{-1, math.MinInt64, 5, math.MaxInt64} {
		_, err := l.Allow(0, cost)
		require.ErrorIs(t, err, algo.ErrCost, "cost %d", cost)
	}
	require.Equal(t, algo.Verdict{Allowed: true, Remaining: 4}, allow(t, l, 0, 0))
}

// zeroCostAsks: a cost of 0 passes whatever the state is, and changes nothing.
func (s suite) zeroCostAsks(t testing.TB) {
	l := s.make(t, algo.PerSecond(1), 2)
	var last algo.Verdict
	for left := int64(2); left >= 0; left-- {
		asked := allow(t, l, 0, 0)
		require.True(t, asked.Allowed)
		require.Equal(t, []any{left, last.Reset}, []any{asked.Remaining, asked.Reset})
		for range 3 {
			require.Equal(t, asked, allow(t, l, 0, 0))
		}
		if left > 0 {
			last = allow(t, l, 0, 1)
		}
	}
}

// burst: a full bucket lets exactly its burst through at once, and so again whenever
// it had the time to fill, but never more.
func (s suite) burst(t testing.TB) {
	for _, r := range rates(t) {
		const size = 10
		l := s.make(t, r, size)
		now := algo.Time(0)
		for range 3 {
			for i := range size + 2 {
				require.Equal(t, i < size, allow(t, l, now, 1).Allowed, "%v at %v: %d", r, now, i)
			}
			v := allow(t, l, now, 0)
			now = now.Add(v.Reset)
			require.Equal(t, algo.Verdict{Allowed: true, Remaining: size}, allow(t, l, now, 0), "%v", r)
			now = now.Add(v.Reset)
		}
	}
}

// longRunRate: asked all the time, burst + rate*time pass, to the last whole request,
// if the burst holds above the cost what one step of the clock brings.
func (s suite) longRunRate(t testing.TB) {
	for _, r := range rates(t) {
		for _, cost := range []int64{1, 7} {
			size := 2*cost + r.Over(s.unit)
			l := s.make(t, r, size)
			now, passed := algo.Time(0), int64(0)
			for range 400 {
				if v := allow(t, l, now, cost); v.Allowed {
					passed += cost
				} else if now = now.Add(v.RetryAfter); now > far {
					break
				}
			}
			left := new(big.Rat).Sub(Bucket.Most(r, size, time.Duration(now)), big.NewRat(passed, 1))
			require.GreaterOrEqual(t, left.Sign(), 0, "%v cost %d: too many", r, cost)
			require.LessOrEqual(t, left.Cmp(big.NewRat(cost+r.Over(s.unit), 1)), 0, "%v cost %d: %v short", r, cost, left)
		}
	}
}

// noWindowIsOver: what passes in any window, or leaves a queue in it, is at most what is
// promised.
func (s suite) noWindowIsOver(t testing.TB) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, r := range rates(t) {
		size := 1 + draw.Int64N(30)
		l := s.make(t, r, size)
		type pass struct {
			at   algo.Time
			cost int64
		}
		var passes []pass
		now := algo.Time(0)
		for range 150 {
			now = now.Add(step(draw, r, s.unit))
			cost := 1 + draw.Int64N(size)
			if v := allow(t, l, now, cost); v.Allowed {
				passes = append(passes, pass{now.Add(v.Delay), cost})
			}
		}
		require.NotEmpty(t, passes)
		for i, first := range passes {
			sum := int64(0)
			for _, p := range passes[i:] {
				sum += p.cost
				require.LessOrEqual(t, big.NewRat(sum, 1).Cmp(s.Most(r, size, p.at.Sub(first.at))), 0, "%v burst %d: %d from %v to %v", r, size, sum, first.at, p.at)
			}
		}
	}
}

// step draws how long until the next request: none, a step of the clock, or up to a
// few times what r needs for a unit.
func step(draw *rand.Rand, r algo.Rate, unit time.Duration) time.Duration {
	switch draw.IntN(4) {
	case 0:
		return 0
	case 1:
		return unit
	}
	most := min(max(int64(r.Takes(1)), int64(unit)), int64(365*day))
	return time.Duration(draw.Int64N(4*most)) / unit * unit
}

// refusalsChargeNobody: two limiters are asked the same, one of them also what it
// must refuse: they stay the same.
func (s suite) refusalsChargeNobody(t testing.TB) {
	draw := rand.New(rand.NewPCG(3, 4))
	for _, r := range rates(t) {
		const size = 6
		quiet, pestered := s.make(t, r, size), s.make(t, r, size)
		now := algo.Time(0)
		refusals := 0
		for range 60 {
			now = now.Add(step(draw, r, s.unit))
			if v := allow(t, pestered, now, 0); v.Remaining < size {
				require.False(t, allow(t, pestered, now, v.Remaining+1).Allowed)
				refusals++
			}
			cost := draw.Int64N(4)
			require.Equal(t, allow(t, quiet, now, cost), allow(t, pestered, now, cost), "%v at %v", r, now)
		}
		require.NotZero(t, refusals)
	}
}

// retryAfterIsHonest: a refused request passes when it was told, and not one step of
// the clock sooner.
func (s suite) retryAfterIsHonest(t testing.TB) {
	draw := rand.New(rand.NewPCG(5, 6))
	for _, r := range rates(t) {
		size := min(5000, int64(20*365*day/r.Takes(1))) // 20 years for the slowest
		l := s.make(t, r, size)
		now := algo.Time(0)
		for i := range 40 {
			name := fmt.Sprintf("%v, request %d", r, i)
			allow(t, l, now, allow(t, l, now, 0).Remaining)
			cost := 1 + draw.Int64N(size)
			v := allow(t, l, now, cost)
			if v.Allowed {
				continue // a fast rate and a coarse clock
			}
			require.Positive(t, v.RetryAfter, name)
			require.Zero(t, v.RetryAfter%s.unit, name)
			if now > far {
				break
			}
			sooner := allow(t, l, now.Add(v.RetryAfter-s.unit), cost)
			require.False(t, sooner.Allowed, name)
			require.Equal(t, s.unit, sooner.RetryAfter, name)
			now = now.Add(v.RetryAfter)
			require.True(t, allow(t, l, now, cost).Allowed, name)
		}
	}
}

// remainingAndReset: what is said to remain passes, one more does not; the bucket is
// full when it was told, and not one step of the clock sooner.
func (s suite) remainingAndReset(t testing.TB) {
	draw := rand.New(rand.NewPCG(7, 8))
	for _, r := range rates(t) {
		size := 8 + r.Over(s.unit)
		l := s.make(t, r, size)
		now := algo.Time(0)
		for range 40 {
			now = now.Add(step(draw, r, s.unit))
			v := allow(t, l, now, 1+draw.Int64N(3))
			require.LessOrEqual(t, v.Remaining, size)
			if v.Remaining < size {
				require.False(t, allow(t, l, now, v.Remaining+1).Allowed, "%v", r)
			}
			v = allow(t, l, now, v.Remaining)
			require.True(t, v.Allowed, "%v", r)
			require.Zero(t, v.Remaining, "%v", r)
			if now > far {
				break
			}
			// A unit is missing as long as a tick is, and a tick is less than a step.
			if sooner := allow(t, l, now.Add(v.Reset-s.unit), 0); sooner.Reset != s.unit || s.Plain && sooner.Remaining >= size {
				require.Failf(t, "full too soon", "%v: %+v", r, sooner)
			}
			now = now.Add(v.Reset)
			require.Equal(t, algo.Verdict{Allowed: true, Remaining: size}, allow(t, l, now, 0), "%v", r)
		}
	}
}

// olderTimes: a time older than the latest seen counts as the latest seen, at the ends
// of time, too.
func (s suite) olderTimes(t testing.TB) {
	draw := rand.New(rand.NewPCG(9, 10))
	for _, start := range []algo.Time{0, math.MinInt64, math.MaxInt64 - 10*second} {
		l, steady := s.make(t, algo.PerSecond(1), 4), s.make(t, algo.PerSecond(1), 4)
		now, latest := start, start
		for range 200 {
			now = start.Add(time.Duration(draw.Int64N(int64(10 * second))))
			latest = max(latest, now)
			cost := draw.Int64N(5)
			require.Equal(t, allow(t, steady, latest, cost), allow(t, l, now, cost))
		}
	}
}
