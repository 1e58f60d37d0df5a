package redisgcra

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"time"

	"github.com/go-sluice/sluice/algo"
)

const (
	// maxDenominator: the sum of two fractions below it stays exact in a double.
	maxDenominator = 1 << 52
	// maxRefill is the longest that a bucket may need to fill, in microseconds. With
	// the time of day, 1.8e15, a TAT stays below 5e15, and so exact, until 2150.
	maxRefill = uint64(100 * 366 * 24 * time.Hour / time.Microsecond)
)

// Limit is a rate and how many units may be saved up while idle. Limits compare with ==.
type Limit struct {
	Rate  algo.Rate
	Burst int64 // at least 1
}

// span is a time: whole microseconds and a numerator over a bucket's denominator.
type span struct{ us, num uint64 }

// bucket is a Limit in the script's units.
type bucket struct {
	burst int64
	unit  uint64 // a unit takes unit/den microseconds, in lowest terms
	den   uint64
	size  span // burst units
}

// newBucket returns the bucket of a limit. It is an error if rate or burst are not
// positive, if it takes more than 100 years to fill, or if its fraction of a
// microsecond has no exact denominator below 2^52 (rates such as a prime above 4e12
// per year).
func newBucket(l Limit) (bucket, error) {
	if l.Rate.IsZero() || l.Burst < 1 {
		return bucket{}, fmt.Errorf("redisgcra: limit of %v with burst %d: rate and burst must be positive", l.Rate, l.Burst)
	}
	micro := new(big.Rat).Inv(l.Rate.Fraction())
	micro.Quo(micro, big.NewRat(int64(time.Microsecond), 1))
	if !micro.Num().IsUint64() || !micro.Denom().IsUint64() || micro.Denom().Uint64() > maxDenominator {
		return bucket{}, fmt.Errorf("redisgcra: rate %v cannot be kept exactly: its period is a fraction of %v microseconds", l.Rate, micro.Denom())
	}
	b := bucket{burst: l.Burst, unit: micro.Num().Uint64(), den: micro.Denom().Uint64()}
	if hi, lo := bits.Mul64(uint64(l.Burst), b.unit); !below(hi, lo, b.den, maxRefill) {
		return bucket{}, fmt.Errorf("redisgcra: burst %d takes more than 100 years at %v", l.Burst, l.Rate)
	}
	b.size = b.cost(l.Burst)
	return b, nil
}

// below reports whether (hi, lo)/den is at most most.
func below(hi, lo, den, most uint64) bool {
	mhi, mlo := bits.Mul64(most, den)
	return hi < mhi || hi == mhi && lo <= mlo
}

// cost returns how long the bucket needs for units, 0 or more: exactly, and for more
// than a burst any span that is longer than one.
func (b *bucket) cost(units int64) span {
	if units > b.burst {
		return span{us: b.size.us + 1}
	}
	hi, lo := bits.Mul64(uint64(units), b.unit)
	us, num := bits.Div64(hi, lo, b.den)
	return span{us, num}
}

// remaining returns how many whole units the bucket holds while owed is missing.
func (b *bucket) remaining(owed span) int64 {
	hi, lo := bits.Mul64(uint64(b.burst), b.unit)
	ohi, olo := bits.Mul64(owed.us, b.den)
	olo, carry := bits.Add64(olo, owed.num, 0)
	lo, borrow := bits.Sub64(lo, olo, 0)
	hi, borrow = bits.Sub64(hi, ohi+carry, borrow)
	if borrow != 0 || hi >= b.unit { // only an answer that no script gave
		return 0
	}
	units, _ := bits.Div64(hi, lo, b.unit)
	return int64(units)
}

// reset returns how long until nothing is missing, rounded up to the microsecond.
func (b *bucket) reset(owed span) time.Duration {
	return duration(owed.us, owed.num > 0)
}

// until returns how long until the bucket, with owed missing, holds units: rounded up
// to the microsecond, 0 if it does, and the longest there is if it never will.
func (b *bucket) until(owed span, units int64) time.Duration {
	if units > b.burst {
		return math.MaxInt64
	}
	c := b.cost(units)
	us, num := owed.us+c.us, owed.num+c.num
	if num >= b.den {
		us, num = us+1, num-b.den
	}
	switch {
	case us < b.size.us || us == b.size.us && num <= b.size.num:
		return 0
	case num < b.size.num: // borrowing a microsecond: what is left of it is rounded up again
		return duration(us-b.size.us, false)
	}
	return duration(us-b.size.us, num > b.size.num)
}

func duration(us uint64, more bool) time.Duration {
	if more {
		us++
	}
	return time.Duration(us) * time.Microsecond
}
