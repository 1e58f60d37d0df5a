package htb

import (
	"math"
	"math/big"
	"slices"
	"time"
)

// refShare is what a class of the reference has to share excess by.
type refShare struct {
	mark    *big.Int // as a child
	step    *big.Int
	turn    int
	lead    *big.Int // as a parent
	last    float64
	ticks   *big.Int // in a unit
	window  uint64
	over    int64
	loans   [][]refLoan // by turn
	claim   refClaim
	staked  *Time // as a leaf: until when its last claim is or was, if it was not served since
	keeping uint64
}

// refLoan is where a clock stood after a loan, and the largest mark then.
type refLoan struct {
	at       Time
	now, top *big.Int
}

type refClaim struct {
	by    *ref
	need  *big.Rat
	at    uint64
	until Time
}

// share works out what the children of x need.
func (x *ref) share() {
	x.fair.mark = new(big.Int)
	if len(x.children) == 0 {
		return
	}
	var prios []int
	most, last := 0., 0.
	promised := int64(0)
	for _, c := range x.children {
		prios = append(prios, c.spec.Prio)
		most, last = max(most, c.spec.Weight()), max(last, c.fair.last)
		promised += c.spec.Burst
	}
	if x.reserve != nil {
		promised = x.reserve.size.Num().Int64()
	}
	slices.Sort(prios)
	prios = slices.Compact(prios)
	n := float64(len(prios))
	x.fair.over = x.spec.Burst - promised
	x.fair.window = uint64(max(100*time.Millisecond, x.spec.Ceil.Takes(max(4, x.fair.over))))
	x.fair.lead = new(big.Int).Mul(big.NewInt(1<<24/32), big.NewInt(x.fair.over))
	x.fair.loans = make([][]refLoan, len(prios))
	x.fair.last = (n - 1 + .25 + .75*last) / n
	x.fair.keeping = uint64((1 - 2./3*math.Pow(.8, n-1)) / x.fair.last * (1 << 32))
	for _, c := range x.children {
		c.fair.turn = slices.Index(prios, c.spec.Prio)
		c.fair.step = big.NewInt(int64(math.Round((1 << 24) * most / c.spec.Weight())))
	}
}

// setTicks tells all classes how many ticks make a unit: so many that every rate is
// a whole number of them.
func (x *ref) setTicks(ticks *big.Int) {
	root := x
	var walk func(x *ref, do func(x *ref))
	walk = func(x *ref, do func(x *ref)) {
		do(x)
		for _, c := range x.children {
			walk(c, do)
		}
	}
	walk(root, func(x *ref) {
		for _, r := range []*big.Rat{x.rate.perNano, x.ceil.perNano} {
			ticks = new(big.Int).Div(new(big.Int).Mul(ticks, r.Denom()), new(big.Int).GCD(nil, nil, ticks, r.Denom()))
		}
	})
	walk(root, func(x *ref) { x.fair.ticks = ticks })
}

func (s *refShare) windowAt(t Time) uint64 { return (uint64(t) + 1<<63) / s.window }
func (s *refShare) begin(window uint64) Time {
	return Time(window*s.window - 1<<63)
}

// before returns where a clock stood before a time, and the largest mark.
func (s *refShare) before(turn int, t Time) (now, top *big.Int) {
	now, top = new(big.Int), new(big.Int)
	for _, l := range s.loans[turn] {
		if l.at < t {
			now, top = l.now, l.top
		}
	}
	return now, top
}

// forgotten returns the largest mark before the epoch before t's.
func (s *refShare) forgotten(turn int, t Time) *big.Int {
	_, top := s.before(turn, s.begin((s.windowAt(t)/32-1)*32))
	return top
}

