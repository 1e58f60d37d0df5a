package redisgcra

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/conformance"
)

// A further limit of a leaf is a limiter like any other.
func TestFurtherLimitConforms(t *testing.T) {
	l, _ := start(t, Options{}, true)
	made := 0
	conformance.Run(t, time.Microsecond, func(_ testing.TB, rate algo.Rate, burst int64) conformance.Limiter {
		made++
		return further{l, fmt.Sprint(made), Limit{rate, burst}}
	})
}

// further asks a leaf whose rate is no bound.
type further struct {
	limiter *Limiter
	key     string
	limit   Limit
}

func (f further) Allow(now algo.Time, cost int64) (algo.Verdict, error) {
	s, err := f.limiter.shapes.get(Limit{algo.PerSecond(1_000_000_000), 1_000_000_000_000_000}, Limit{}, f.limit)
	if err != nil {
		return algo.Verdict{}, err
	}
	r := request{key: f.key, shape: s, ways: Own, cost: cost, now: at(now)}
	if err := r.check(); err != nil {
		return algo.Verdict{}, err
	}
	a, err := f.limiter.ask(context.Background(), r)
	if err != nil {
		return algo.Verdict{}, err
	}
	d := r.decision(a)
	if d.Allowed == d.AtAlso || d.AtCeil {
		return algo.Verdict{}, fmt.Errorf("%+v", d)
	}
	d.Remaining, d.Reset = s.also[0].remaining(a.also[0]), s.also[0].reset(a.also[0])
	return d.Verdict, nil
}

