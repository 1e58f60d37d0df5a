package algo

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Limiter decides on requests that share one limit.
//
// A cost of 0 takes nothing, always passes and only asks. A cost that could never
// pass, below 0 or above what the limiter ever holds, is an error that wraps
// [ErrCost] and takes nothing. A refused request takes nothing either. A time older
// than the latest seen counts as the latest seen.
//
// The limiters of this package are for one goroutine at a time, and except for
// [SlidingLog] their decisions do not allocate.
type Limiter interface {
	// Allow decides on a request of cost units at now.
	Allow(now Time, cost int64) (Verdict, error)
}

// ErrCost is wrapped by the error for a cost that can never pass: negative, or
// above the burst.
var ErrCost = errors.New("cost can never pass")

// Verdict is what a flat limiter says of one request.
type Verdict struct {
	Allowed    bool
	RetryAfter time.Duration // refused: when it would pass if nothing else came
	Remaining  int64         // units that would pass right now
	Reset      time.Duration // until the limiter is as new: the bucket full, the window empty
	Delay      time.Duration // allowed by a queue: how long to wait before going on; else 0
}

const (
	earliest = Time(math.MinInt64)
	latest   = Time(math.MaxInt64)
	never    = time.Duration(math.MaxInt64) // later than a Time can say
)

// Limit is a rate and the burst that goes with it.
type Limit struct {
	Rate  Rate
	Burst int64
}

// newBucket returns a bucket with a scale of its own.
func newBucket(rate Rate, burst int64) (Scale, Bucket, error) {
	if rate.IsZero() || burst < 1 {
		return Scale{}, Bucket{}, fmt.Errorf("algo: limit of %v with burst %d: rate and burst must be positive", rate, burst)
	}
	s, err := NewScale(rate)
	if err != nil {
		return Scale{}, Bucket{}, err
	}
	return s, s.Bucket(rate, burst), nil
}

func checkWindow(limit int64, window time.Duration) error {
	if limit < 1 || window < 1 || window > maxWritten {
		return fmt.Errorf("algo: limit of %d in a window of %v: both must be positive, the window at most %v", limit, window, maxWritten)
	}
	return nil
}

func checkCost(cost, most int64) error {
	if cost < 0 || cost > most {
		return fmt.Errorf("algo: cost %d outside 0 to burst %d: %w", cost, most, ErrCost)
	}
	return nil
}

// elapsed returns the nanoseconds from one time to a later one, however far apart.
func elapsed(from, to Time) uint64 { return uint64(to) - uint64(from) }

// takes returns how long fill ticks per nanosecond need for amount, rounded up: never,
// if that is over later than Time can say.
func takes(now Time, amount Ticks, fill uint64) time.Duration {
	q, exact := amount.quotient(fill)
	if !exact && q < math.MaxUint64 {
		q++
	}
	if q > elapsed(now, math.MaxInt64) {
		return never
	}
	return time.Duration(min(q, uint64(never)))
}

// divide returns a/b rounded down, at most 2^63-1; b is not 0.
func divide(a Ticks, b uint64) int64 {
	q, _ := a.quotient(b)
	return int64(min(q, math.MaxInt64))
}

// windowOf returns the number of the window of this length that t lies in, counted
// from time 0, and how far into it.
func windowOf(t Time, length time.Duration) (index int64, into time.Duration) {
	index, rest := int64(t)/int64(length), int64(t)%int64(length)
	if rest < 0 {
		index, rest = index-1, rest+int64(length)
	}
	return index, time.Duration(rest)
}

// sum returns a+b, at most 2^63-1; neither is negative.
func sum(a, b time.Duration) time.Duration {
	s, carry := bits.Add64(uint64(a), uint64(b), 0)
	if carry != 0 || s > math.MaxInt64 {
		return never
	}
	return time.Duration(s)
}