func most(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// clockAt returns a clock: after all loans so far, at the begin of the window of t,
// and at that of the one before.
func (s *refShare) clockAt(turn int, t Time) (now, begin, least *big.Int) {
	low := s.forgotten(turn, t)
	now, _ = s.before(turn, math.MaxInt64)
	begin, _ = s.before(turn, s.begin(s.windowAt(t)))
	least, _ = s.before(turn, s.begin(s.windowAt(t)-1))
	return most(now, low), most(begin, low), most(least, low)
}

// places returns the place of x at every class above it, by level.
func (x *ref) places(now Time) []uint64 {
	out := []uint64{0}
	for ; x.parent != nil; x = x.parent {
		below := out[len(out)-1]
		s := &x.parent.fair
		before, all := uint64(0), uint64(1)
		for turn, loans := range s.loans {
			if turn == x.fair.turn || len(loans) == 0 || s.windowAt(now)-s.windowAt(loans[len(loans)-1].at) >= 32 {
				continue
			}
			if all++; turn < x.fair.turn {
				before++
			}
		}
		clock, begin, least := s.clockAt(x.fair.turn, now)
		pace := new(big.Int).Mul(new(big.Int).Sub(begin, least), new(big.Int).SetUint64(below))
		mark := new(big.Int).Sub(x.fair.mark, s.lead)
		mark = mark.Add(most(mark, new(big.Int)), pace.Rsh(pace, 32))
		at := before << 32
		if mark.Cmp(clock) > 0 {
			at += 1<<30 + below/4*3
		}
		out = append(out, at/all)
	}
	return out
}

// leaving returns what x must have over its reserve for c to be lent at a place.
func (x *ref) leaving(now Time, c *big.Rat, b *refBucket, at uint64, leaf *ref) *big.Rat {
	promised := new(big.Rat).SetInt64(x.spec.Burst - x.fair.over)
	rest := new(big.Rat).Sub(new(big.Rat).Sub(b.size, promised), c)
	if at == 0 || rest.Sign() < 0 {
		return c
	}
	ticks := new(big.Rat).Mul(rest, new(big.Rat).SetInt(x.fair.ticks)) // whole
	part := new(big.Int).Mul(ticks.Num(), new(big.Int).SetUint64(at*x.fair.keeping>>32))
	keep := new(big.Rat).SetFrac(part.Rsh(part, 32), x.fair.ticks)
	if k := x.fair.claim; k.by != nil && k.by != leaf && now < k.until && k.at < at && keep.Cmp(k.need) < 0 {
		keep = k.need
	}
	return new(big.Rat).Add(c, keep)
}

// lend books a loan with the clocks.
func (x *ref) lend(now Time, lender int, cost int64) {
	if cost > 0 && x.fair.staked != nil {
		x.fair.staked = nil
		for y := x.parent; y != nil; y = y.parent {
			if y.fair.claim.by == x {
				y.fair.claim = refClaim{}
			}
		}
	}
	for ; cost > 0 && lender > 0; lender-- {
		s := &x.parent.fair
		clock, _, least := s.clockAt(x.fair.turn, now)
		from := most(x.fair.mark, least)
		x.fair.mark = new(big.Int).Add(from, new(big.Int).Mul(x.fair.step, big.NewInt(cost)))
		_, top := s.before(x.fair.turn, math.MaxInt64)
		s.loans[x.fair.turn] = append(s.loans[x.fair.turn], refLoan{now, most(clock, new(big.Int).Sub(from, s.lead)), most(top, x.fair.mark)})
		x = x.parent
	}
}

// stake makes a claim for a refused request.
func (x *ref) stake(now Time, cost int64, wait time.Duration) {
	c := big.NewRat(cost, 1)
	if wait == Never || cost == 0 || x.parent == nil || x.ceil.fillTo(now).Cmp(c) < 0 {
		return
	}
	if s := x.fair.staked; s != nil && now >= *s && now < s.Add(32*time.Duration(x.parent.fair.window)) {
		return
	}
	leaf, places := x, x.places(now)
	for k := 1; x.parent != nil; k++ {
		s := &x.parent.fair
		clock, begin, least := s.clockAt(x.fair.turn, now)
		pace := new(big.Int).Mul(new(big.Int).Sub(begin, least), new(big.Int).SetUint64(places[k-1]))
		mark := new(big.Int).Sub(x.fair.mark, s.lead)
		if mark.Add(most(mark, new(big.Int)), pace.Rsh(pace, 32)).Cmp(clock) > 0 {
			return
		}
		x = x.parent
		lacks := x.leaving(now, c, x.ceil, places[k], leaf)
		if x.parent != nil && x.ceil.fillTo(now).Cmp(new(big.Rat).Add(lacks, x.keeps(now))) >= 0 {
			continue
		}
		k0 := x.fair.claim
		if k0.by == nil || k0.by == leaf || now >= k0.until || places[k] < k0.at || places[k] == k0.at && k0.need.Cmp(lacks) < 0 {
			w := time.Duration(x.fair.window)
			until := min(now.Add(wait), window(w).begins(window(w).at(now)+32)).Add(w / 4)
			x.fair.claim, leaf.fair.staked = refClaim{leaf, lacks, places[k], until}, &until
		}
		return
	}
}