// Step by step: rate 10 and ceil 20 an hour, and further limits of 12 and 15.
func TestFurtherLimits(t *testing.T) {
	l, _ := start(t, Options{}, false)
	ctx := context.Background()
	hour := func(n int64) Limit { return Limit{mustRate(t, n, time.Hour), n} }
	f, err := l.Leaf("a", hour(10), hour(20), hour(12), hour(15))
	require.NoError(t, err)
	decide := func(ways Ways, cost int64) Decision {
		d, err := f.Allow(ctx, ways, cost)
		require.NoError(t, err)
		// Whole minutes: the server's time goes on.
		d.Reset, d.RetryAfter, d.CeilReset = d.Reset.Round(time.Minute), d.RetryAfter.Round(time.Minute), 0
		return d
	}
	verdict := func(ok bool, retry time.Duration, left int64) algo.Verdict {
		return algo.Verdict{Allowed: ok, RetryAfter: retry, Remaining: left, Reset: time.Duration(10-left) * 6 * time.Minute}
	}
	_, err = f.Allow(ctx, Own|Borrow, 13)
	require.ErrorIs(t, err, algo.ErrCost, "over a further burst")
	require.Equal(t, Decision{Verdict: verdict(true, 0, 6), UnderCeil: 16}, decide(Own|Borrow, 4))
	require.Equal(t, Decision{Verdict: verdict(true, 0, 6), UnderCeil: 9, Borrowed: true}, decide(Own|Borrow, 7))
	require.Equal(t, Decision{Verdict: verdict(false, 5*time.Minute, 6), UnderCeil: 9, AtAlso: true}, decide(Own|Borrow, 2))
	require.Equal(t, Decision{Verdict: verdict(false, 15*time.Minute, 6), UnderCeil: 9, AtAlso: true}, decide(Own, 4))
	require.Equal(t, Decision{Verdict: verdict(true, 0, 5), UnderCeil: 8}, decide(Own|Borrow, 1), "refusals charged nobody")

	// Settling: what paid gets it back, and no more than is full.
	require.NoError(t, f.Settle(ctx, true, -7))
	require.Equal(t, Decision{Verdict: verdict(true, 0, 5), UnderCeil: 15}, decide(Own, 0))
	require.NoError(t, f.Settle(ctx, false, -2))
	require.NoError(t, f.Settle(ctx, false, 0))
	require.Equal(t, Decision{Verdict: verdict(true, 0, 7), UnderCeil: 17}, decide(Own, 0))
	require.NoError(t, f.Settle(ctx, false, math.MinInt64))
	require.Equal(t, Decision{Verdict: verdict(true, 0, 10), UnderCeil: 20}, decide(Own, 0))
	require.NoError(t, f.Settle(ctx, false, 11))
	require.Equal(t, Decision{Verdict: verdict(false, 6*time.Minute, 0), UnderCeil: 9}, decide(Own, 1), "empty, not in debt")
	require.NoError(t, f.Settle(ctx, true, math.MaxInt64))
	require.Equal(t, Decision{Verdict: verdict(false, 5*time.Minute, 0), AtCeil: true, AtAlso: true}, decide(Borrow, 1))

	// Fewer limits, and more again: what is kept by its place stays.
	f, err = l.Leaf("a", hour(10), hour(20))
	require.NoError(t, err)
	require.NoError(t, f.Settle(ctx, false, -5))
	require.Equal(t, Decision{Verdict: verdict(true, 0, 5), UnderCeil: 5}, decide(Own, 0))
	require.Equal(t, Decision{Verdict: verdict(true, 0, 4), UnderCeil: 4}, decide(Own, 1))
	f, err = l.Leaf("a", hour(10), hour(20), hour(12))
	require.NoError(t, err)
	require.Equal(t, Decision{Verdict: verdict(true, 0, 3), UnderCeil: 3}, decide(Own, 1), "the new one is full")
	f, err = l.Leaf("a", hour(10), Limit{}, hour(12), hour(15))
	require.NoError(t, err)
	require.Equal(t, Decision{Verdict: verdict(false, math.MaxInt64, 3), UnderCeil: 3}, func() Decision {
		d, err := f.Allow(ctx, Borrow, 1)
		require.NoError(t, err)
		d.Reset, d.CeilReset = d.Reset.Round(time.Minute), 0
		return d
	}(), "it cannot borrow")
	require.Equal(t, Decision{Verdict: verdict(true, 0, 2), UnderCeil: 2}, decide(Own|Borrow, 1))
	f, err = l.Leaf("a", hour(10), Limit{})
	require.NoError(t, err)
	require.Equal(t, Decision{Verdict: verdict(true, 0, 1), UnderCeil: 1}, decide(Own, 1))
	require.NoError(t, f.Settle(ctx, false, -3))
	require.NoError(t, f.Settle(ctx, true, 100), "what was borrowed did not pay here")
	require.Equal(t, Decision{Verdict: verdict(true, 0, 4), UnderCeil: 4}, decide(Own, 0))

	_, err = l.Leaf("a", hour(10), Limit{}, Limit{})
	require.ErrorContains(t, err, "further limit 1")
	_, err = l.Leaf("a", hour(10), Limit{}, make([]Limit, 9)...)
	require.ErrorContains(t, err, "9 further limits")
	require.NoError(t, l.Close())
	require.ErrorIs(t, f.Settle(ctx, false, 1), ErrClosed)
}

// fractions is a leaf with any buckets, in fractions of a microsecond.
type fractions struct {
	buckets []bucket
	owed    []*big.Rat
	now     int64
}

func (f *fractions) move(now int64) {
	for _, owed := range f.owed {
		owed.Set(most(new(big.Rat), owed.Sub(owed, big.NewRat(now-f.now, 1))))
	}
	f.now = now
}

func (f *fractions) cost(i int, units int64) *big.Rat {
	b := f.buckets[i]
	c := new(big.Rat).SetFrac(new(big.Int).SetUint64(b.unit), new(big.Int).SetUint64(b.den))
	return c.Mul(c, big.NewRat(units, 1))
}

func (f *fractions) fits(i int, units int64) bool {
	owed := f.cost(i, units)
	return owed.Add(owed, f.owed[i]).Cmp(f.cost(i, f.buckets[i].burst)) <= 0
}

func (f *fractions) decide(ways Ways, cost int64) (verdict uint64) {
	switch {
	case ways&Own != 0 && f.fits(0, cost):
		verdict = own
	case ways&Borrow != 0:
		verdict = borrowed
	}
	for i := 1; i < len(f.buckets); i++ {
		if !f.fits(i, cost) {
			verdict = refused
		}
	}
	for i := int(verdict) - 1; verdict != refused && i < len(f.buckets); i++ {
		f.owed[i].Add(f.owed[i], f.cost(i, cost))
	}
	return verdict
}

