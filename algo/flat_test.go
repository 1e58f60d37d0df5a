package algo_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

func ask(t require.TestingT, l algo.Limiter, now algo.Time, cost int64) algo.Verdict {
	v, err := l.Allow(now, cost)
	require.NoError(t, err)
	return v
}

// Token bucket, GCRA and leaky meter, a queue but for its delays and a dual leaky
// bucket of one limit: equal in every part of every verdict on a million random
// arrivals with costs.
func TestEqualDecisionByDecision(t *testing.T) {
	const perRate = 200_000
	draw := rand.New(rand.NewPCG(1, 1))
	passed := 0
	for _, c := range []struct {
		units  int64
		period time.Duration
		burst  int64
	}{{100, time.Second, 200}, {3, time.Second, 7}, {17, 30 * time.Second, 17}, {999_999_937, 998_244_353, 50}, {1, 24 * time.Hour, 5}} {
		r, err := algo.NewRate(c.units, c.period)
		require.NoError(t, err)
		same := []limiter{tokenBucket, gcra, leakyMeter, leakyQueue, oneLimit}
		var all []algo.Limiter
		for _, l := range same {
			all = append(all, l.make(t, r, c.burst))
		}
		now := algo.Time(0)
		gap := 2*int64(r.Takes(1)) + 2
		for i := range perRate {
			now += algo.Time(draw.Int64N(gap) * draw.Int64N(3) * (1 + c.burst*draw.Int64N(2)/4*draw.Int64N(2)))
			cost := draw.Int64N(c.burst + 1)
			if draw.IntN(2) == 0 {
				cost = 1
			}
			if i%50 == 0 { // an error is as if nothing had been asked, its time neither
				for j, l := range all {
					_, err := l.Allow(now+algo.Time(10*gap), []int64{-1, c.burst + 1}[i%100/50])
					require.ErrorIs(t, err, algo.ErrCost, same[j].name)
				}
			}
			want := ask(t, all[0], now, cost)
			if want.Allowed {
				passed++
			}
			for j, l := range all[1:] {
				got := ask(t, l, now, cost)
				got.Delay = 0
				if got != want {
					require.Equal(t, want, got, "%v burst %d, arrival %d, cost %d: %s", r, c.burst, i, cost, same[j+1].name)
				}
			}
		}
	}
	t.Logf("1,000,000 arrivals, %d let through by each", passed)
	require.Greater(t, passed, 300_000)
	require.Less(t, passed, 800_000)
}

// The same at the ends of time and of what rates and bursts there are.
func TestEqualAtTheEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.SampledFrom([]time.Duration{1, time.Second, 365 * 24 * time.Hour, 1_234_567_891}).Draw(t, "period")
		r, err := algo.NewRate(rapid.Int64Range(1, 1e12).Draw(t, "units"), period)
		if err != nil {
			r = algo.PerSecond(1e12)
		}
		burst := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "burst")
		var all []algo.Limiter
		for _, make := range []func(algo.Rate, int64) (algo.Limiter, error){
			func(r algo.Rate, b int64) (algo.Limiter, error) { return algo.NewTokenBucket(r, b) },
			func(r algo.Rate, b int64) (algo.Limiter, error) { return algo.NewGCRA(r, b) },
			func(r algo.Rate, b int64) (algo.Limiter, error) { return algo.NewLeakyMeter(r, b) },
			func(r algo.Rate, b int64) (algo.Limiter, error) {
				return algo.NewDualLeakyBucket(algo.Limit{Rate: r, Burst: b})
			},
		} {
			l, err := make(r, burst)
			require.NoError(t, err)
			all = append(all, l)
		}
		now := algo.Time(rapid.SampledFrom([]int64{0, math.MinInt64, math.MaxInt64 - 1e9}).Draw(t, "start"))
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, 1, -1, time.Second, -time.Hour, 365 * 24 * time.Hour, math.MaxInt64}).Draw(t, "after"))
			cost := rapid.Int64Range(0, min(burst, 1<<rapid.IntRange(0, 62).Draw(t, "size"))).Draw(t, "cost")
			want := ask(t, all[0], now, cost)
			for _, l := range all[1:] {
				require.Equal(t, want, ask(t, l, now, cost))
			}
		}
	})
}

// An attack waits for a moment of the window, takes all that there is, waits again, and
// then asks without a pause.
type attack struct{ first, second time.Duration }

