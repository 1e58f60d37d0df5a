package algo

// TokenBucket counts tokens: they come at the rate, up to the burst, and a request
// takes as many as it costs.
//
//	Formula: tokens = min(burst, tokens + rate*(t - last)); passes when cost <= tokens, and takes cost.
//	Bound:   burst + rate*w in any window of length w.
//	State:   24 bytes: the tokens, exact, and the latest time.
//	Source:  RFC 2697 and RFC 2698 as meters.
//
// It decides as [GCRA] and [LeakyMeter] do. A copy is a limiter of its own.
type TokenBucket struct {
	scale  Scale
	bucket Bucket
	burst  int64
	tokens Ticks
	last   Time
}

// NewTokenBucket returns a limiter, full. The rate must not be zero, the burst at
// least 1.
func NewTokenBucket(rate Rate, burst int64) (*TokenBucket, error) {
	s, b, err := newBucket(rate, burst)
	if err != nil {
		return nil, err
	}
	return &TokenBucket{scale: s, bucket: b, burst: burst, tokens: b.size, last: earliest}, nil
}

// Allow decides on a request of cost units at now; see [Limiter].
func (b *TokenBucket) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, b.burst); err != nil {
		return Verdict{}, err
	}
	now = max(now, b.last)
	b.tokens = b.tokens.Add(product(elapsed(b.last, now), b.bucket.fill))
	if b.bucket.size.Less(b.tokens) {
		b.tokens = b.bucket.size
	}
	b.last = now
	c := b.scale.Cost(cost)
	v := Verdict{Allowed: !b.tokens.Less(c)}
	if v.Allowed {
		b.tokens = b.tokens.Sub(c)
	} else {
		v.RetryAfter = takes(now, c.Sub(b.tokens), b.bucket.fill)
	}
	v.Remaining = b.scale.Units(b.tokens)
	v.Reset = takes(now, b.bucket.size.Sub(b.tokens), b.bucket.fill)
	return v, nil
}

// StateSize returns how many bytes of state it keeps beside what it was made with.
func (b *TokenBucket) StateSize() int { return 24 }
