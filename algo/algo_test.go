package algo

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	second = Time(time.Second)
	minute = 60 * second
	day    = 24 * time.Hour
)

func mustRate(t require.TestingT, units int64, period time.Duration) Rate {
	r, err := NewRate(units, period)
	require.NoError(t, err)
	return r
}

func mustGCRA(t require.TestingT, r Rate, burst int64) *GCRA {
	g, err := NewGCRA(r, burst)
	require.NoError(t, err)
	return g
}

// passes asks n times for cost 1 and returns how many passed.
func passes(t require.TestingT, g *GCRA, now Time, n int) (passed int) {
	for range n {
		v, err := g.Allow(now, 1)
		require.NoError(t, err)
		if v.Allowed {
			passed++
		}
	}
	return passed
}

// Step by step: 5 per minute, T = 12 s, tau = 48 s.
func TestGCRAFivePerMinute(t *testing.T) {
	g := mustGCRA(t, mustRate(t, 5, time.Minute), 5)
	for _, step := range []struct {
		at   Time
		cost int64
		want Verdict
	}{
		{0, 1, Verdict{true, 0, 4, 12 * time.Second, 0}},
		{0, 1, Verdict{true, 0, 3, 24 * time.Second, 0}},
		{0, 0, Verdict{true, 0, 3, 24 * time.Second, 0}}, // only asks
		{0, 1, Verdict{true, 0, 2, 36 * time.Second, 0}},
		{0, 1, Verdict{true, 0, 1, 48 * time.Second, 0}},
		{0, 1, Verdict{true, 0, 0, 60 * time.Second, 0}},
		{0, 1, Verdict{false, 12 * time.Second, 0, 60 * time.Second, 0}},
		{12*second - 1, 1, Verdict{false, 1, 0, 48*time.Second + 1, 0}},
		{12 * second, 1, Verdict{true, 0, 0, 60 * time.Second, 0}},
		{24 * second, 2, Verdict{false, 12 * time.Second, 1, 48 * time.Second, 0}},
		{36 * second, 2, Verdict{true, 0, 0, 60 * time.Second, 0}},
		{500 * second, 5, Verdict{true, 0, 0, 60 * time.Second, 0}}, // idle: a burst, no more
		{500 * second, 1, Verdict{false, 12 * time.Second, 0, 60 * time.Second, 0}},
	} {
		v, err := g.Allow(step.at, step.cost)
		require.NoError(t, err)
		require.Equal(t, step.want, v, "at %v, cost %d", time.Duration(step.at), step.cost)
	}
}

// "17 per 30 s, burst 17", 2/s offered for 30 s: burst + rate*T pass, not 17.
func TestGCRAAdmitsBurstAndRate(t *testing.T) {
	g := mustGCRA(t, mustRate(t, 17, 30*time.Second), 17)
	passed := 0
	for i := range 60 {
		passed += passes(t, g, Time(i)*second/2, 1)
	}
	require.GreaterOrEqual(t, passed, 32)
	require.LessOrEqual(t, passed, 34)
}

// A time 10 s in the past counts as the latest seen.
func TestGCRATimeBackwards(t *testing.T) {
	g := mustGCRA(t, PerSecond(1), 4)
	require.Equal(t, 4, passes(t, g, 20*second, 9))
	require.Equal(t, 0, passes(t, g, 10*second, 1))
	require.Equal(t, 0, passes(t, g, 20*second+second/2, 4))

	g = mustGCRA(t, PerSecond(1), 4) // also where the bucket was full
	require.Equal(t, 1, passes(t, g, 20*second, 1))
	require.Equal(t, 3, passes(t, g, 0, 9))
	require.Equal(t, 0, passes(t, g, 20*second, 9))
}