// found is the most that the attacks got out of a limiter in windows of length w, as a
// part of its bound.
func found(t testing.TB, l limiter, r algo.Rate, burst int64, w time.Duration) (share, most float64, by attack) {
	window := r.Takes(burst)
	most, _ = l.promise.Most(r, burst, w).Float64()
	if l.name == leakyQueue.name {
		most, _ = evenly(r, w).Float64()
	}
	for _, a := range []attack{{0, 0}, {window - 1, 1}, {window - 1, 0}, {window / 2, 0}, {0, window}, {window - 1, window / 2}} {
		lim := l.make(t, r, burst)
		begin := algo.Time(1000 * window).Add(a.first)
		now, total := begin, int64(0)
		take := func(cost int64) algo.Verdict {
			v := ask(t, lim, now, cost)
			if v.Allowed && now.Add(v.Delay) <= begin.Add(w) {
				total += cost
			}
			return v
		}
		take(ask(t, lim, now, 0).Remaining)
		if l.name == leakyQueue.name { // units, so that each leaves by itself
			lim, total = l.make(t, r, burst), 0
			for range burst {
				take(1)
			}
		}
		for now = now.Add(a.second); now <= begin.Add(w); {
			if v := take(1); !v.Allowed {
				now = now.Add(v.RetryAfter)
			}
		}
		require.LessOrEqual(t, float64(total), most, "%s: %+v in %v", l.name, a, w)
		if s := float64(total) / most; s > share {
			share, by = s, a
		}
	}
	return share, most, by
}

// evenly is the bound of a queue for requests of cost 1.
func evenly(r algo.Rate, w time.Duration) *big.Rat {
	most := new(big.Rat).Mul(r.Fraction(), new(big.Rat).SetInt64(int64(w+1)))
	return most.Add(most, units(1))
}

// Each bound is attained to within 1 %, in windows of any length: among them the fixed
// window's twice the limit in a nanosecond, and the sliding counter's in one window.
func TestBoundIsAttained(t *testing.T) {
	r, burst := algo.PerSecond(1000), int64(1000)
	for _, l := range limiters {
		for _, w := range []time.Duration{0, 1, 300 * time.Millisecond, time.Second, time.Second + 1, 2500 * time.Millisecond, 7 * time.Second} {
			share, most, by := found(t, l, r, burst, w)
			t.Logf("%-30s %8v: %.2f %% of %.0f, by %+v", l.name, w, 100*share, most, by)
			require.GreaterOrEqual(t, share, 0.99, "%s in %v", l.name, w)
		}
	}
	twice, _, _ := found(t, fixedWindow, r, burst, 1)
	require.Equal(t, 1.0, twice)
	require.Zero(t, fixedMost(r, burst, 1).Cmp(units(2*burst)), "twice the limit")
}

// Nor is it passed, in any window, whatever comes: random arrivals, clusters at the
// edges of windows, and requests that come back when they were told.
func TestBoundIsNeverPassed(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		l := rapid.SampledFrom(limiters).Draw(t, "limiter")
		r := algo.PerSecond(rapid.Int64Range(1, 1000).Draw(t, "rate"))
		burst := rapid.Int64Range(1, 30).Draw(t, "burst")
		lim := l.make(tb, r, burst)
		window := r.Takes(burst)
		now := algo.Time(0)
		type pass struct {
			at   algo.Time
			cost int64
		}
		var passes []pass
		var last algo.Verdict
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				now = now.Add(last.RetryAfter)
			case 1: // just before a window ends, or when the next begins
				edge := (now/algo.Time(window) + 1) * algo.Time(window)
				now = max(now, edge-algo.Time(rapid.IntRange(0, 1).Draw(t, "before")))
			case 2:
				now = now.Add(time.Duration(rapid.Int64Range(0, 2*int64(window)).Draw(t, "gap")))
			}
			cost := rapid.Int64Range(1, burst).Draw(t, "cost")
			if last = ask(t, lim, now, cost); last.Allowed {
				passes = append(passes, pass{now.Add(last.Delay), cost})
			}
		}
		for i := range passes {
			total := int64(0)
			for _, p := range passes[i:] {
				total += p.cost
				require.LessOrEqual(t, units(total).Cmp(l.promise.Most(r, burst, p.at.Sub(passes[i].at))), 0, "%s: %d in %v", l.name, total, p.at.Sub(passes[i].at))
			}
		}
	})
}

