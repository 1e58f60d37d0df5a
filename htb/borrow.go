package htb

import "fmt"

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
	// FairShare: what there is to borrow is for other children, by prio and quantum.
	FairShare
	// AlsoLimit: one of the leaf's further limits has no room.
	AlsoLimit
	// NoStore: the class is shared with other gateways, what they use is not known, and
	// it is closed until it is.
	NoStore
)

// String names the reason as reports do.
func (r Reason) String() string {
	switch r {
	case AtCeil:
		return "ceil"
	case NothingToBorrow:
		return "nothing to borrow"
	case FairShare:
		return "fair share"
	case AlsoLimit:
		return "also"
	case NoStore:
		return "no store"
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
	if !x.alsoHas(now, need) {
		return verdict{0, AlsoLimit}
	}
	if x.hub.closes() {
		if j, ok := x.closed(); ok {
			return verdict{j, NoStore}
		}
	}
	nearest, top := 0, 0 // nobody below nearest can lend: it, or one above it, has no tokens
	for j, y := 0, x; y != nil; j, y = j+1, y.parent {
		if !y.underCeil(now, need) {
			if l := x.loan(now, need, nearest, j-1, false); l.blocked > 0 {
				return verdict{l.blocked, NothingToBorrow}
			}
			return verdict{j, AtCeil}
		}
		if top = j; !y.hasRate(now, need) {
			nearest = j + 1
		}
	}
	if nearest == 0 {
		return verdict{}
	}
	l := x.loan(now, need, nearest, top, true)
	if at := l.shared; l.lender == 0 && at > 0 { // is it only for the others that it does not pass?
		if l = x.loan(now, need, nearest, top, false); l.lender > 0 {
			return verdict{at, FairShare}
		}
	}
	switch {
	case l.lender > 0:
		return verdict{by: l.lender}
	case l.blocked > 0:
		return verdict{l.blocked, NothingToBorrow}
	}
	return verdict{top, NothingToBorrow}
}

// loan is what a walk from a leaf up to a lender finds, as levels above the leaf;
// 0 is none.
type loan struct {
	lender  int
	blocked int // the first class whose ceil a loan from above cannot pass
	shared  int // the first class that keeps something for other children
}

// loan looks for the nearest class to lend need to the leaf x, not under nearest and
// not above top. With fair, each class on the way keeps for its other children what
// is theirs by prio and quantum.
func (x *class) loan(now Time, need Ticks, nearest, top int, fair bool) (l loan) {
	leaf, at := x, place(0)
	for k := 1; k <= top; k++ {
		if fair {
			if at = x.place(now, at); at > 0 && l.shared == 0 {
				l.shared = k
			}
		}
		x = x.parent
		reserve := x.reserved(now)
		if !x.underCeil(now, x.leaving(now, need, x.ceilOver, at, leaf).Add(reserve)) {
			l.blocked = k
			return l
		}
		if k >= nearest && x.hasRate(now, x.leaving(now, need, x.rateOver, at, leaf).Add(reserve)) {
			l.lender = k
			return l
		}
	}
	return l
}

// alsoHas reports whether all further limits hold need.
func (x *class) alsoHas(now Time, need Ticks) bool {
	for i, b := range x.also {
		if !b.Has(x.alsoTAT[i], now, need) {
			return false
		}
	}
	return true
}

func (x *class) chargeAlso(now Time, need Ticks) {
	for i, b := range x.also {
		x.alsoTAT[i] = b.Charge(x.alsoTAT[i], now, need)
	}
}

// charge books cost: ceil on the whole path, rate from the lender up. Each class
// counts in ticks of its own plan: a hold may outlive the tree it was made in.
func (x *class) charge(now Time, lender int, cost int64) {
	x.chargeAlso(now, x.ticks.Cost(cost))
	for j := 0; x != nil; j, x = j+1, x.parent {
		need := x.ticks.Cost(cost)
		x.ceilTAT = x.ceil.Charge(x.ceilTAT, now, need)
		if j >= lender {
			x.chargeRate(now, need)
		}
		if x.cold && cost > 0 {
			x.heat(now)
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
		if x.cold && cost > 0 {
			x.heat(now)
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

// remaining returns the most units that would pass in one request now.
func (x *class) remaining(now Time) int64 {
	most, over := int64(0), x.maxCost
	for over > most { // what passes at some cost passes at any lower one
		if mid := over - (over-most)/2; x.decide(now, x.ticks.Cost(mid)).why == 0 {
			most = mid
		} else {
			over = mid - 1
		}
	}
	return most
}