// 1500/s and 6000/s, and 1000 per 60 s: exact over a minute.
func TestGCRAExactOverAMinute(t *testing.T) {
	for _, c := range []struct {
		rate   Rate
		minute int
	}{{PerSecond(1500), 90_000}, {PerSecond(6000), 360_000}, {mustRate(t, 1000, time.Minute), 1000}} {
		g := mustGCRA(t, c.rate, 2) // with 1 the bucket runs over while the nanosecond is waited out
		passed := -2
		for now := Time(0); ; {
			v, err := g.Allow(now, 1)
			require.NoError(t, err)
			if v.Allowed {
				passed++
				continue
			}
			if now = now.Add(v.RetryAfter); now > minute {
				break
			}
		}
		require.Equal(t, c.minute, passed, "%v", c.rate)
	}
}

func TestGCRACosts(t *testing.T) {
	g := mustGCRA(t, PerSecond(1), 4)
	for _, cost := range []int64{-1, math.MinInt64, 5, math.MaxInt64} {
		_, err := g.Allow(0, cost)
		require.ErrorIs(t, err, ErrCost)
	}
	v, err := g.Allow(0, 0)
	require.NoError(t, err)
	require.Equal(t, Verdict{true, 0, 4, 0, 0}, v, "errors took nothing")
}

func TestRateBounds(t *testing.T) {
	for _, c := range []struct {
		units  int64
		period time.Duration
		ok     bool
	}{
		{1, time.Second, true},
		{1_000_000_000_000, time.Second, true},
		{1_000_000_000_001, time.Second, false},
		{1000, 1, true},
		{1001, 1, false},
		{1, 366 * day, true},
		{1, 367 * day, false},
		{1000, 99 * 365 * day, true},
		{math.MaxInt64, 99 * 365 * day, true},
		{1000, math.MaxInt64, false},
		{0, time.Second, false},
		{-1, time.Second, false},
		{1, 0, false},
		{1, -time.Second, false},
	} {
		_, err := NewRate(c.units, c.period)
		require.Equal(t, c.ok, err == nil, "%d per %v: %v", c.units, c.period, err)
	}
	require.Equal(t, PerSecond(1), mustRate(t, 60, time.Minute))
	require.Panics(t, func() { PerSecond(0) })
	for want, r := range map[string]Rate{
		"1000/s": PerSecond(1000), "5/m": mustRate(t, 5, time.Minute), "5000/h": mustRate(t, 5000, time.Hour), "3/s": mustRate(t, 180, time.Minute),
		"1/d": mustRate(t, 1, day), "17/30s": mustRate(t, 17, 30*time.Second), "0/s": {},
	} {
		require.Contains(t, []string{want, "34/m"}, r.String())
	}
}

func TestRateTakesAndOver(t *testing.T) {
	r := PerSecond(3)
	require.Equal(t, time.Duration(333_333_334), r.Takes(1), "rounded up: a moment sooner it is not there yet")
	require.Equal(t, time.Second, r.Takes(3))
	require.Equal(t, time.Duration(0), r.Takes(0))
	require.Equal(t, int64(1), r.Over(1))
	require.Equal(t, int64(3), r.Over(time.Second))
	require.Equal(t, int64(0), r.Over(-1))
	require.Equal(t, time.Duration(math.MaxInt64), mustRate(t, 1, day).Takes(math.MaxInt64))
	require.Equal(t, int64(math.MaxInt64), PerSecond(1e12).Over(math.MaxInt64))
}

func TestRateCompareIsThatOfFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRate(t), genRate(t)
		require.Equal(t, a.Fraction().Cmp(b.Fraction()), a.Compare(b))
		require.InEpsilon(t, a.PerSecond(), 1e9*ratio(a.Fraction()), 1e-12)
	})
}

func ratio(r *big.Rat) float64 { f, _ := r.Float64(); return f }

func TestTimeStopsAtItsEnds(t *testing.T) {
	require.Equal(t, Time(math.MaxInt64), Time(math.MaxInt64-1).Add(5))
	require.Equal(t, Time(math.MinInt64), Time(math.MinInt64+1).Add(-5))
	require.Equal(t, time.Duration(math.MaxInt64), Time(math.MaxInt64).Sub(math.MinInt64))
	require.Equal(t, time.Duration(math.MinInt64), Time(math.MinInt64).Sub(math.MaxInt64))
	require.Equal(t, 3*time.Second, (10 * second).Sub(7*second))
}