// What leaves a queue is spaced by its cost: to the nanosecond that delays are rounded to.
func TestQueueSpacesEvenly(t *testing.T) {
	r := algo.PerSecond(3)
	q := leakyQueue.make(t, r, 20)
	var left []algo.Time
	for i := range 60 {
		now := algo.Time(i) * algo.Time(100*time.Millisecond)
		if v := ask(t, q, now, 1); v.Allowed {
			left = append(left, now.Add(v.Delay))
		} else {
			require.Positive(t, v.RetryAfter)
		}
	}
	require.Greater(t, len(left), 35)
	for i := range left[1:] {
		require.InDelta(t, 1e9/3, float64(left[i+1]-left[i]), 1)
	}
}

// Windows are as long, and begin at multiples of their length, before time 0, too.
func TestWindowsBeforeZero(t *testing.T) {
	f := fixedWindow.make(t, algo.PerSecond(3), 3)
	half := algo.Time(time.Second / 2)
	for _, begin := range []algo.Time{-2, -1, 0, 1} {
		at := begin*2*half + half
		require.True(t, ask(t, f, at, 3).Allowed, "%v", at)
		v := ask(t, f, at, 1)
		require.Equal(t, algo.Verdict{RetryAfter: time.Second / 2, Reset: time.Second / 2}, v)
	}
}

// A refusal by one limit charges none: 5000 per hour and 20 per second.
func TestDualRefusalChargesNone(t *testing.T) {
	hour, err := algo.NewRate(5000, time.Hour)
	require.NoError(t, err)
	d, err := algo.NewDualLeakyBucket(algo.Limit{Rate: hour, Burst: 30}, algo.Limit{Rate: algo.PerSecond(20), Burst: 20})
	require.NoError(t, err)
	require.Equal(t, int64(10), ask(t, d, 0, 10).Remaining)
	require.False(t, ask(t, d, 0, 11).Allowed, "over 20 at once")
	require.Equal(t, int64(10), ask(t, d, 0, 0).Remaining)
	require.True(t, ask(t, d, 0, 10).Allowed)
	at := algo.Time(time.Second)
	v := ask(t, d, at, 20)
	require.False(t, v.Allowed, "10 were missing a second ago at the hour's")
	require.Equal(t, int64(11), v.Remaining, "20 + 1.4 of the hour's 30 left, 20 used")
	require.Equal(t, hour.Takes(10)-time.Second, v.RetryAfter)
	require.True(t, ask(t, d, at, 11).Allowed)
}

// A decision allocates nothing; the sliding log's only while it grows.
func TestNoAllocations(t *testing.T) {
	for _, l := range limiters {
		lim := l.make(t, algo.PerSecond(1000), 100)
		now := algo.Time(0)
		step := func() {
			now += 700_000
			_, _ = lim.Allow(now, 1)
		}
		for range 1000 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(1000, step), l.name)
	}
}

func BenchmarkAllow(b *testing.B) {
	for _, l := range limiters {
		b.Run(l.name, func(b *testing.B) {
			lim := l.make(b, algo.PerSecond(1_000_000), 1000)
			now := algo.Time(0)
			b.ReportAllocs()
			for b.Loop() {
				now += 700
				_, _ = lim.Allow(now, 1)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	for name, make := range map[string]func() (any, error){
		"token bucket, no rate":       func() (any, error) { return algo.NewTokenBucket(algo.Rate{}, 1) },
		"token bucket, no burst":      func() (any, error) { return algo.NewTokenBucket(algo.PerSecond(1), 0) },
		"leaky meter, no burst":       func() (any, error) { return algo.NewLeakyMeter(algo.PerSecond(1), 0) },
		"leaky queue, no capacity":    func() (any, error) { return algo.NewLeakyQueue(algo.PerSecond(1), -1) },
		"dual without a limit":        func() (any, error) { return algo.NewDualLeakyBucket() },
		"dual with a bad limit":       func() (any, error) { return algo.NewDualLeakyBucket(algo.Limit{}) },
		"fixed window, no limit":      func() (any, error) { return algo.NewFixedWindow(0, 1) },
		"fixed window, no window":     func() (any, error) { return algo.NewFixedWindow(1, 0) },
		"sliding log, no window":      func() (any, error) { return algo.NewSlidingLog(1, -1) },
		"sliding counter, long":       func() (any, error) { return algo.NewSlidingCounter(1, math.MaxInt64) },
		"keyed without keys":          func() (any, error) { return algo.NewKeyed[string](0, func() algo.Limiter { return nil }) },
		"keyed without a constructor": func() (any, error) { return algo.NewKeyed[string](1, nil) },
	} {
		_, err := make()
		require.Error(t, err, name)
		require.Contains(t, err.Error(), "algo: ", fmt.Sprint(name))
	}
}
