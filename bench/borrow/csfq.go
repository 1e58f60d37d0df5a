package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// average is the exponential average of a rate, as in Stoica, Shenker, Zhang: Core-Stateless
// Fair Queueing (1998), formula 5.
type average struct{ rate, at float64 }

func (a *average) add(now, cost float64) float64 {
	gone := now - a.at
	a.at = now
	if gone <= 0 {
		a.rate += cost / window
	} else {
		e := math.Exp(-gone / window)
		a.rate = (1-e)*cost/gone + e*a.rate
	}
	return a.rate
}

// csfq estimates alpha as the core router of that paper does. The label of a packet is the
// child's own average.
type csfq struct {
	pool
	rates             []average
	arrived, accepted average
	fair, start, top  float64
	congested         bool
	floor, ceil       float64 // fair stays between
	cut               float64 // what overflow has taken from fair in this window
}

func newCSFQ(p pool) *csfq {
	return &csfq{pool: p, rates: make([]average, len(p.quanta)), fair: p.capacity / sum(p.quanta), cut: 1, floor: p.capacity / sum(p.quanta) / 10, ceil: 10 * p.capacity / slices.Min(p.quanta)}
}

func (c *csfq) alpha(now float64, _ *bucket, child int, cost float64) float64 {
	label := c.rates[child].add(now, cost) / c.quanta[child]
	switch busy := c.arrived.add(now, cost) >= c.capacity; {
	case busy != c.congested:
		c.congested, c.start, c.top, c.cut = busy, now, 0, 1
	case busy && now > c.start+window:
		// what was not accepted since counts too
		f := c.accepted.rate * math.Exp(-(now-c.accepted.at)/window)
		c.fair *= c.capacity / max(f, c.capacity/10)
		c.start, c.cut = now, 1
	case !busy && now <= c.start+window:
		c.top = max(c.top, label)
	case !busy:
		c.fair, c.start, c.top = max(c.top, label), now, 0
	}
	c.fair = min(max(c.fair, c.floor), c.ceil)
	return c.fair
}

func (c *csfq) decided(now, cost float64, ok, full bool) {
	if ok {
		c.accepted.add(now, cost)
	}
	if full && c.cut > 0.75 { // 1 % for each overflow, at most a quarter in a window
		c.cut *= 0.99
		c.fair *= 0.99
	}
}

// randomDrop refuses with the probability that brings a child down to alpha.
type randomDrop struct {
	bucket
	*csfq
	rng *rand.Rand
}

func newRandomDrop(p pool) *randomDrop { return &randomDrop{newBucket(p), newCSFQ(p), random(1)} }

func (r *randomDrop) allow(now float64, child int, cost float64) (bool, float64) {
	b := &r.bucket
	b.fill(now)
	mine := r.alpha(now, b, child, cost) * r.quanta[child]
	picked := r.rng.Float64()*r.rates[child].rate <= mine
	ok := picked && b.level >= cost
	r.decided(now, cost, ok, picked && !ok)
	if !ok {
		return false, max(cost/mine, b.until(cost))
	}
	b.level -= cost
	return true, 0
}