func (f *fractions) settle(borrowed bool, delta int64) {
	for i, owed := range f.owed {
		if i > 0 || !borrowed {
			owed.Add(owed, f.cost(i, delta))
			owed.Set(least(f.cost(i, f.buckets[i].burst), most(new(big.Rat), owed)))
		}
	}
}

// Leaves with up to four further limits decide and settle as fractions do.
func TestFurtherLimitsAreExact(t *testing.T) {
	l, _ := start(t, Options{}, true)
	draw := rand.New(rand.NewPCG(31, 4))
	var verdicts [3]int
	for n := range 40 {
		rate := Limit{mustRate(t, 1+draw.Int64N(1000), time.Duration(1+draw.Int64N(60))*time.Second), 1 + draw.Int64N(20)}
		ceil := Limit{rate.Rate, rate.Burst + draw.Int64N(20)}
		also := make([]Limit, n%5)
		for i := range also {
			also[i] = Limit{mustRate(t, 1+draw.Int64N(1000), time.Duration(1+draw.Int64N(60e9))), ceil.Burst}
		}
		shape, err := l.shapes.get(rate, ceil, also...)
		require.NoError(t, err)
		ref := fractions{buckets: append([]bucket{shape.rate, shape.ceil}, shape.also...), now: at(0)}
		for range ref.buckets {
			ref.owed = append(ref.owed, new(big.Rat))
		}
		now := algo.Time(0)
		var calls []*call
		var wants []uint64
		var owed [][]*big.Rat
		for range 300 {
			now = now.Add(time.Duration(draw.Int64N(int64(rate.Rate.Takes(4)))) / 1000 * 1000)
			r := request{key: fmt.Sprint(n), shape: shape, ways: Ways(1 + draw.IntN(7)), cost: draw.Int64N(min(6, ceil.Burst+1)), now: at(now)}
			ref.move(r.now)
			if r.ways >= settles {
				delta := r.cost
				if r.ways&refunds != 0 {
					delta = -delta
				}
				ref.settle(r.ways&sparesRate != 0, delta)
				wants = append(wants, own+uint64(r.ways&sparesRate)/2)
			} else {
				wants = append(wants, ref.decide(r.ways, r.cost))
				verdicts[wants[len(wants)-1]]++
			}
			var copied []*big.Rat
			for _, o := range ref.owed {
				copied = append(copied, new(big.Rat).Set(o))
			}
			owed, calls = append(owed, copied), append(calls, newCall(r))
		}
		fly(t, l, calls)
		for i, c := range calls {
			require.Equal(t, wants[i], c.answer.verdict, "leaf %d, call %d: %+v", n, i, c.request)
			for j, s := range append([]span{c.answer.rate, c.answer.ceil}, c.answer.also...) {
				got := new(big.Rat).SetFrac(new(big.Int).SetUint64(s.num), new(big.Int).SetUint64(ref.buckets[j].den))
				got.Add(got, new(big.Rat).SetInt64(int64(s.us)))
				require.Zero(t, got.Cmp(owed[i][j]), "leaf %d, call %d, bucket %d: %v, not %v", n, i, j, got, owed[i][j])
			}
		}
	}
	for _, n := range verdicts {
		require.Greater(t, n, 300, "%v", verdicts)
	}
}

// Corrections ask nobody, and many at once are each made once.
func TestSettleConcurrently(t *testing.T) {
	l, _ := start(t, Options{}, false)
	f, err := l.Leaf("a", Limit{mustRate(t, 1, 24*time.Hour), 1000}, Limit{mustRate(t, 1, 24*time.Hour), 2000})
	require.NoError(t, err)
	ctx := context.Background()
	each(t, 32, func() error {
		for range 20 {
			if d, err := f.Allow(ctx, Own, 1); err != nil || !d.Allowed {
				return fmt.Errorf("%+v, %w", d, err)
			}
			if err := f.Settle(ctx, false, 2); err != nil {
				return err
			}
			if err := f.Settle(ctx, false, -2); err != nil {
				return err
			}
		}
		return nil
	})
	d, err := f.Allow(ctx, Own, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1000-640, d.Remaining)
	require.EqualValues(t, 2000-640, d.UnderCeil)
}
