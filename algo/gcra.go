package algo

import (
	"errors"
	"fmt"
	"time"
)

// ErrCost is wrapped by the error for a cost that can never pass: negative, or
// above the burst.
var ErrCost = errors.New("cost can never pass")

// Verdict is what a flat limiter says of one request.
type Verdict struct {
	Allowed    bool
	RetryAfter time.Duration // refused: when it would pass if nothing else came
	Remaining  int64         // units that would pass right now
	Reset      time.Duration // until the bucket is full again
}

// GCRA is a flat limiter: a token bucket kept as one theoretical arrival time.
// In any window of length w it admits at most burst + rate*w units; its long-run
// rate is exact, if the burst holds a request and what one nanosecond brings: time
// comes in nanoseconds, and a bucket of less runs over between two of them. A time older than the latest seen counts as the latest seen.
//
// A GCRA is not safe for concurrent use, and a copy is a limiter of its own.
type GCRA struct {
	scale  Scale
	bucket Bucket
	burst  int64
	tat    Ticks
	last   Time
}

// NewGCRA returns a limiter, full. The rate must not be zero, the burst at least 1.
func NewGCRA(rate Rate, burst int64) (*GCRA, error) {
	if rate.IsZero() || burst < 1 {
		return nil, fmt.Errorf("algo: limit of %v with burst %d: rate and burst must be positive", rate, burst)
	}
	s, err := NewScale(rate)
	if err != nil {
		return nil, err
	}
	return &GCRA{scale: s, bucket: s.Bucket(rate, burst), burst: burst, last: -1 << 63}, nil
}

// Allow decides on a request of cost units at now. Cost 0 takes nothing and only
// asks. A cost below 0 or above the burst is an error that wraps [ErrCost].
func (g *GCRA) Allow(now Time, cost int64) (Verdict, error) {
	if cost < 0 || cost > g.burst {
		return Verdict{}, fmt.Errorf("algo: cost %d outside 0 to burst %d: %w", cost, g.burst, ErrCost)
	}
	now = max(now, g.last)
	g.last = now
	c := g.scale.Cost(cost)
	v := Verdict{Allowed: g.bucket.Has(g.tat, now, c)}
	if v.Allowed {
		g.tat = g.bucket.Charge(g.tat, now, c)
	} else {
		v.RetryAfter = until(now, g.bucket, g.tat, c)
	}
	v.Remaining = g.scale.Units(g.bucket.Tokens(g.tat, now))
	v.Reset = until(now, g.bucket, g.tat, g.bucket.Size())
	return v, nil
}

// until returns how long the bucket needs to hold need, which it can.
func until(now Time, b Bucket, tat, need Ticks) time.Duration {
	at, ok := b.When(tat, need)
	if !ok {
		return 1<<63 - 1 // later than Time can say
	}
	return max(0, at.Sub(now))
}