func TestScaleRefusesWhatItCannotKeep(t *testing.T) {
	_, err := NewScale(mustRate(t, 1, 365*day), PerSecond(1e12))
	require.ErrorContains(t, err, "1000000000000/s")
	_, err = NewScale(mustRate(t, 1, 999_999_937), mustRate(t, 1, 1_000_000_007), mustRate(t, 1, 998_244_353))
	require.Error(t, err)
	s, err := NewScale(mustRate(t, 1, 365*day), PerSecond(1_000_000))
	require.NoError(t, err)
	require.Panics(t, func() { s.Bucket(mustRate(t, 1, 7*day+1), 1) })
	require.Panics(t, func() { Scale{}.Bucket(PerSecond(1), 1) })
	s, err = NewScale(mustRate(t, 1, 366*day))
	require.NoError(t, err)
	require.Panics(t, func() { s.Bucket(PerSecond(1e12), 1) })
}

func genRate(t *rapid.T) Rate {
	period := rapid.SampledFrom([]time.Duration{1, time.Microsecond, time.Second, time.Minute, 30 * time.Second, time.Hour, day, 365 * day, 1_234_567_891}).Draw(t, "period")
	units := rapid.Int64Range(1, 1e12).Draw(t, "units")
	r, err := NewRate(units, period)
	if err != nil {
		return rapid.SampledFrom([]Rate{PerSecond(3), PerSecond(7e8), PerSecond(1e12), mustRate(t, 1, day), mustRate(t, 1, 365*day)}).Draw(t, "rate")
	}
	return r
}

// exact is a GCRA in fractions: no state but a TAT, no rounding, no limits.
type exact struct {
	perNano, burst, tat *big.Rat
	last                Time
}

func newExact(r Rate, burst int64) *exact {
	return &exact{r.Fraction(), big.NewRat(burst, 1), big.NewRat(math.MinInt64, 1), math.MinInt64}
}

// need returns max(t, TAT) + cost*T - t - burst*T: what is missing, in time.
func (e *exact) need(now Time, cost int64) (tat, missing *big.Rat) {
	e.last = max(e.last, now)
	t := new(big.Rat).SetInt64(int64(e.last))
	tat = e.tat
	if tat.Cmp(t) < 0 {
		tat = t
	}
	period := new(big.Rat).Inv(e.perNano)
	tat = new(big.Rat).Add(tat, new(big.Rat).Mul(period, big.NewRat(cost, 1)))
	missing = new(big.Rat).Sub(tat, t)
	return tat, missing.Sub(missing, new(big.Rat).Mul(period, e.burst))
}

func (e *exact) allow(now Time, cost int64) (ok bool, missing *big.Rat) {
	tat, missing := e.need(now, cost)
	if missing.Sign() > 0 {
		return false, missing
	}
	e.tat = tat
	return true, missing
}

// The limiter is GCRA in exact fractions: for any rate, burst, cost, time forwards
// and backwards, idle for any length; and the time to retry is the first nanosecond
// at which it would pass.
func TestGCRAIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRate(t)
		burst := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "burst")
		g, e := mustGCRA(t, r, burst), newExact(r, burst)
		now := Time(rapid.SampledFrom([]int64{0, math.MinInt64, math.MaxInt64 - 1e9, 1 << 40}).Draw(t, "start"))
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now = now.Add(rapid.OneOf(
				rapid.SampledFrom([]time.Duration{0, 1, -1, time.Second, -time.Hour, 365 * day, math.MaxInt64}),
				rapid.Custom(func(t *rapid.T) time.Duration {
					return r.Takes(1) * time.Duration(rapid.IntRange(0, 3).Draw(t, "periods"))
				})).Draw(t, "after"))
			cost := rapid.Int64Range(0, min(burst, 1<<rapid.IntRange(0, 62).Draw(t, "size"))).Draw(t, "cost")
			v, err := g.Allow(now, cost)
			require.NoError(t, err)
			ok, missing := e.allow(now, cost)
			require.Equal(t, ok, v.Allowed)
			if ok {
				require.Zero(t, v.RetryAfter)
				continue
			}
			at := e.last.Add(v.RetryAfter)
			if v.RetryAfter < math.MaxInt64 && at < math.MaxInt64 {
				told := new(big.Rat).SetInt64(int64(v.RetryAfter))
				require.GreaterOrEqual(t, told.Cmp(missing), 0, "too early")
				require.Negative(t, told.Sub(told, big.NewRat(1, 1)).Cmp(missing), "too late")
			}
		}
	})
}

