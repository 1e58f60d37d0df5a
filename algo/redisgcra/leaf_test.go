package redisgcra

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// borrower is the ceil bucket of a leaf as a limiter.
type borrower struct {
	t          testing.TB
	limiter    *Limiter
	key        string
	rate, ceil Limit
}

func (b borrower) Allow(now algo.Time, cost int64) (algo.Verdict, error) {
	if _, err := newShape(b.rate, b.ceil, nil); err != nil { // a ceil below the rate cannot be: then it is a plain limiter
		return clocked{b.limiter, b.key, b.ceil}.Allow(now, cost)
	}
	s, err := b.limiter.shapes.get(b.rate, b.ceil)
	require.NoError(b.t, err)
	key, err := Key(b.limiter.opts.Tree, b.key)
	require.NoError(b.t, err)
	d, err := b.limiter.decide(context.Background(), request{key: key, shape: s, ways: Borrow, cost: cost, now: at(now)})
	if err != nil {
		return algo.Verdict{}, err
	}
	require.Equal(b.t, d.Allowed, d.Borrowed)
	require.Equal(b.t, !d.Allowed, d.AtCeil)
	require.Equal(b.t, b.rate.Burst, d.Remaining, "the rate was not charged")
	d.Remaining, d.Reset = d.UnderCeil, d.CeilReset
	return d.Verdict, nil
}

// Step by step: rate 1/s with burst 2, ceil 4/s with cburst 4.
func TestLeaf(t *testing.T) {
	const second = algo.Time(time.Second)
	l, _ := start(t, Options{}, true)
	f, err := l.Leaf("free/alice", Limit{algo.PerSecond(1), 2}, Limit{algo.PerSecond(4), 4})
	require.NoError(t, err)
	require.Equal(t, "htb:{default:free/alice}", f.Key())
	verdict := func(ok bool, retry time.Duration, left int64, reset time.Duration) algo.Verdict {
		return algo.Verdict{Allowed: ok, RetryAfter: retry, Remaining: left, Reset: reset}
	}
	for i, step := range []struct {
		at   algo.Time
		ways Ways
		cost int64
		want Decision
	}{
		{0, Own | Borrow, 0, Decision{Verdict: verdict(true, 0, 2, 0), UnderCeil: 4}},
		{0, Own, 1, Decision{Verdict: verdict(true, 0, 1, time.Second), UnderCeil: 3}},
		{0, Own, 2, Decision{Verdict: verdict(false, time.Second, 1, time.Second), UnderCeil: 3}},
		{0, Own | Borrow, 2, Decision{Verdict: verdict(true, 0, 1, time.Second), Borrowed: true, UnderCeil: 1}},
		{0, Own | Borrow, 1, Decision{Verdict: verdict(true, 0, 0, 2*time.Second), UnderCeil: 0}},
		{0, Own | Borrow, 1, Decision{Verdict: verdict(false, time.Second/4, 0, 2*time.Second), AtCeil: true}},
		{0, Own, 1, Decision{Verdict: verdict(false, time.Second, 0, 2*time.Second), AtCeil: true}},
		{second / 4, Own, 1, Decision{Verdict: verdict(false, 3*time.Second/4, 0, 7*time.Second/4), UnderCeil: 1}},
		{second / 4, Borrow, 1, Decision{Verdict: verdict(true, 0, 0, 7*time.Second/4), Borrowed: true}},
		{2 * second, Borrow, 1, Decision{Verdict: verdict(true, 0, 2, 0), Borrowed: true, UnderCeil: 3}},
		{2 * second, Own | Borrow, 3, Decision{Verdict: verdict(true, 0, 2, 0), Borrowed: true, UnderCeil: 0}},
		{9 * second, Own, 3, Decision{Verdict: verdict(false, math.MaxInt64, 2, 0), UnderCeil: 4}}, // over the burst: only by a loan
	} {
		d, err := l.decide(context.Background(), request{key: f.key, shape: f.shape, ways: step.ways, cost: step.cost, now: at(step.at)})
		require.NoError(t, err)
		d.CeilReset = 0 // TestLeavesAreThoseInMemory looks at it
		require.Equal(t, step.want, d, "step %d", i)
	}
	_, err = f.Allow(context.Background(), 0, 1)
	require.ErrorContains(t, err, "neither Own nor Borrow")
	_, err = f.Allow(context.Background(), Own, 5)
	require.ErrorIs(t, err, algo.ErrCost)
}

// By the server's clock: own tokens, then loans up to the ceil, then no.
func TestLeafOnTheServersTime(t *testing.T) {
	l, _ := start(t, Options{}, false)
	f, err := l.Leaf("a", Limit{mustRate(t, 1, time.Hour), 2}, Limit{mustRate(t, 2, time.Hour), 3})
	require.NoError(t, err)
	for i, want := range []Decision{
		{Verdict: algo.Verdict{Allowed: true, Remaining: 1}, UnderCeil: 2},
		{Verdict: algo.Verdict{Allowed: true, Remaining: 0}, UnderCeil: 1},
		{Verdict: algo.Verdict{Allowed: true, Remaining: 0}, Borrowed: true, UnderCeil: 0},
		{Verdict: algo.Verdict{Allowed: false, Remaining: 0}, AtCeil: true, UnderCeil: 0},
	} {
		d, err := f.Allow(context.Background(), Own|Borrow, 1)
		require.NoError(t, err)
		require.InDelta(t, float64(min(i+1, 2))*float64(time.Hour), float64(d.Reset), float64(time.Minute))
		if !d.Allowed {
			require.InDelta(t, float64(time.Hour/2), float64(d.RetryAfter), float64(time.Minute))
		}
		d.Reset, d.CeilReset, d.RetryAfter = 0, 0, 0
		require.Equal(t, want, d, "request %d", i)
	}
}

