package algo_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/conformance"
)

// limiter is one of the algorithms, with what it promises for a rate and a burst.
type limiter struct {
	name    string
	promise conformance.Promise
	make    conformance.Maker
}

var (
	tokenBucket    = limiter{"token bucket", conformance.Bucket, maker(algo.NewTokenBucket)}
	gcra           = limiter{"GCRA", conformance.Bucket, maker(algo.NewGCRA)}
	leakyMeter     = limiter{"leaky meter", conformance.Bucket, maker(algo.NewLeakyMeter)}
	leakyQueue     = limiter{"leaky queue", conformance.Promise{Most: queueMost, Plain: true}, maker(algo.NewLeakyQueue)}
	oneLimit       = limiter{"dual leaky bucket of one limit", conformance.Bucket, dual(1)}
	dualBucket     = limiter{"dual leaky bucket", conformance.Promise{Most: dualMost}, dual(2)}
	fixedWindow    = limiter{"fixed window", conformance.Promise{Most: fixedMost}, windowed(algo.NewFixedWindow)}
	slidingLog     = limiter{"sliding log", conformance.Promise{Most: logMost}, windowed(algo.NewSlidingLog)}
	slidingCounter = limiter{"sliding counter", conformance.Promise{Most: counterMost}, windowed(algo.NewSlidingCounter)}

	limiters = []limiter{tokenBucket, gcra, leakyMeter, leakyQueue, oneLimit, dualBucket, fixedWindow, slidingLog, slidingCounter}
)

func maker[L algo.Limiter](make func(algo.Rate, int64) (L, error)) conformance.Maker {
	return func(t testing.TB, r algo.Rate, burst int64) conformance.Limiter {
		l, err := make(r, burst)
		require.NoError(t, err)
		return l
	}
}

func windowed[L algo.Limiter](make func(int64, time.Duration) (L, error)) conformance.Maker {
	return func(t testing.TB, r algo.Rate, burst int64) conformance.Limiter {
		l, err := make(burst, r.Takes(burst))
		require.NoError(t, err)
		return l
	}
}

// dual makes a dual leaky bucket with the burst of a plain one. Its second limit has
// half the rate and four times the burst.
func dual(limits int) conformance.Maker {
	return func(t testing.TB, r algo.Rate, burst int64) conformance.Limiter {
		all := []algo.Limit{{Rate: r, Burst: burst}, {Rate: half(t, r), Burst: 4 * burst}}
		l, err := algo.NewDualLeakyBucket(all[:limits]...)
		require.NoError(t, err)
		return l
	}
}

func half(t require.TestingT, r algo.Rate) algo.Rate {
	f := r.Fraction()
	h, err := algo.NewRate(f.Num().Int64(), 2*time.Duration(f.Denom().Int64()))
	if err != nil { // slower than the slowest
		return r
	}
	return h
}

func units(n int64) *big.Rat { return big.NewRat(n, 1) }

func queueMost(r algo.Rate, burst int64, w time.Duration) *big.Rat {
	return conformance.Bucket.Most(r, burst, w+1)
}

func dualMost(r algo.Rate, burst int64, w time.Duration) *big.Rat {
	peak := conformance.Bucket.Most(r, burst, w)
	sustained := conformance.Bucket.Most(half(panics{}, r), 4*burst, w)
	if peak.Cmp(sustained) < 0 {
		return peak
	}
	return sustained
}

func fixedMost(r algo.Rate, limit int64, w time.Duration) *big.Rat {
	window := r.Takes(limit)
	return units(limit * (1 + int64((w+window-1)/window)))
}

func logMost(r algo.Rate, limit int64, w time.Duration) *big.Rat {
	return units(limit * (1 + int64(w/r.Takes(limit))))
}

func counterMost(r algo.Rate, limit int64, w time.Duration) *big.Rat {
	more := new(big.Rat).Mul(units(limit), big.NewRat(int64(w), int64(r.Takes(limit))))
	return more.Add(more, units(limit))
}

// panics is a TestingT for what cannot fail.
type panics struct{}

func (panics) Errorf(string, ...any) {}
func (panics) FailNow()              { panic("failed") }

func TestLimitersConform(t *testing.T) {
	for _, l := range limiters {
		t.Run(l.name, func(t *testing.T) { conformance.RunPromise(t, l.promise, l.make) })
	}
}
