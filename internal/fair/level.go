package fair

import (
	"cmp"
	"math"
	"slices"
)

// claim is one party in weighted max-min sharing: it rises at the speed of its weight,
// up to its limit.
type claim struct {
	limit, weight float64
	full          float64 // the level at which it reaches its limit: limit/weight
	rest          float64 // set by level: the weight of this claim and of all that are full no earlier
}

func newClaim(limit, weight float64) claim {
	return claim{limit: limit, weight: weight, full: limit / weight}
}

// level returns the height to which amount fills the claims: with it, the sum of
// min(limit, weight*level) is amount. It is +Inf when there is enough for all of them;
// an amount below zero (a budget in debt) fills nothing.
// Otherwise it leaves claims sorted by full.
//
// The claims are visited in the order in which they fill, so one pass over the sorted slice finds the
// exact answer: no rounds, no tolerance, O(n log n). rest is summed from the far end instead of
// subtracted from the total, which would leave nothing of a small weight beside a huge one.
func level(amount float64, claims []claim) float64 {
	if math.IsInf(amount, 1) {
		return amount
	}
	slices.SortFunc(claims, func(a, b claim) int { return cmp.Compare(a.full, b.full) })
	rest := 0.0
	for i := len(claims) - 1; i >= 0; i-- {
		rest += claims[i].weight
		claims[i].rest = rest
	}
	reached := 0.0 // rounding must not let the level fall below a claim already filled
	for _, c := range claims {
		if c.full*c.rest > amount {
			return max(reached, amount/c.rest)
		}
		amount -= c.limit
		reached = c.full
	}
	return math.Inf(1)
}

// at returns what a claim of this limit and weight holds at a level.
func at(level, limit, weight float64) float64 { return min(limit, weight*level) }
