package algo

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Time is an instant: nanoseconds since any fixed start the caller chooses, the
// same one for all calls on a limiter.
type Time int64

// Sub returns t-u, within the range of a Duration.
func (t Time) Sub(u Time) time.Duration {
	d := int64(t) - int64(u)
	if (d < 0) != (t < u) { // the difference wrapped round
		if t < u {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return time.Duration(d)
}

// Add returns t+d, within the range of a Time.
func (t Time) Add(d time.Duration) Time {
	s := int64(t) + int64(d)
	if (s < int64(t)) != (d < 0) {
		if d < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return Time(s)
}

// offset maps times to unsigned numbers in the same order, so that the zero TAT
// lies before every time: a bucket without state is full.
func (t Time) offset() uint64 { return uint64(t) ^ 1<<63 }

// Scale is the number of ticks in one unit. Buckets of one Scale can be
// compared and added to the last tick. The zero Scale is not usable; make one
// with [NewScale].
type Scale struct{ ticks uint64 }

// NewScale returns the smallest Scale in which every one of rates is a whole
// number of ticks per nanosecond. Rates too far apart for 63 bits (one per year
// beside 1e12 per second, or periods without a common multiple) are an error.
func NewScale(rates ...Rate) (Scale, error) {
	q := uint64(1)
	for _, r := range rates {
		hi, lo := bits.Mul64(q, r.p/gcd(q, r.p))
		if hi != 0 || lo > 1<<62 {
			return Scale{}, fmt.Errorf("algo: rate %v and those before it have no common period short enough to be exact: write them over the same period", r)
		}
		q = lo
	}
	for _, r := range rates {
		if hi, lo := bits.Mul64(r.n, q/r.p); hi != 0 || lo > 1<<62 {
			return Scale{}, fmt.Errorf("algo: rate %v is too fast to be kept exactly beside the slowest: write the slow rates over a shorter period", r)
		}
	}
	return Scale{q}, nil
}

// Cost returns units in ticks; negative units count as none.
func (s Scale) Cost(units int64) Ticks { return product(uint64(max(units, 0)), s.ticks) }

// Tick returns one tick, the least there is.
func (s Scale) Tick() Ticks { return Ticks{lo: 1} }

// Units returns how many whole units t holds, at most 2^63-1.
func (s Scale) Units(t Ticks) int64 {
	q, _ := t.quotient(s.ticks)
	return int64(min(q, math.MaxInt64))
}

// Bucket returns a bucket of rate and burst. The rate must be one of those the
// Scale was made for: anything else panics, as it could not be exact.
func (s Scale) Bucket(rate Rate, burst int64) Bucket {
	if s.ticks == 0 || rate.p == 0 || s.ticks%rate.p != 0 {
		panic(fmt.Sprintf("algo: rate %v is not whole in a scale of %d ticks", rate, s.ticks))
	}
	hi, fill := bits.Mul64(rate.n, s.ticks/rate.p)
	if hi != 0 {
		panic(fmt.Sprintf("algo: rate %v is too fast for a scale of %d ticks", rate, s.ticks))
	}
	return Bucket{fill: fill, size: s.Cost(burst)}
}

// Bucket is a token bucket without its state: how fast it fills and how much it
// holds. The state is one TAT, kept by the caller; the zero TAT is a full
// bucket. Times must not go backwards between calls with the same TAT (see
// [GCRA] for a limiter that takes care of it). A Bucket may be shared.
type Bucket struct {
	fill uint64 // ticks per nanosecond
	size Ticks
}

// Size returns what a full bucket holds.
func (b Bucket) Size() Ticks { return b.size }

// Fill returns how many ticks one nanosecond brings.
func (b Bucket) Fill() uint64 { return b.fill }

// Instant returns now on the bucket's own axis, the one its TATs lie on.
func (b Bucket) Instant(now Time) Ticks { return product(now.offset(), b.fill) }

// Owed returns what is missing from a full bucket: 0 when full, more than Size
// when it is in debt.
func (b Bucket) Owed(tat Ticks, now Time) Ticks { return tat.Sub(b.Instant(now)) }

// Tokens returns what the bucket holds, 0 when it is in debt.
func (b Bucket) Tokens(tat Ticks, now Time) Ticks { return b.size.Sub(b.Owed(tat, now)) }

// Has reports whether the bucket holds need.
func (b Bucket) Has(tat Ticks, now Time, need Ticks) bool {
	return !b.size.Less(b.Owed(tat, now).Add(need))
}

// Charge takes cost out, whether or not the bucket holds it, and returns the new TAT.
func (b Bucket) Charge(tat Ticks, now Time, cost Ticks) Ticks {
	if i := b.Instant(now); tat.Less(i) {
		tat = i
	}
	return tat.Add(cost)
}

// Charged is Charge that also returns what is missing then.
func (b *Bucket) Charged(tat Ticks, now Time, cost Ticks) (after, owed Ticks) {
	hi, lo := bits.Mul64(now.offset(), b.fill)
	owedLo, c := bits.Sub64(tat.lo, lo, 0)
	owedHi, c := bits.Sub64(tat.hi, hi, c)
	if c != 0 { // it is full
		owedHi, owedLo = 0, 0
	}
	owedLo, c = bits.Add64(owedLo, cost.lo, 0)
	if owedHi, c = bits.Add64(owedHi, cost.hi, c); c != 0 {
		return maxTicks, maxTicks
	}
	lo, c = bits.Add64(lo, owedLo, 0)
	if hi, c = bits.Add64(hi, owedHi, c); c != 0 {
		return maxTicks, Ticks{owedHi, owedLo}
	}
	return Ticks{hi, lo}, Ticks{owedHi, owedLo}
}

// AtMost returns the TAT of a bucket that owes no more than a full one and what
// it brings in d: larger debts are forgiven.
func (b Bucket) AtMost(tat Ticks, now Time, d time.Duration) Ticks {
	if most := b.Instant(now).Add(b.size).Add(product(uint64(max(d, 0)), b.fill)); most.Less(tat) {
		return most
	}
	return tat
}

// Refund puts cost back and returns the new TAT. What would lift the bucket
// above full is lost.
func (b Bucket) Refund(tat, cost Ticks) Ticks { return tat.Sub(cost) }

// When returns the earliest time at which the bucket, left alone, holds need;
// ok is false when it never does. The time may lie in the past.
func (b Bucket) When(tat, need Ticks) (at Time, ok bool) {
	if b.size.Less(need) {
		return 0, false
	}
	return b.Reaches(tat.Sub(b.size.Sub(need)))
}

// Reaches returns the earliest time whose Instant is i or later; ok is false
// when there is none.
func (b Bucket) Reaches(i Ticks) (at Time, ok bool) { return Reaches(i, b.fill) }

// Reaches returns the earliest time at which speed ticks per nanosecond, since
// the earliest Time there is, make i; ok is false when there is none.
func Reaches(i Ticks, speed uint64) (at Time, ok bool) {
	if speed == 0 || i.hi >= speed {
		return 0, i.IsZero()
	}
	q, exact := i.quotient(speed)
	if !exact { // round up: a moment sooner it does not hold yet
		if q == math.MaxUint64 {
			return 0, false
		}
		q++
	}
	return Time(q ^ 1<<63), true
}

// Instant returns now in ticks, where a nanosecond brings speed of them: the
// axis that a bucket with that fill keeps its TATs on.
func Instant(now Time, speed uint64) Ticks { return product(now.offset(), speed) }
