package algo

import "time"

// GCRA is the generic cell rate algorithm: a token bucket kept as one theoretical
// arrival time.
//
//	Formula: passes when max(t, TAT) + cost/rate - t <= burst/rate; then TAT = max(t, TAT) + cost/rate.
//	Bound:   burst + rate*w in any window of length w.
//	State:   24 bytes: the TAT, exact, and the latest time.
//	Source:  ITU-T I.371, annex A, virtual scheduling; ATM Forum TM 4.0, section 4.4.2.
//
// Its long-run rate is exact, if the burst holds a request and what one nanosecond
// brings: time comes in nanoseconds, and a bucket of less runs over between two of
// them. A copy is a limiter of its own.
type GCRA struct {
	scale  Scale
	bucket Bucket
	burst  int64
	tat    Ticks
	last   Time
}

// NewGCRA returns a limiter, full. The rate must not be zero, the burst at least 1.
func NewGCRA(rate Rate, burst int64) (*GCRA, error) {
	s, b, err := newBucket(rate, burst)
	if err != nil {
		return nil, err
	}
	return &GCRA{scale: s, bucket: b, burst: burst, last: earliest}, nil
}

// Allow decides on a request of cost units at now. Cost 0 takes nothing and only
// asks. A cost below 0 or above the burst is an error that wraps [ErrCost].
func (g *GCRA) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, g.burst); err != nil {
		return Verdict{}, err
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

// StateSize returns how many bytes of state it keeps beside what it was made with.
func (g *GCRA) StateSize() int { return 24 }
