package algo

import (
	"math/big"
	"math/bits"
)

// Ticks is an amount of tokens, or an instant, in fractions of a unit: a [Scale]
// says how many ticks make one unit. Sums stop at the largest value and
// differences at zero, so that no input can wrap a bucket round to full.
type Ticks struct{ hi, lo uint64 }

var maxTicks = Ticks{^uint64(0), ^uint64(0)}

// Add returns a+b, at most 2^128-1.
func (a Ticks) Add(b Ticks) Ticks {
	lo, c := bits.Add64(a.lo, b.lo, 0)
	hi, c := bits.Add64(a.hi, b.hi, c)
	if c != 0 {
		return maxTicks
	}
	return Ticks{hi, lo}
}

// Sub returns a-b, at least 0.
func (a Ticks) Sub(b Ticks) Ticks {
	lo, c := bits.Sub64(a.lo, b.lo, 0)
	hi, c := bits.Sub64(a.hi, b.hi, c)
	if c != 0 {
		return Ticks{}
	}
	return Ticks{hi, lo}
}

// Less reports whether a < b.
func (a Ticks) Less(b Ticks) bool {
	_, c := bits.Sub64(a.lo, b.lo, 0)
	_, c = bits.Sub64(a.hi, b.hi, c)
	return c != 0
}

// Hash returns a number that differs for most amounts that do.
func (a Ticks) Hash() uint64 { return (a.lo ^ a.hi) * 0x9e3779b97f4a7c15 >> 32 }

// IsZero reports whether a is 0.
func (a Ticks) IsZero() bool { return a == Ticks{} }

// Float returns a as near as a float64 comes.
func (a Ticks) Float() float64 { return float64(a.hi)*(1<<64) + float64(a.lo) }

// Uint64 returns a as a number; ok is false when it is over 2^64-1.
func (a Ticks) Uint64() (v uint64, ok bool) { return a.lo, a.hi == 0 }

// Times returns n amounts of each.
func Times(n, each uint64) Ticks { return product(n, each) }

// Part returns a*f/2^32, rounded down.
func (a Ticks) Part(f uint32) Ticks {
	hi, lo := product(a.lo, uint64(f)), product(a.hi, uint64(f))
	return Ticks{lo.hi<<32 | lo.lo>>32, lo.lo << 32}.Add(Ticks{0, hi.hi<<32 | hi.lo>>32})
}

func product(a, b uint64) Ticks {
	hi, lo := bits.Mul64(a, b)
	return Ticks{hi, lo}
}

// quotient returns a/b rounded down, at most 2^64-1, and whether it was exact.
func (a Ticks) quotient(b uint64) (q uint64, exact bool) {
	if a.hi >= b {
		return ^uint64(0), false
	}
	q, r := bits.Div64(a.hi, a.lo, b)
	return q, r == 0
}

// Scaled returns a*num/den rounded up, at most 2^128-1. It is slow, and den must
// not be 0.
func (a Ticks) Scaled(num, den Ticks) Ticks {
	n := new(big.Int).Mul(a.big(), num.big())
	q, r := n.QuoRem(n, den.big(), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if q.BitLen() > 128 {
		return maxTicks
	}
	lo := new(big.Int).And(q, new(big.Int).SetUint64(1<<64-1)).Uint64()
	return Ticks{q.Rsh(q, 64).Uint64(), lo}
}

func (a Ticks) big() *big.Int {
	b := new(big.Int).SetUint64(a.hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(a.lo))
}
