package htb

import (
	"math"
	"math/bits"

	"github.com/google/btree"
)

// mode is what the Kernel dialect lets a class do. It changes when the class is
// charged and when its time in the wait queue has come, not in between.
type mode uint8

const (
	canSend   mode = iota // has tokens of its own
	mayBorrow             // has none, and is under its ceil
	cantSend              // is at its ceil
)

// kernelState is what the Kernel dialect keeps of a class.
//
// INVARIANT: a class with something queued at or below it (active != 0) stands, for
// each of its active prios, in the scheduler's rows when it can send, in its parent's
// feeds when it may borrow, and nowhere when it cannot send. An inner class is active
// for the prios whose feeds are not empty.
type kernelState struct {
	mode    mode
	active  uint8 // prios
	feeds   [8]circle
	deficit [MaxDepth]int64 // of a leaf, by the level of who pays
}

// rows8 holds, by level and prio, the classes that can send.
type rows8 [MaxDepth]struct {
	circle [8]circle
	used   uint8 // prios
}

// circle is a set of classes in the order of their ids, with a place in it.
type circle struct {
	tree  *btree.BTreeG[seat]
	place int // the class with this id, or the next one there is
}

type seat struct {
	id    int
	class *shaping
}

func (c *circle) add(x *shaping) {
	if c.tree == nil {
		c.tree = btree.NewG(8, func(a, b seat) bool { return a.id < b.id })
	}
	c.tree.ReplaceOrInsert(seat{x.own.ID, x})
}

func (c *circle) remove(x *shaping) { c.tree.Delete(seat{id: x.own.ID}) }
func (c *circle) empty() bool       { return c.tree == nil || c.tree.Len() == 0 }

// at returns the class at the place, nil beyond the last one.
func (c *circle) at() (x *shaping) {
	c.tree.AscendGreaterOrEqual(seat{id: c.place}, func(s seat) bool {
		x = s.class
		return false
	})
	return x
}

func (s *Scheduler) activateKernel(x *shaping) {
	if x.active == 0 {
		x.active = 1 << x.prio
		s.enter(x)
	}
}

func (s *Scheduler) deactivateKernel(x *shaping) {
	if x.active != 0 {
		s.withdraw(x)
		x.active = 0
	}
}

// enter makes x, with its active prios, known to who can pay for it: its parent, if
// it may borrow, and so on up, or the rows.
func (s *Scheduler) enter(x *shaping) {
	news := x.active
	for x.mode == mayBorrow && x.parent != nil && news != 0 {
		up := x.parent
		for m := news; m != 0; m &= m - 1 {
			p := bits.TrailingZeros8(m)
			if !up.feeds[p].empty() { // known further up already
				news &^= 1 << p
			}
			up.feeds[p].add(x)
		}
		up.active |= news
		x = x.parent
	}
	if x.mode == canSend && news != 0 {
		row := &s.rows[x.level]
		row.used |= news
		for m := news; m != 0; m &= m - 1 {
			row.circle[bits.TrailingZeros8(m)].add(x)
		}
	}
}

// withdraw is the inverse of enter.
func (s *Scheduler) withdraw(x *shaping) {
	gone := x.active
	for x.mode == mayBorrow && x.parent != nil && gone != 0 {
		up := x.parent
		left := uint8(0)
		for m := gone; m != 0; m &= m - 1 {
			p := bits.TrailingZeros8(m)
			up.feeds[p].remove(x)
			if up.feeds[p].empty() {
				left |= 1 << p
			}
		}
		gone = left
		up.active &^= gone
		x = x.parent
	}
	if x.mode == canSend && gone != 0 {
		row := &s.rows[x.level]
		for m := gone; m != 0; m &= m - 1 {
			p := bits.TrailingZeros8(m)
			row.circle[p].remove(x)
			if row.circle[p].empty() {
				row.used &^= 1 << p
			}
		}
	}
}

// remode brings the mode of x up to date with its tokens, and has it looked at again
// when they allow more.
func (s *Scheduler) remode(now Time, x *shaping) {
	m, at := canSend, now
	switch {
	case x.ceil.Size().Less(x.ceil.Owed(x.ceilTAT, now)):
		m, at = cantSend, latest(x.ceil.When(x.ceilTAT, Ticks{}))
	case x.rate.Size().Less(x.rate.Owed(x.rateTAT, now)):
		m, at = mayBorrow, latest(x.rate.When(x.rateTAT, Ticks{}))
	}
	if m != x.mode {
		if x.active != 0 && x.mode != cantSend {
			s.withdraw(x)
		}
		x.mode = m
		if x.active != 0 && m != cantSend {
			s.enter(x)
		}
	}
	s.sleepers.sleep(x, now, at)
}

// dequeueKernel serves the lowest level first, within it the lowest prio, within that
// by deficit round robin.
func (s *Scheduler) dequeueKernel(now Time) *Item {
	for level := range s.rows {
		row := &s.rows[level]
		if row.used == 0 {
			continue
		}
		prio := bits.TrailingZeros8(row.used)
		x := s.turn(&row.circle[prio], prio)
		item := s.pop(now, x)
		x.deficit[level] -= item.Cost
		if x.deficit[level] < 0 {
			x.deficit[level] += x.kernelQuantum()
			around := &row.circle[prio]
			if level > 0 {
				around = &x.parent.feeds[prio]
			}
			around.place = x.own.ID + 1
		}
		if x.fifo.Len() == 0 {
			s.deactivateKernel(x)
		}
		lender := 0
		for y := x; int(y.level) < level; y = y.parent {
			lender++
		}
		item.lender = uint8(lender)
		s.charge(now, x, lender, item.Cost)
		for y := x; y != nil; y = y.parent {
			y.forgive(now)
			s.remode(now, y)
		}
		return item
	}
	return nil
}

// turn goes down from a row to the leaf whose turn it is. Where a circle is at its
// end it begins anew, and the one above goes on.
func (s *Scheduler) turn(row *circle, prio int) *shaping {
	var path [MaxDepth + 1]*circle
	n := 0
	path[0] = row
	for {
		c := path[n]
		x := c.at()
		if x == nil {
			c.place = 0
			if n > 0 {
				n--
				path[n].place++ // it stands at the class whose feed was at its end
			}
			continue
		}
		c.place = x.own.ID
		if x.level == 0 {
			return x
		}
		n++
		path[n] = &x.feeds[prio]
	}
}

// kernelQuantum returns what a turn adds to a leaf.
func (x *shaping) kernelQuantum() int64 {
	return max(1, int64(min(x.class.spec.Weight(), math.MaxInt64/4)))
}

// forgive keeps a debt of rate from growing beyond what a minute pays, as Linux does:
// in-rate leaves below an oversubscribed class charge it without asking.
func (x *shaping) forgive(now Time) {
	x.rateTAT = x.rate.AtMost(x.rateTAT, now, mostDebt)
	x.ceilTAT = x.ceil.AtMost(x.ceilTAT, now, mostDebt)
}

const mostDebt = 60_000_000_000 // a minute