// A leaf without a ceil of its own, or with one equal to its rate, is one bucket.
func TestLeafThatCannotBorrow(t *testing.T) {
	l, _ := start(t, Options{}, false)
	limit := Limit{mustRate(t, 1, time.Hour), 1}
	for i, ceil := range []Limit{{}, limit} {
		f, err := l.Leaf(fmt.Sprint(i), limit, ceil)
		require.NoError(t, err)
		d, err := f.Allow(context.Background(), Borrow, 1)
		require.NoError(t, err)
		require.Equal(t, Decision{Verdict: algo.Verdict{RetryAfter: math.MaxInt64, Remaining: 1}, UnderCeil: 1}, d)
		d, err = f.Allow(context.Background(), Own|Borrow, 1)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.False(t, d.Borrowed)
	}
}

// twoBuckets is a leaf in memory: the reference.
type twoBuckets struct {
	scale      algo.Scale
	rate, ceil algo.Bucket
	tats       [2]algo.Ticks
}

func newTwoBuckets(t testing.TB, rate, ceil Limit) *twoBuckets {
	s, err := algo.NewScale(rate.Rate, ceil.Rate)
	require.NoError(t, err)
	return &twoBuckets{scale: s, rate: s.Bucket(rate.Rate, rate.Burst), ceil: s.Bucket(ceil.Rate, ceil.Burst)}
}

func (b *twoBuckets) decide(now algo.Time, ways Ways, cost int64) (d Decision) {
	c := b.scale.Cost(cost)
	owns := ways&Own != 0 && b.rate.Has(b.tats[0], now, c)
	under := b.ceil.Has(b.tats[1], now, c)
	d.Allowed = under && (owns || ways&Borrow != 0)
	d.Borrowed = d.Allowed && !owns
	d.AtCeil = !under
	if d.Allowed {
		b.tats[1] = b.ceil.Charge(b.tats[1], now, c)
		if owns {
			b.tats[0] = b.rate.Charge(b.tats[0], now, c)
		}
	}
	d.Remaining = b.scale.Units(b.rate.Tokens(b.tats[0], now))
	d.UnderCeil = b.scale.Units(b.ceil.Tokens(b.tats[1], now))
	d.Reset = wait(now, b.rate, b.tats[0], b.rate.Size())
	d.CeilReset = wait(now, b.ceil, b.tats[1], b.ceil.Size())
	if d.Allowed {
		return d
	}
	d.RetryAfter = wait(now, b.ceil, b.tats[1], c)
	if ways&Borrow == 0 {
		d.RetryAfter = max(d.RetryAfter, wait(now, b.rate, b.tats[0], c))
	}
	return d
}

// wait is how long until the bucket holds need, rounded up to the microsecond.
func wait(now algo.Time, b algo.Bucket, tat, need algo.Ticks) time.Duration {
	at, ok := b.When(tat, need)
	if !ok {
		return math.MaxInt64
	}
	return micros(max(0, at.Sub(now)))
}

func micros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1) / time.Microsecond * time.Microsecond
}

// Leaves in Redis decide as two buckets in memory do.
func TestLeavesAreThoseInMemory(t *testing.T) {
	l, _ := start(t, Options{}, true)
	draw := rand.New(rand.NewPCG(9, 9))
	var wants []Decision
	var calls []*call
	for n := range 40 {
		rate := Limit{mustRate(t, 1+draw.Int64N(1000), time.Duration(1+draw.Int64N(60))*time.Second), 1 + draw.Int64N(20)}
		perSecond := int64(rate.Rate.PerSecond()) + 1
		ceil := Limit{algo.PerSecond(perSecond + draw.Int64N(perSecond)), rate.Burst + draw.Int64N(20)}
		shape, err := l.shapes.get(rate, ceil)
		require.NoError(t, err)
		ref := newTwoBuckets(t, rate, ceil)
		key, err := Key("t", fmt.Sprint(n))
		require.NoError(t, err)
		now := algo.Time(0)
		for range 500 {
			now = now.Add(time.Duration(draw.Int64N(int64(ceil.Rate.Takes(4)))) / 1000 * 1000)
			r := request{key: key, shape: shape, ways: Ways(1 + draw.IntN(3)), cost: draw.Int64N(min(6, ceil.Burst+1)), now: at(now)}
			wants = append(wants, ref.decide(now, r.ways, r.cost))
			calls = append(calls, newCall(r))
		}
	}
	own, borrowed, refused := 0, 0, 0
	for i, d := range fly(t, l, calls) {
		require.Equal(t, wants[i], d, "call %d: %+v", i, calls[i].request)
		switch {
		case d.Borrowed:
			borrowed++
		case d.Allowed:
			own++
		default:
			refused++
		}
	}
	for _, n := range []int{own, borrowed, refused} {
		require.Greater(t, n, 1000, "%d own, %d borrowed, %d refused", own, borrowed, refused)
	}
}
