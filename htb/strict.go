package htb

import (
	"math/bits"

	"github.com/go-sluice/sluice/queue"
)

// strictState is what the Strict dialect keeps of a class. A class stands in the rings
// of its parent under the levels from which what is queued below it can be paid: bit b
// of mask is set while a lender of level b is at or below it (level 0: a leaf that pays
// itself), or, for the parent's own level, while something below wants to borrow from
// the parent or from above.
//
// A class out of tokens lends nothing. What lenders below it pay it still lets pass, into
// debt if need be, since it promised it, and lends only once that is paid off. One that
// is oversubscribed promised more than there is: out of tokens, all below it borrow.
//
// INVARIANT: mask is what offers returns, and the class is in just those rings.
type strictState struct {
	mask   uint8
	capped Time // its ceil keeps it, and all below it, until then
	turns  [MaxDepth]*queue.Turn[*class]
	rings  [MaxDepth]*prios
}

// prios holds a round robin for each prio in use.
type prios struct {
	ring [8]*queue.RoundRobin[*class]
	used uint8 // prios whose ring has members
}

// inRate says that the class has tokens of its own: any, since what is queued may go
// into debt by an item and pay it off.
func (x *class) inRate(now Time) bool {
	return x.rate.Owed(x.rateTAT, now).Less(x.rate.Size())
}

// offers returns the levels under which x stands in its parent's rings.
func (s *Scheduler) offers(now Time, x *class) uint8 {
	sh := x.sh
	if sh.capped > now {
		return 0
	}
	var mask uint8
	if x.in == nil {
		if sh.fifo.Len() > 0 {
			mask = 1
		}
	} else {
		mask = sh.queuedBelow()
	}
	if mask == 0 || x.inRate(now) {
		return mask
	}
	kept := mask & (1<<sh.level - 1)
	if x.oversub {
		kept = 0
	}
	if kept != mask && x.parent != nil {
		kept |= 1 << x.parent.sh.level
	}
	return kept
}

// queuedBelow returns the levels whose rings have members.
func (sh *shaping) queuedBelow() (mask uint8) {
	for b, r := range sh.rings[:sh.level+1] {
		if r != nil && r.used != 0 {
			mask |= 1 << b
		}
	}
	return mask
}

// reconsider brings x up to date after its tokens or its queue changed.
func (s *Scheduler) reconsider(now Time, x *class) {
	at := now
	if !x.inRate(now) {
		at = latest(x.rate.When(x.rateTAT, x.ticks.Tick()))
	}
	if c := x.sh.capped; c > now && (at <= now || c < at) {
		at = c
	}
	s.sleep(x, now, at)
	s.refresh(x)
}

// refresh brings the rings above x up to date.
func (s *Scheduler) refresh(x *class) {
	now := s.tree.last
	for ; x.parent != nil; x = x.parent {
		mask := s.offers(now, x)
		changed := mask ^ x.sh.mask
		if changed == 0 {
			return
		}
		x.sh.mask = mask
		for ; changed != 0; changed &= changed - 1 {
			b := bits.TrailingZeros8(changed)
			if mask&(1<<b) != 0 {
				x.join(b)
			} else {
				x.leave(b)
			}
		}
	}
}

func (x *class) join(level int) {
	up := x.parent.sh
	if up.rings[level] == nil {
		up.rings[level] = &prios{}
	}
	p := up.rings[level]
	if p.ring[x.spec.Prio] == nil {
		p.ring[x.spec.Prio] = queue.NewRoundRobin[*class]()
	}
	if x.sh.turns[level] == nil {
		x.sh.turns[level] = &queue.Turn[*class]{Value: x, Quantum: x.quantum(), ID: x.sh.id}
	}
	p.ring[x.spec.Prio].Add(x.sh.turns[level])
	p.used |= 1 << x.spec.Prio
}

func (x *class) leave(level int) {
	p := x.parent.sh.rings[level]
	p.ring[x.spec.Prio].Remove(x.sh.turns[level])
	if p.ring[x.spec.Prio].Len() == 0 {
		p.used &^= 1 << x.spec.Prio
	}
}

// Turns are counted in fine units, so that the smallest weight is far above one of
// them and the largest, an item or so, gives no class more at a time than it must.
const fine = 1 << 16

// quantum returns what a turn adds to x, in fine units: 1 item for the sibling of the
// largest weight.
func (x *class) quantum() int64 {
	most := 0.0
	for _, c := range x.parent.children {
		most = max(most, c.spec.Weight())
	}
	if t := x.parent.template; t != nil {
		most = max(most, t.spec.Weight())
	}
	return max(1, int64(fine*x.spec.Weight()/most))
}

// dequeueStrict picks the lowest level that can pay for something, then goes down
// from the root, at each class by prio and then by turn. Where a ceil has not enough
// for the item so found, its class is put to sleep until it has, and keeps its turn.
func (s *Scheduler) dequeueStrict(now Time) *Item {
	for {
		root := s.tree.root
		mask := s.offers(now, root)
		if mask == 0 {
			return nil
		}
		level := bits.TrailingZeros8(mask)
		var path [MaxDepth]*queue.Turn[*class]
		var rings [MaxDepth]*queue.RoundRobin[*class]
		n, lender, x, all := 0, 0, root, false
		for ; x.in != nil; n++ {
			b := level
			if x.sh.level < level { // below the lender
				b = x.sh.level
				if all = all || x.oversub; all { // those with tokens borrow, too, and go first
					b = bits.TrailingZeros8(x.sh.queuedBelow())
				}
			}
			if x.sh.level <= level {
				lender++
			}
			p := x.sh.rings[b]
			rings[n] = p.ring[bits.TrailingZeros8(p.used)]
			path[n] = rings[n].First()
			x = path[n].Value
		}
		if capped := s.capped(now, x); capped != nil {
			s.reconsider(now, capped)
			continue
		}
		item := s.pop(x)
		item.lender = lender
		for i := range n {
			rings[i].Took(path[i], min(item.Cost, 1<<40)*fine)
		}
		x.charge(now, lender, item.Cost)
		for y := x; y != nil; y = y.parent {
			s.reconsider(now, y)
		}
		return item
	}
}

// capped returns the first class from the leaf up whose ceil has not enough for the
// head of the leaf's queue, having noted until when.
func (s *Scheduler) capped(now Time, leaf *class) *class {
	cost := leaf.sh.fifo.Head().Cost
	for x := leaf; x != nil; x = x.parent {
		need := x.ticks.Cost(min(cost, x.spec.CBurst)) // what no bucket holds is paid off as debt
		if !x.underCeil(now, need) {
			x.sh.capped = latest(x.ceil.When(x.ceilTAT, need))
			return x
		}
	}
	return nil
}
