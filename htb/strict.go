package htb

import (
	"math/bits"

	"github.com/go-sluice/sluice/queue"
)

// In the Strict dialect a class stands in the rings of its parent under the levels from
// which what is queued below it can be paid: bit b of its mask is set while a lender of
// level b is at or below it (level 0: a leaf that pays itself), or, for the parent's own
// level, while something below wants to borrow from the parent or from above.
//
// A class out of tokens lends nothing. What lenders below it pay it still lets pass, into
// debt if need be, since it promised it, and lends only once that is paid off. One that
// is oversubscribed promised more than there is: out of tokens, all below it borrow.
//
// INVARIANT: mask is what offers returns, and the class is in just those rings.

// rings are what an inner class keeps for its children: by level, a round robin for each
// prio.
type rings struct {
	next   [MaxDepth]*ring  // by level: of the lowest prio with members, nil if none has
	first  ring             // the first that is needed stands here
	made   bool             // it is needed
	levels [MaxDepth]*prios // nil before the first
	most   float64          // the largest weight of a child
	turns  [MaxDepth]turn   // of the class itself, under the levels between a leaf's and its parent's
	sched  *Scheduler
}

type ring = queue.RoundRobin[*shaping]

// prios holds the rings of a level.
type prios struct {
	ring [8]*ring
	used uint8 // prios whose ring has members
}

func newRings(s *Scheduler, p *plan) *rings {
	r := &rings{sched: s}
	for _, c := range p.children {
		r.most = max(r.most, c.spec.Weight())
	}
	if p.template != nil {
		r.most = max(r.most, p.template.spec.Weight())
	}
	return r
}

// inRate says that the class has tokens of its own: any, since what is queued may go
// into debt by an item and pay it off.
func (x *shaping) inRate(now Time) bool {
	return x.rate.Owed(x.rateTAT, now).Less(x.rate.Size())
}

// offers returns the levels under which x stands in its parent's rings.
func (x *shaping) offers(now Time, inRate bool) uint8 {
	if x.capped > now {
		return 0
	}
	mask := x.queued()
	if mask == 0 || inRate {
		return mask
	}
	kept := mask & (1<<x.level - 1)
	if x.oversub {
		kept = 0
	}
	if kept != mask && x.parent != nil {
		kept |= 1 << x.parent.level
	}
	return kept
}

// queued returns the levels of which something is queued at or below x.
func (x *shaping) queued() uint8 {
	if x.level == 0 && x.fifo.len > 0 {
		return 1
	}
	return x.below
}

// reconsider brings x up to date after its tokens or its queue changed.
func (s *Scheduler) reconsider(now Time, x *shaping) {
	at, inRate := now, x.inRate(now)
	if !inRate {
		at = latest(x.rate.When(x.rateTAT, s.ticks.Tick()))
	}
	if c := x.capped; c > now && (at <= now || c < at) {
		at = c
	}
	s.sleepers.sleep(x, now, at)
	s.refresh(x, inRate)
}

// refresh brings the rings above x up to date.
func (s *Scheduler) refresh(x *shaping, inRate bool) {
	now := s.tree.last
	for x.parent != nil {
		mask := x.offers(now, inRate)
		changed := mask ^ x.mask
		if changed == 0 {
			return
		}
		x.mask = mask
		for ; changed != 0; changed &= changed - 1 {
			b := bits.TrailingZeros8(changed)
			if mask&(1<<b) != 0 {
				x.join(b)
			} else {
				x.leave(b)
			}
		}
		x = x.parent
		inRate = x.inRate(now)
	}
}

// turn returns the turn of x under a level.
func (x *shaping) turn(level int) *turn {
	switch level {
	case 0:
		return &x.own
	case int(x.parent.level):
		return &x.borrowing
	}
	t := &x.in.turns[level]
	if t.Value == nil {
		*t = turn{Value: x, Quantum: x.own.Quantum, ID: x.own.ID}
	}
	return t
}

func (x *shaping) join(level int) {
	in := x.parent.in
	if in.levels[level] == nil {
		in.levels[level] = &prios{}
	}
	p := in.levels[level]
	if p.ring[x.prio] == nil {
		p.ring[x.prio] = in.ring()
	}
	p.ring[x.prio].Add(x.turn(level))
	p.used |= 1 << x.prio
	in.next[level] = p.ring[bits.TrailingZeros8(p.used)]
	x.parent.below |= 1 << level
}

func (r *rings) ring() *ring {
	if !r.made {
		r.made = true
		return &r.first
	}
	return &ring{}
}

func (x *shaping) leave(level int) {
	in := x.parent.in
	p := in.levels[level]
	p.ring[x.prio].Remove(x.turn(level))
	if p.ring[x.prio].Len() > 0 {
		return
	}
	if p.used &^= 1 << x.prio; p.used == 0 {
		in.next[level] = nil
		x.parent.below &^= 1 << level
		return
	}
	in.next[level] = p.ring[bits.TrailingZeros8(p.used)]
}

// Turns are counted in fine units, so that the smallest weight is far above one of
// them and the largest, an item or so, gives no class more at a time than it must.
const fine = 1 << 16

// quantum returns what a turn adds to a child, in fine units: 1 item for the one of the
// largest weight.
func (r *rings) quantum(p *plan) int64 {
	return max(1, int64(fine*p.spec.Weight()/r.most))
}

// dequeueStrict picks the lowest level that can pay for something, then goes down
// from the root, at each class by prio and then by turn. Where a ceil has not enough
// for the item so found, its class is put to sleep until it has, and keeps its turn.
func (s *Scheduler) dequeueStrict(now Time) *Item {
	for {
		root := s.tree.root.sh
		mask := root.offers(now, root.inRate(now))
		if mask == 0 {
			return nil
		}
		level := uint8(bits.TrailingZeros8(mask))
		var path [MaxDepth]*turn
		var rings [MaxDepth]*ring
		n, lender, x, all := 0, 0, root, false
		for ; x.level > 0; n++ {
			b := level
			if x.level < level { // below the lender
				b = x.level
				if all = all || x.oversub; all { // those with tokens borrow, too, and go first
					b = uint8(bits.TrailingZeros8(x.below))
				}
			}
			if x.level <= level {
				lender++
			}
			rings[n] = x.in.next[b]
			path[n] = rings[n].First()
			x = path[n].Value
		}
		if capped := s.capped(now, x); capped != nil {
			s.reconsider(now, capped)
			continue
		}
		item := s.pop(now, x)
		item.lender = uint8(lender)
		for y, cost := x.parent, min(item.Cost, 1<<40)*fine; y != nil; y = y.parent {
			n--
			rings[n].Took(path[n], cost)
			y.guess, _ = rings[n].Soon(0)
		}
		s.charge(now, x, lender, item.Cost)
		for y := x; y != nil; y = y.parent {
			s.reconsider(now, y)
		}
		s.ahead.step(root)
		return item
	}
}

// capped returns the first class from the leaf up whose ceil has not enough for the
// head of the leaf's queue, having noted until when.
func (s *Scheduler) capped(now Time, leaf *shaping) *shaping {
	cost := s.ticks.Cost(leaf.fifo.head.Cost)
	for x := leaf; x != nil; x = x.parent {
		need := smaller(cost, x.ceil.Size()) // what no bucket holds is paid off as debt
		if !x.ceil.Has(x.ceilTAT, now, need) {
			x.capped = latest(x.ceil.When(x.ceilTAT, need))
			return x
		}
	}
	return nil
}