// Asked all the time, the limiter lets through burst + rate*time to the last whole
// request, which is right to 1e-9 over the length of the test: from one per year to
// 1e12 per second. The burst must hold, above the cost, what a nanosecond brings.
func TestLongRunRate(t *testing.T) {
	for _, r := range []Rate{mustRate(t, 1, 365*day), mustRate(t, 1, day), mustRate(t, 7, day), PerSecond(3), PerSecond(1500), PerSecond(7e8), PerSecond(999_999_999_989), PerSecond(1e12)} {
		for _, cost := range []int64{1, 7, 1_000_003} {
			burst := 2*cost + r.Over(1)
			g := mustGCRA(t, r, burst)
			passed, now := int64(0), Time(0)
			for range 20_000 {
				v, err := g.Allow(now, cost)
				require.NoError(t, err)
				if v.Allowed {
					passed += cost
				} else if now = now.Add(v.RetryAfter); now > math.MaxInt64/2 {
					break
				}
			}
			due := new(big.Rat).Mul(r.Fraction(), new(big.Rat).SetInt64(int64(now)))
			due.Add(due, big.NewRat(burst, 1))
			left := due.Sub(due, big.NewRat(passed, 1))
			require.GreaterOrEqual(t, left.Sign(), 0, "%v cost %d: too many", r, cost)
			require.LessOrEqual(t, left.Cmp(big.NewRat(cost+r.Over(1), 1)), 0, "%v cost %d: %v units short", r, cost, left)
		}
	}
}

// In any window at most burst + rate*window pass.
func TestNoWindowIsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := PerSecond(rapid.Int64Range(1, 1000).Draw(t, "rate"))
		burst := rapid.Int64Range(1, 30).Draw(t, "burst")
		g := mustGCRA(t, r, burst)
		type pass struct {
			at   Time
			cost int64
		}
		var got []pass
		now := Time(0)
		for range 80 {
			now += Time(rapid.Int64Range(0, 50).Draw(t, "ms")) * Time(time.Millisecond)
			cost := rapid.Int64Range(1, burst).Draw(t, "cost")
			if v, _ := g.Allow(now, cost); v.Allowed {
				got = append(got, pass{now, cost})
			}
		}
		for i := range got {
			sum := int64(0)
			for _, p := range got[i:] {
				sum += p.cost
				most := new(big.Rat).Mul(r.Fraction(), new(big.Rat).SetInt64(int64(p.at-got[i].at)))
				most.Add(most, big.NewRat(burst, 1))
				require.LessOrEqual(t, big.NewRat(sum, 1).Cmp(most), 0)
			}
		}
	})
}

func TestTicksAgainstBigInt(t *testing.T) {
	top := new(big.Int).Lsh(big.NewInt(1), 128)
	rapid.Check(t, func(t *rapid.T) {
		a := Ticks{rapid.Uint64().Draw(t, "ah"), rapid.Uint64().Draw(t, "al")}
		b := Ticks{rapid.Uint64().Draw(t, "bh"), rapid.Uint64().Draw(t, "bl")}
		sum := new(big.Int).Add(a.big(), b.big())
		if sum.Cmp(top) >= 0 {
			sum.Sub(top, big.NewInt(1))
		}
		require.Zero(t, sum.Cmp(a.Add(b).big()))
		diff := new(big.Int).Sub(a.big(), b.big())
		if diff.Sign() < 0 {
			diff.SetInt64(0)
		}
		require.Zero(t, diff.Cmp(a.Sub(b).big()))
		require.Equal(t, a.big().Cmp(b.big()) < 0, a.Less(b))
		if n := b.lo; n > 0 {
			q, exact := a.quotient(n)
			want, rest := new(big.Int).QuoRem(a.big(), new(big.Int).SetUint64(n), new(big.Int))
			if !want.IsUint64() {
				require.Equal(t, uint64(math.MaxUint64), q)
			} else {
				require.Equal(t, want.Uint64(), q)
				require.Equal(t, rest.Sign() == 0, exact)
			}
		}
		if !b.IsZero() {
			want := new(big.Int).Mul(a.big(), b.big())
			c := Ticks{0, b.lo | 1}
			want, rest := want.QuoRem(want, c.big(), new(big.Int))
			if rest.Sign() > 0 {
				want.Add(want, big.NewInt(1))
			}
			if want.Cmp(top) >= 0 {
				want.Sub(top, big.NewInt(1))
			}
			require.Zero(t, want.Cmp(a.Scaled(b, c).big()))
		}
	})
}

