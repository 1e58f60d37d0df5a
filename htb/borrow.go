package htb

import (
	"fmt"

	"github.com/go-sluice/sluice/algo"
)

// Reason says why a request was refused.
type Reason uint8

// The reasons of a refusal; the zero Reason is that of an admission.
const (
	_ Reason = iota
	// AtCeil: a class on the path has not enough under its ceil.
	AtCeil
	// NothingToBorrow: the leaf is out of tokens, and so is the class, or what it has
	// its other children may claim.
	NothingToBorrow
	// AlsoLimit: one of the leaf's further limits has no room.
	AlsoLimit
)

// String names the reason as reports do.
func (r Reason) String() string {
	switch r {
	case AtCeil:
		return "ceil"
	case NothingToBorrow:
		return "nothing to borrow"
	case AlsoLimit:
		return "also"
	}
	return ""
}

// verdict is what the walk up the tree found. by is the number of levels above
// the leaf of the class that lends, or of the one that refuses.
type verdict struct {
	by  int
	why Reason // 0: allowed
}

// decide walks from the leaf to the root and says who lends need, or who
// refuses. It changes nothing.
//
// The lender is the nearest class with tokens all of whose ancestors have tokens
// too. A leaf may use all that it has. A class above lends only what lies over its
// reserve, and the same holds for the ceil of each class that the loan passes
// through, so that whatever is lent, every child finds what it was promised.
func (x *class) decide(now Time, need Ticks) verdict {
	for i, b := range x.also {
		if !b.Has(x.alsoTAT[i], now, need) {
			return verdict{0, AlsoLimit}
		}
	}
	leaf, lender, blocked, root := x, -1, -1, 0
	for j := 0; x != nil; j, x = j+1, x.parent {
		root = j
		if !x.underCeil(now, need) {
			if blocked >= 0 {
				return verdict{blocked, NothingToBorrow}
			}
			return verdict{j, AtCeil}
		}
		has := x.hasRate(now, need)
		if lender >= 0 && !has { // out of tokens above a lender: only above here may lend
			lender = -1
			for i, y := 1, leaf.parent; y != x && blocked < 0; i, y = i+1, y.parent {
				if !y.underCeil(now, need.Add(y.reserved(now))) {
					blocked = i
				}
			}
		}
		switch {
		case lender >= 0 || blocked >= 0:
		case j == 0:
			if has {
				lender = 0
			}
		default:
			all := need.Add(x.reserved(now))
			if !x.underCeil(now, all) {
				blocked = j
			} else if has && x.hasRate(now, all) {
				lender = j
			}
		}
	}
	switch {
	case lender >= 0:
		return verdict{by: lender}
	case blocked >= 0:
		return verdict{blocked, NothingToBorrow}
	}
	return verdict{root, NothingToBorrow}
}

// charge books cost: ceil on the whole path, rate from the lender up. Each class
// counts in ticks of its own plan: a hold may outlive the tree it was made in.
func (x *class) charge(now Time, lender int, cost int64) {
	for i, b := range x.also {
		x.alsoTAT[i] = b.Charge(x.alsoTAT[i], now, x.ticks.Cost(cost))
	}
	for j := 0; x != nil; j, x = j+1, x.parent {
		need := x.ticks.Cost(cost)
		x.ceilTAT = x.ceil.Charge(x.ceilTAT, now, need)
		if j >= lender {
			x.chargeRate(now, need)
		}
	}
}

// refund takes back part of a charge with the same lender.
func (x *class) refund(now Time, lender int, cost int64) {
	for i, b := range x.also {
		x.alsoTAT[i] = b.Refund(x.alsoTAT[i], x.ticks.Cost(cost))
	}
	for j := 0; x != nil; j, x = j+1, x.parent {
		need := x.ticks.Cost(cost)
		x.ceilTAT = x.ceil.Refund(x.ceilTAT, need)
		if j >= lender {
			x.refundRate(now, need)
		}
	}
}

// unaffordable says why no state of the buckets could admit a cost above maxCost.
// The root can always be the lender, so only its burst, the cbursts and further
// limits bound it.
func (x *class) unaffordable(cost int64) error {
	for _, l := range x.spec.Also {
		if cost > l.Burst {
			return fmt.Errorf("htb: class %q: cost %d is over the burst %d of its limit %v: %w", x.path(), cost, l.Burst, l.Rate, ErrCost)
		}
	}
	leaf := x
	for ; ; x = x.parent {
		if cost > x.spec.CBurst {
			return fmt.Errorf("htb: class %q: cost %d is over the cburst %d of %q: %w", leaf.path(), cost, x.spec.CBurst, x.path(), ErrCost)
		}
		if x.parent == nil {
			return fmt.Errorf("htb: class %q: cost %d is over the burst %d of %q, and none below it could lend it either: %w", leaf.path(), cost, x.spec.Burst, x.path(), ErrCost)
		}
	}
}

// remaining returns the most that would pass now, in ticks: over all lenders, the
// least of what the classes on the way leave.
func (x *class) remaining(now Time) Ticks {
	free := func(b algo.Bucket, tat, reserve Ticks) Ticks { return b.Tokens(tat, now).Sub(reserve) }
	least := func(a, b Ticks) Ticks {
		if b.Less(a) {
			return b
		}
		return a
	}
	var best Ticks
	below := x.ceil.Tokens(x.ceilTAT, now) // under the ceils of the classes below the lender, and its own
	for i, b := range x.also {
		below = least(below, b.Tokens(x.alsoTAT[i], now))
	}
	for lender := x; lender != nil; lender = lender.parent {
		var reserve Ticks
		if lender != x {
			reserve = lender.reserved(now)
			below = least(below, free(lender.ceil, lender.ceilTAT, reserve))
		}
		m := least(below, free(lender.rate, lender.rateTAT, reserve))
		for y := lender.parent; y != nil; y = y.parent {
			m = least(m, least(y.rate.Tokens(y.rateTAT, now), y.ceil.Tokens(y.ceilTAT, now)))
		}
		if best.Less(m) {
			best = m
		}
	}
	return best
}
