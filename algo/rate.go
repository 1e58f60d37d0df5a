package algo

import (
	"cmp"
	"fmt"
	"math/big"
	"math/bits"
	"time"
)

// Slowest and fastest rate that a [Rate] holds.
const (
	maxPeriod  = 366 * 24 * time.Hour // one unit a year
	maxWritten = 100 * maxPeriod      // as a period, for whatever number of units
	maxPerNano = 1000                 // 1e12 units per second
)

// Rate is a number of units per period, kept exactly: from one per year to 1e12
// per second. The zero Rate is no rate at all; make one with [NewRate] or
// [PerSecond]. Rates compare with ==: 60 per minute equals 1 per second.
type Rate struct {
	n, p uint64 // n units in p nanoseconds, reduced
}

// NewRate returns the rate of units per period. It is an error unless both are
// positive, the period at most 100 years and the rate between one per year and 1e12
// per second.
func NewRate(units int64, period time.Duration) (Rate, error) {
	if units <= 0 || period <= 0 {
		return Rate{}, fmt.Errorf("algo: rate of %d per %v: both must be positive", units, period)
	}
	if period > maxWritten {
		return Rate{}, fmt.Errorf("algo: rate of %d per %v: the longest period is %v", units, period, maxWritten)
	}
	n, p := uint64(units), uint64(period)
	g := gcd(n, p)
	n, p = n/g, p/g
	if product(maxPerNano, p).Less(Ticks{lo: n}) {
		return Rate{}, fmt.Errorf("algo: rate of %d per %v is above the largest, 1e12 per second", units, period)
	}
	if product(n, uint64(maxPeriod)).Less(Ticks{lo: p}) {
		return Rate{}, fmt.Errorf("algo: rate of %d per %v is below the smallest, one per year", units, period)
	}
	return Rate{n, p}, nil
}

// PerSecond returns the rate of units per second; it panics unless units is
// between 1 and 1e12. For rates that come from outside use [NewRate].
func PerSecond(units int64) Rate {
	r, err := NewRate(units, time.Second)
	if err != nil {
		panic(err)
	}
	return r
}

// IsZero reports whether r is the zero Rate, which no constructor returns.
func (r Rate) IsZero() bool { return r.n == 0 }

// Compare returns -1, 0 or +1 as r is slower than, equal to or faster than o.
func (r Rate) Compare(o Rate) int {
	a, b := product(r.n, o.p), product(o.n, r.p)
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

// PerSecond returns r in units per second, as near as a float64 comes.
func (r Rate) PerSecond() float64 {
	if r.p == 0 {
		return 0
	}
	return float64(r.n) * float64(time.Second) / float64(r.p)
}

// Fraction returns r exactly, in units per nanosecond.
func (r Rate) Fraction() *big.Rat {
	if r.p == 0 {
		return new(big.Rat)
	}
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(r.n), new(big.Int).SetUint64(r.p))
}

// Over returns how many units r brings in d, rounded up; at most 2^63-1.
func (r Rate) Over(d time.Duration) int64 {
	if r.p == 0 || d <= 0 {
		return 0
	}
	q, exact := product(r.n, uint64(d)).quotient(r.p)
	if !exact {
		q = min(q, 1<<63-2) + 1
	}
	return int64(min(q, 1<<63-1))
}

// Takes returns how long r needs for units, rounded up to the nanosecond; at
// most 2^63-1 ns.
func (r Rate) Takes(units int64) time.Duration {
	if r.n == 0 || units <= 0 {
		return 0
	}
	q, exact := product(uint64(units), r.p).quotient(r.n)
	if !exact {
		q = min(q, 1<<63-2) + 1
	}
	return time.Duration(min(q, 1<<63-1))
}

// String writes r over the shortest of second, minute, hour and day in which it
// is a whole number of units: "1000/s", "5/m", "1/d"; else, as "7/30s", over
// the shortest time in which it is.
func (r Rate) String() string {
	if r.p == 0 {
		return "0/s"
	}
	for _, u := range [...]struct {
		d    time.Duration
		name string
	}{{time.Second, "s"}, {time.Minute, "m"}, {time.Hour, "h"}, {24 * time.Hour, "d"}} {
		if hi, lo := bits.Mul64(r.n, uint64(u.d)); hi == 0 && lo%r.p == 0 {
			return fmt.Sprintf("%d/%s", lo/r.p, u.name)
		}
	}
	return fmt.Sprintf("%d/%v", r.n, time.Duration(r.p))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
