package htb

// quick admits a request where that is easy to tell, or else changes nothing. It returns
// how many levels above x the lender is.
func (x *class) quick(now Time, cost int64) (lender int, ok bool) {
	p := x.plan
	if uint64(cost-1) >= uint64(p.maxCost) || !p.alone && !x.inTouch() {
		return 0, false
	}
	need := p.ticks.Cost(cost)
	if x.unread {
		t := x.parent.in.dyn.table
		if t.limits == 0 && t.record(x.slot-1).own(x, now, need, cost) {
			return 0, true
		}
		x.fetch()
	}
	if len(p.also) > 0 && !x.alsoHas(now, need) {
		return 0, false
	}
	was := x.rateTAT
	rate, lacks := p.rate.Charged(was, now, need)
	ceil, over := rate, lacks
	if !p.one || x.ceilTAT != was {
		ceil, over = p.ceil.Charged(x.ceilTAT, now, need)
	}
	up := x.parent
	switch {
	case p.ceil.Size().Less(over):
		return 0, false
	case !p.rate.Size().Less(lacks):
		if up != nil {
			if !up.own(now, need, cost) {
				return 0, false
			}
			if up.oversub || x.claimTAT != was || x.filling == 0 {
				x.keep(now, need)
			} else { // the same
				x.claimTAT = rate
				up.sumTAT = up.sumTAT.Add(rate.Sub(was))
			}
		}
		x.rateTAT, x.ceilTAT = rate, ceil
		x.counts.gets = plus(x.counts.gets, cost)
	case up == nil || !p.alone:
		return 0, false
	default:
		if lender = up.lent(now, need, cost, 1); lender == 0 {
			return 0, false
		}
		x.passOn(now, ceil, cost)
	}
	if len(p.also) > 0 {
		x.chargeAlso(now, need)
	}
	if x.staked {
		x.unstake()
	}
	return lender, true
}

// own charges a request that a class below pays for to x and to all classes above it, if
// each has the tokens: what decide, charge and count do in the case that matters most, in
// one walk up the tree and back. For costs above 0.
func (x *class) own(now Time, need Ticks, cost int64) bool {
	p, was := x.plan, x.rateTAT
	rate, owed := p.rate.Charged(was, now, need)
	if p.rate.Size().Less(owed) {
		return false
	}
	ceil := rate
	if !p.one || x.ceilTAT != was {
		if ceil, owed = p.ceil.Charged(x.ceilTAT, now, need); p.ceil.Size().Less(owed) {
			return false
		}
	}
	if up := x.parent; up != nil {
		if !up.own(now, need, cost) {
			return false
		}
		if up.oversub || x.claimTAT != was || x.filling == 0 {
			x.keep(now, need)
		} else { // the same
			x.claimTAT = rate
			up.sumTAT = up.sumTAT.Add(rate.Sub(was))
		}
	}
	x.rateTAT, x.ceilTAT = rate, ceil
	x.counts.gets = plus(x.counts.gets, cost)
	return true
}

// lent is own for a request of a leaf below that the first class lends to that has
// tokens, if it has plenty, and so have those that the loan passes through: so much that
// it does not matter what they keep for others, nor for whom. It returns the level of the
// lender above the leaf, 0 if there is more to decide; x is at a level itself.
func (x *class) lent(now Time, need Ticks, cost int64, level int) (lender int) {
	p, was := x.plan, x.rateTAT
	rate, lacks := p.rate.Charged(was, now, need)
	ceil, over := rate, lacks
	if !p.one || x.ceilTAT != was {
		ceil, over = p.ceil.Charged(x.ceilTAT, now, need)
	}
	if p.lendCeil.Less(over) || x.in.claim.by != nil {
		return 0
	}
	up := x.parent
	switch {
	case !p.lendRate.Less(lacks):
		if up != nil {
			if !up.own(now, need, cost) {
				return 0
			}
			x.keep(now, need)
		}
		x.rateTAT, x.ceilTAT = rate, ceil
		x.counts.gets, x.counts.lends = plus(x.counts.gets, cost), plus(x.counts.lends, cost)
		return level
	case up == nil || !p.rate.Size().Less(lacks):
		return 0
	}
	if lender = up.lent(now, need, cost, level+1); lender > 0 {
		x.passOn(now, ceil, cost)
	}
	return lender
}

// passOn books a loan to x, or through it, of which ceil is its ceilTAT.
func (x *class) passOn(now Time, ceil Ticks, cost int64) {
	x.ceilTAT = ceil
	x.counts.gets, x.counts.borrows = plus(x.counts.gets, cost), plus(x.counts.borrows, cost)
	x.advance(now, cost)
}

// keep takes what x is charged from the reserve of its parent.
func (x *class) keep(now Time, need Ticks) {
	if up := x.parent; up.oversub {
		up.in.reserveTAT = up.reserve.Charge(up.in.reserveTAT, now, need)
	} else {
		x.reclaim(now, need)
	}
}

// reclaim takes cost from what x can claim of its parent's reserve.
func (x *class) reclaim(now Time, cost Ticks) {
	up, before := x.parent, x.claimTAT
	x.claimTAT = x.rate.Charge(before, now, cost)
	if x.filling > 0 { // or full again since, which expire has not seen
		up.sumTAT = up.sumTAT.Add(x.claimTAT.Sub(before))
	} else if !cost.IsZero() {
		up.startFilling(now, x)
	}
}