func FuzzGCRA(f *testing.F) {
	f.Add(int64(3), int64(time.Second), int64(4), int64(0), int64(1), int64(math.MaxInt64), int64(2))
	f.Add(int64(1), int64(day), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(-1), int64(1))
	f.Add(int64(1e12), int64(time.Second), int64(1), int64(5), int64(0), int64(5), int64(1))
	f.Fuzz(func(t *testing.T, units, period, burst, t1, c1, t2, c2 int64) {
		r, err := NewRate(units, time.Duration(period))
		if err != nil {
			return
		}
		g, err := NewGCRA(r, burst)
		if err != nil {
			return
		}
		e := newExact(r, burst)
		for _, q := range [][2]int64{{t1, c1}, {t2, c2}, {t1, c2}, {t2, c1}} {
			v, err := g.Allow(Time(q[0]), q[1])
			if err != nil {
				require.True(t, errors.Is(err, ErrCost))
				continue
			}
			ok, _ := e.allow(Time(q[0]), q[1])
			require.Equal(t, ok, v.Allowed)
			require.GreaterOrEqual(t, v.RetryAfter, time.Duration(0))
			require.GreaterOrEqual(t, v.Reset, time.Duration(0))
			require.True(t, v.Remaining >= 0 && v.Remaining <= burst)
		}
	})
}

func TestGCRADecidesWithoutAllocating(t *testing.T) {
	g := mustGCRA(t, PerSecond(3), 4)
	now := Time(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now += 1000
		_, _ = g.Allow(now, 1)
	}))
}

func BenchmarkGCRA(b *testing.B) {
	g := mustGCRA(b, PerSecond(1_000_000), 1000)
	now := Time(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		_, _ = g.Allow(now, 1)
	}
}

// What StateSize says is what the fields that change take.
func TestStateSize(t *testing.T) {
	b, g, m, q := &TokenBucket{}, &GCRA{}, &LeakyMeter{}, &LeakyQueue{}
	f, c := &FixedWindow{}, &SlidingCounter{}
	require.EqualValues(t, unsafe.Sizeof(b.tokens)+unsafe.Sizeof(b.last), b.StateSize())
	require.EqualValues(t, unsafe.Sizeof(g.tat)+unsafe.Sizeof(g.last), g.StateSize())
	require.EqualValues(t, unsafe.Sizeof(m.level)+unsafe.Sizeof(m.last), m.StateSize())
	require.Equal(t, m.StateSize(), q.StateSize())
	require.Equal(t, 2*m.StateSize(), (&DualLeakyBucket{meters: make([]LeakyMeter, 2)}).StateSize())
	require.EqualValues(t, unsafe.Sizeof(f.last)+unsafe.Sizeof(f.count), f.StateSize())
	require.EqualValues(t, unsafe.Sizeof(c.last)+unsafe.Sizeof(c.previous)+unsafe.Sizeof(c.count), c.StateSize())
	l, err := NewSlidingLog(10, time.Second)
	require.NoError(t, err)
	require.EqualValues(t, unsafe.Sizeof(l.last), l.StateSize())
	for i := range 20 {
		_, err := l.Allow(Time(i), 1)
		require.NoError(t, err)
	}
	require.EqualValues(t, unsafe.Sizeof(l.last)+10*unsafe.Sizeof(logged{}), l.StateSize())
}
